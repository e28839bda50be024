"""The governor: sole holder of an actuator sink; sends what is finite, in limits, slew-limited, fresh and allowed, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard.errors import SafetyError
from onboard.messages import BoardReport, Floats, Setpoints, frozen
from onboard.ports import ActuatorSink
from onboard.robot import RobotSpec
from onboard.safety.table import State

LONGEST_STEP_S = 0.05  # a late tick may not earn a bigger step than this much time allows


@dataclass(slots=True)
class GovernorCounts:
    """Violations prevented, since start. clamped and slewed count actuator values, the others count whole commands."""

    issued: int = 0
    not_finite: int = 0
    wrong_shape: int = 0
    expired: int = 0
    blocked: int = 0
    clamped: int = 0
    slewed: int = 0

    @property
    def prevented(self) -> int:
        """All commands and values that would have broken a rule."""
        return self.not_finite + self.wrong_shape + self.expired + self.clamped + self.slewed


class Governor:
    """Checks every command of one robot before it reaches the boards.

    In ARMING and DEGRADED the last issued values are repeated, whatever is asked for. In ACTIVE and TEACHING a refused or
    missing command repeats the last good one until that is older than the robot file's command_ttl_ms; then nothing is sent,
    and the boards go to their safe state by themselves after deadline_ms. In all other states nothing is sent.
    """

    def __init__(self, spec: RobotSpec, sink: ActuatorSink) -> None:
        if spec.actuators is None:
            raise SafetyError(f"{spec.name} has no actuators to govern")
        self._sink = sink
        self._low, self._high = spec.actuators.min_pressure_pa, spec.actuators.max_pressure_pa
        self._slew_per_s = spec.actuators.max_slew_pa_per_s
        self._ttl_s = spec.actuators.command_ttl_ms / 1000.0
        self._channels = len(spec.structure.cylinders)
        self._first = {board.id: (board.first, board.channels) for board in spec.actuators.boards}
        self._safe = spec.actuators.safe_pressure_pa
        self._good: Setpoints | None = None
        self._last = np.full(self._channels, self._safe)
        self._last_s: float | None = None
        self.counts = GovernorCounts()
        self.not_finite = False  # the newest command was refused as not a number

    @property
    def issued(self) -> Floats | None:
        """The values sent last (C,), or None if nothing has been sent since arming."""
        return None if self._last_s is None else frozen(self._last)

    def arm(self, epoch: int, measured: Floats) -> None:
        """Ask all boards to arm under `epoch`. Commands begin at `measured` (C,), so that nothing jumps."""
        start = np.asarray(measured, dtype=np.float64)
        usable = start.shape == (self._channels,)
        start = np.where(np.isfinite(start), start, self._safe) if usable else np.full(self._channels, self._safe)
        self._last = np.clip(start, self._low, self._high)
        self._last_s, self._good, self.not_finite = None, None, False
        self._sink.arm(epoch)

    def arm_again(self, epoch: int) -> None:
        """Ask again: a board that was not ready, or whose frame was lost, still arms under `epoch`; others take no notice."""
        self._sink.arm(epoch)

    def disarm(self) -> None:
        """Ask all boards to disarm; nothing more is sent."""
        self._forget()
        self._sink.disarm()

    def stop(self) -> None:
        """Ask all boards for their safe state, now."""
        self._forget()
        self._sink.stop()

    def reports(self) -> Sequence[BoardReport]:
        """The newest report of every board."""
        return self._sink.reports()

    def measured(self) -> Floats:
        """Measured pressures of all channels (C,) [Pa] by the newest reports; NaN where a board has not reported."""
        out = np.full(self._channels, np.nan)
        for report in self._sink.reports():
            board = self._first.get(report.board)
            if board is not None and len(report.measured) == board[1]:
                out[board[0] : board[0] + board[1]] = report.measured
        return out

    def issue(self, t_s: float, setpoints: Setpoints | None, state: State) -> Setpoints | None:
        """Send what may be sent at `t_s` and return it, or None if nothing was. Call once per control tick."""
        if state in (State.ARMING, State.DEGRADED):
            return self._send(t_s, self._last, f"hold:{state.value}")
        if state not in (State.ACTIVE, State.TEACHING):
            self.counts.blocked += setpoints is not None
            return None
        if setpoints is not None and self._accept(setpoints):
            self._good = setpoints
        if self._good is None:
            return None
        if not 0.0 <= t_s - self._good.t_s <= self._ttl_s:
            self.counts.expired += 1
            return None
        return self._send(t_s, self._good.value, self._good.source)

    def _accept(self, setpoints: Setpoints) -> bool:
        if setpoints.value.shape != (self._channels,):
            self.counts.wrong_shape += 1
            return False
        self.not_finite = not (np.isfinite(setpoints.value).all() and np.isfinite(setpoints.t_s))
        self.counts.not_finite += self.not_finite
        return not self.not_finite

    def _send(self, t_s: float, wanted: Floats, source: str) -> Setpoints:
        inside = np.clip(wanted, self._low, self._high)
        elapsed_s = 0.0 if self._last_s is None else t_s - self._last_s
        step = self._slew_per_s * min(max(elapsed_s, 0.0), LONGEST_STEP_S)
        limited = np.clip(inside, self._last - step, self._last + step)
        self.counts.clamped += int(np.count_nonzero(inside != wanted))
        self.counts.slewed += int(np.count_nonzero(limited != inside))
        self.counts.issued += 1
        self._last, self._last_s = limited, t_s
        issued = Setpoints(t_s, frozen(limited), source)
        self._sink.send(issued)
        return issued

    def _forget(self) -> None:
        self._last_s, self._good = None, None
