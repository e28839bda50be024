"""One idea: what the supervisor judges a rolling strut robot by: age of its pose, its plan, its motor boards, its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onboard.link.wire_types import BoardFault
from onboard.messages import BoardReport
from onboard.planning.recovery import Trouble
from onboard.runtime.parts import LoopTotals
from onboard.safety.table import Condition
from onboard.three_bar_robot import Safety

OVERLOAD_SHARE = 0.2  # of the ticks in a second that may be missed
OVERLOAD_WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known at one supervisor tick.

    pose_s: when the newest true pose was taken, None before the first. idle_s: how long there has been a way to go and nothing
    to go by. not_finite: the newest wish was not a number. trouble: what it is being freed from, or could not be.
    """

    t_s: float
    pose_s: float | None
    idle_s: float
    reports: Mapping[str, BoardReport]
    epoch: int
    degraded_s: float
    not_finite: bool
    totals: LoopTotals
    trouble: Trouble | None = None


class Conditions:
    """Bits and their particulars; keeps only what a rate needs."""

    def __init__(self, boards: tuple[str, ...], safety: Safety) -> None:
        self.boards, self.safety = boards, safety
        self.details: dict[Condition, str] = {}
        self._window = (-1e300, 0, 0)
        self._missed = 0.0

    def assess(self, inputs: Inputs) -> Condition:
        """The bits that hold now; `details` then says what, where and how much."""
        self.details = {}
        safety, t_s = self.safety, inputs.t_s
        bits = self._boards(inputs)
        if inputs.pose_s is None:
            bits |= self._say(True, Condition.ESTIMATE_LOST, "no pose yet")
        else:
            age_ms = 1e3 * (t_s - inputs.pose_s)
            bits |= self._say(age_ms > safety.pose_max_age_ms, Condition.ESTIMATE_OLD, f"last pose {age_ms:.0f} ms ago")
        idle = inputs.idle_s > 1e-3 * safety.plan_silence_ms
        bits |= self._say(idle, Condition.PLAN_EXPIRED, f"nothing to play for {inputs.idle_s:.1f} s")
        bits |= self._say(inputs.not_finite, Condition.NOT_A_NUMBER, "motor command refused")
        often = f"{inputs.degraded_s:.1f} s of the last {safety.degraded_window_s:g} s"
        bits |= self._say(inputs.degraded_s > safety.degraded_budget_s, Condition.DEGRADED_OFTEN, often)
        bits |= self._say(inputs.totals.recorder_failed, Condition.RECORDER_FAILED, "")
        bits |= self._say(inputs.totals.link_down, Condition.LINK_DOWN, "")
        trouble = inputs.trouble
        if trouble is not None:
            bit = Condition.ROBOT_TIPPED if trouble.kind == "tipped" else Condition.ROBOT_STUCK
            bits |= self._say(True, bit, trouble.text)
        missed = self._share_missed(t_s, inputs.totals)
        return bits | self._say(missed > OVERLOAD_SHARE, Condition.LOOP_OVERLOAD, f"{100 * missed:.0f} % of ticks")

    def _say(self, holds: bool, bit: Condition, detail: str) -> Condition:
        if not holds:
            return Condition.NONE
        if detail:
            before = self.details.get(bit)
            self.details[bit] = f"{before}, {detail}" if before else detail
        return bit

    def _boards(self, inputs: Inputs) -> Condition:
        bits, ready, armed = Condition.NONE, True, True
        for board in self.boards:
            report = inputs.reports.get(board)
            age_ms = None if report is None else 1e3 * (inputs.t_s - report.t_s)
            if report is None or age_ms is None or age_ms > self.safety.board_silence_ms:
                ready = armed = False
                heard = "never heard" if age_ms is None else f"silent for {age_ms:.0f} ms"
                bits |= self._say(True, Condition.BOARD_SILENT, f"{board} {heard}")
                continue
            fault = BoardFault(report.fault)
            unconfigured = bool(fault & (BoardFault.UNCONFIGURED | BoardFault.CONFIG_UNREADABLE))
            broken = bool(fault & (BoardFault.OUTPUT | BoardFault.MEASUREMENT))
            ready &= report.ready and not unconfigured and not broken
            mine = report.armed and not report.latched and report.epoch == inputs.epoch
            armed &= mine
            self._say(not mine, Condition.BOARDS_ARMED, f"{board} is not armed {dict(report.refused) or ''}".strip())
            bits |= self._say(unconfigured, Condition.BOARD_UNCONFIGURED, board)
            bits |= self._say(broken, Condition.BOARD_OUTPUT, board)
            bits |= self._say(report.stop_input, Condition.STOP_INPUT, board)
            bits |= self._say(report.latched, Condition.BOARD_LATCHED, board)
        bits |= Condition.BOARDS_READY if ready else Condition.NONE
        return bits | (Condition.BOARDS_ARMED if armed else Condition.NONE)

    def _share_missed(self, t_s: float, totals: LoopTotals) -> float:
        start_s, ticks, overruns = self._window
        if t_s - start_s >= OVERLOAD_WINDOW_S:
            if t_s - start_s <= 10.0 * OVERLOAD_WINDOW_S:
                missed = totals.overruns - overruns
                self._missed = missed / max(totals.ticks - ticks + missed, 1)
            self._window = (t_s, totals.ticks, totals.overruns)
        return self._missed
