"""The monitor: turns the newest estimate, board reports and counters into the supervisor's condition bits, once a tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onboard.link.wire_types import BoardFault
from onboard.messages import BoardReport, EstimateFlag, Floats, Ints, PoseEstimate, SensorFlag
from onboard.robot import RobotSpec
from onboard.safety.table import Condition

OVERLOAD_WINDOW_S = 1.0
OVERLOAD_SHARE = 0.2  # of the ticks in a window that may be missed
REFUSED_PER_S = 20.0  # refused packets a second that are worth a warning
SHOWN = 6  # struts named in a line
_UNUSABLE = (
    SensorFlag.STALE
    | SensorFlag.FROZEN
    | SensorFlag.NOT_FINITE
    | SensorFlag.MISSING
    | SensorFlag.INCONSISTENT
    | SensorFlag.UNSYNCHRONISED
)
_STRUT_BITS: tuple[tuple[SensorFlag, Condition], ...] = (
    (SensorFlag.STALE | SensorFlag.MISSING | SensorFlag.NOT_FINITE, Condition.STRUT_MISSING),
    (SensorFlag.FROZEN, Condition.STRUT_FROZEN),
    (SensorFlag.SATURATED, Condition.STRUT_SATURATED),
    (SensorFlag.INCONSISTENT, Condition.STRUT_INCONSISTENT),
    (SensorFlag.BUS_ERROR, Condition.STRUT_BUS_ERROR),
    (SensorFlag.SETTLING, Condition.STRUT_SETTLING),
    (SensorFlag.UNSYNCHRONISED, Condition.STRUT_UNSYNCHRONISED),
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the daemon knows at one supervisor tick.

    estimate: the newest, or None before the first. issued_pa (C,): the governor's last set-points, None while nothing is sent.
    not_finite: the newest set-points were refused as not finite. overruns, ticks: totals of all control loops.
    packets_refused: total. epoch: the supervisor's present arm epoch. degraded_s: time degraded within the robot file's window.
    problems: by strut, what a person must see to; without struts that have none.
    """

    t_s: float
    estimate: PoseEstimate | None
    reports: Sequence[BoardReport] = ()
    epoch: int = 0
    degraded_s: float = 0.0
    problems: Mapping[str, str] = field(default_factory=dict)
    issued_pa: Floats | None = None
    not_finite: bool = False
    ticks: int = 0
    overruns: int = 0
    packets_refused: int = 0
    link_down: bool = False
    recorder_failed: bool = False


@dataclass(slots=True)
class _Window:
    """Growth of a total over the last window."""

    start_s: float = -1e300
    base: tuple[int, ...] = ()
    growth: tuple[float, ...] = field(default_factory=tuple)

    def update(self, t_s: float, *totals: int) -> tuple[float, ...]:
        if len(self.base) != len(totals) or not 0.0 <= t_s - self.start_s <= 10.0 * OVERLOAD_WINDOW_S:
            self.start_s, self.base, self.growth = t_s, totals, tuple(0.0 for _ in totals)
        elif t_s - self.start_s >= OVERLOAD_WINDOW_S:
            elapsed = t_s - self.start_s
            self.growth = tuple((now - then) / elapsed for now, then in zip(totals, self.base, strict=True))
            self.start_s, self.base = t_s, totals
        return self.growth


class ConditionMonitor:
    """Condition bits and their particulars for one robot; keeps only what must be timed: pressures that do not follow, rates."""

    def __init__(self, spec: RobotSpec) -> None:
        self._spec = spec
        self.details: dict[Condition, str] = {}
        channels = len(spec.structure.cylinders) if spec.actuators else 0
        self._following_s = np.full(channels, np.nan)  # when each channel was last within the tracking error
        self._overruns, self._refused = _Window(), _Window()

    def assess(self, inputs: Inputs) -> Condition:
        """The bits that hold now; `details` then says what, where and how much."""
        self.details = {}
        bits = self._estimate(inputs) | self._struts(inputs) | self._boards(inputs) | self._rates(inputs)
        bits |= self._say(inputs.not_finite, Condition.NOT_A_NUMBER, "set-points refused")
        bits |= self._say(inputs.link_down, Condition.LINK_DOWN, "")
        limits = self._spec.safety
        often = f"{inputs.degraded_s:.1f} s of the last {limits.degraded_window_s:g} s"
        bits |= self._say(inputs.degraded_s > limits.degraded_budget_s, Condition.DEGRADED_OFTEN, often)
        bits |= self._say(inputs.recorder_failed, Condition.RECORDER_FAILED, "")
        return bits

    def _say(self, holds: bool, bit: Condition, detail: str) -> Condition:
        if not holds:
            return Condition.NONE
        if detail:
            before = self.details.get(bit)
            self.details[bit] = f"{before}, {detail}" if before else detail
        return bit

    def _estimate(self, inputs: Inputs) -> Condition:
        estimate, limits = inputs.estimate, self._spec.safety
        if estimate is None:
            return self._say(True, Condition.ESTIMATE_LOST, "none yet")
        age_ms = 1000.0 * (inputs.t_s - estimate.t_s + estimate.age_s)
        numbers = (estimate.position_m, estimate.rotation, estimate.cable_length_m, estimate.covariance)
        if not all(np.isfinite(part).all() for part in numbers) or not np.isfinite(age_ms):
            return self._say(True, Condition.NOT_A_NUMBER, "pose estimate")
        sigma_m = estimate.tip_sigma_m
        # Tilt of the last disc: angle between its normal and the vertical.
        tilt_deg = float(np.degrees(np.arccos(np.clip(estimate.rotation[-1, 2, 2], -1.0, 1.0))))
        flags = EstimateFlag(estimate.flags)
        uncertain = sigma_m > limits.estimate_max_sigma_m or bool(flags & EstimateFlag.UNCERTAIN)
        bits = self._say(age_ms > limits.estimate_max_age_ms, Condition.ESTIMATE_OLD, f"{age_ms:.0f} ms")
        bits |= self._say(uncertain, Condition.ESTIMATE_UNCERTAIN, f"tip +-{1000.0 * sigma_m:.0f} mm")
        bits |= self._say(bool(flags & EstimateFlag.LOST), Condition.ESTIMATE_LOST, "")
        bits |= self._say(bool(flags & EstimateFlag.WARPED), Condition.RING_WARPED, "")
        return bits | self._say(tilt_deg > limits.max_tilt_deg, Condition.TILT_LIMIT, f"{tilt_deg:.0f} degrees")

    def _struts(self, inputs: Inputs) -> Condition:
        told = "; ".join(f"{strut}: {problem}" for strut, problem in list(inputs.problems.items())[:SHOWN])
        bits = self._say(bool(told), Condition.STRUT_PROBLEM, told)
        if inputs.estimate is None:
            return bits
        flags = inputs.estimate.strut_flags
        for mask, bit in _STRUT_BITS:
            bad = np.flatnonzero(flags & int(mask))
            if bad.size:
                bits |= self._say(True, bit, self._names(bad))
        falling = np.flatnonzero(flags & int(SensorFlag.FREE_FALL))
        bits |= self._say(falling.size > len(flags) // 2, Condition.FREE_FALL, f"{falling.size} struts")
        tower = self._spec.structure
        unusable = ((flags & int(_UNUSABLE)) != 0).reshape(tower.modules, tower.struts_per_module).sum(axis=1)
        few = np.flatnonzero(tower.struts_per_module - unusable < 2)
        return bits | self._say(few.size > 0, Condition.MODULE_MISSING, "module " + ", ".join(str(m) for m in few))

    def _boards(self, inputs: Inputs) -> Condition:
        valves = self._spec.actuators
        if valves is None:
            return Condition.NONE
        t_s, silence_s = inputs.t_s, self._spec.safety.board_silence_ms / 1000.0
        reports: Mapping[str, BoardReport] = {report.board: report for report in inputs.reports}
        bits, ready, armed = Condition.NONE, True, True
        for board in valves.boards:
            report = reports.get(board.id)
            if report is None or t_s - report.t_s > silence_s:
                ready = armed = False
                heard = "never heard" if report is None else f"silent for {1000.0 * (t_s - report.t_s):.0f} ms"
                bits |= self._say(True, Condition.BOARD_SILENT, f"{board.id} {heard}")
                continue
            fault = BoardFault(report.fault)
            unconfigured = bool(fault & (BoardFault.UNCONFIGURED | BoardFault.CONFIG_UNREADABLE))
            broken = bool(fault & (BoardFault.OUTPUT | BoardFault.MEASUREMENT))
            ready &= report.ready and not unconfigured and not broken
            mine = report.armed and not report.latched and report.epoch == inputs.epoch
            armed &= mine
            if not mine:
                refused = ", ".join(f"{reason} {count}" for reason, count in report.refused.items())
                self._say(
                    True, Condition.BOARDS_ARMED, f"{board.id} is not armed" + (f", it has refused {refused}" if refused else "")
                )
            bits |= self._say(unconfigured, Condition.BOARD_UNCONFIGURED, board.id)
            bits |= self._say(broken, Condition.BOARD_OUTPUT, board.id)
            bits |= self._say(report.stop_input, Condition.STOP_INPUT, board.id)
            bits |= self._say(report.latched, Condition.BOARD_LATCHED, board.id)
            bits |= self._tracking(inputs, report, board.first, board.channels)
        if ready:
            bits |= Condition.BOARDS_READY
        return bits | Condition.BOARDS_ARMED if armed else bits

    def _tracking(self, inputs: Inputs, report: BoardReport, first: int, channels: int) -> Condition:
        valves = self._spec.actuators
        assert valves is not None  # only called for robots with actuators
        part = slice(first, first + channels)
        if inputs.issued_pa is None or len(report.measured) != channels:
            self._following_s[part] = inputs.t_s
            return Condition.NONE
        error_pa = np.abs(report.measured - inputs.issued_pa[part])
        # A measurement that is not a number counts as not following: comparison with NaN is false.
        follows = (error_pa <= valves.max_tracking_error_pa) | np.isnan(self._following_s[part])
        self._following_s[part] = np.where(follows, inputs.t_s, self._following_s[part])
        late = np.flatnonzero(inputs.t_s - self._following_s[part] > valves.tracking_timeout_ms / 1000.0)
        detail = ", ".join(f"{report.board} channel {k}: {error_pa[k] / 1000.0:.0f} kPa off" for k in late[:4])
        return self._say(late.size > 0, Condition.PRESSURE_NOT_FOLLOWING, detail)

    def _rates(self, inputs: Inputs) -> Condition:
        ticks_hz, overruns_hz = self._overruns.update(inputs.t_s, inputs.ticks, inputs.overruns)
        (refused_hz,) = self._refused.update(inputs.t_s, inputs.packets_refused)
        missed = overruns_hz / max(ticks_hz + overruns_hz, 1.0)
        bits = self._say(missed > OVERLOAD_SHARE, Condition.LOOP_OVERLOAD, f"{100.0 * missed:.0f} % of ticks")
        return bits | self._say(refused_hz > REFUSED_PER_S, Condition.PACKETS_REFUSED, f"{refused_hz:.0f} a second")

    def _names(self, struts: Ints) -> str:
        shown = [self._spec.struts[int(k)] for k in struts[:SHOWN]]
        return ", ".join(shown) + (" ..." if len(struts) > SHOWN else "")
