"""The only way to spool motors: finite, within full speed and the cable's travel, slew-limited, fresh and allowed, or off.

Values are shares of full speed in [-1, 1], positive ones shorten the cable. Motors that are off hold: the cables stay as they
are. Off is therefore what is sent while arming and while degraded, and what boards do by themselves on silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard.messages import BoardReport, Floats, Setpoints, frozen
from onboard.ports import ActuatorSink
from onboard.safety.table import State

END_MARGIN_U = 0.02  # this near to an end a cable is there: a spool driven against it would stall
LONGEST_STEP_S = 0.05  # a late tick may not earn a bigger step than this much time allows


@dataclass(frozen=True, slots=True)
class MotorLimits:
    """motors: how many. slew_per_s: fastest change of a value. rest_min_u, rest_max_u: a cable's travel [u]. ttl_s: of a wish."""

    motors: int
    slew_per_s: float
    rest_min_u: float
    rest_max_u: float
    ttl_s: float


@dataclass(slots=True)
class MotorCounts:
    """What was prevented since start. clamped, slewed and ends count values, the others whole commands."""

    issued: int = 0
    not_finite: int = 0
    wrong_shape: int = 0
    expired: int = 0
    blocked: int = 0
    clamped: int = 0
    slewed: int = 0
    ends: int = 0


class MotorGovernor:
    """Holds the sink of one robot's motor boards; everything sent goes through `issue`."""

    def __init__(self, limits: MotorLimits, sink: ActuatorSink) -> None:
        self._limits, self._sink = limits, sink
        self._off = np.zeros(limits.motors)
        self._last, self._last_s = self._off, -np.inf
        self.counts = MotorCounts()
        self.not_finite = False  # the newest wish was refused as not a number

    @property
    def issued(self) -> Floats:
        """What was sent last (motors,)."""
        return frozen(self._last)

    def arm(self, epoch: int) -> None:
        """Ask all boards to arm under `epoch`, motors off; asking again harms nothing."""
        self._last, self.not_finite = self._off, False
        self._sink.arm(epoch)

    def disarm(self) -> None:
        """Ask all boards to disarm."""
        self._last = self._off
        self._sink.disarm()

    def stop(self) -> None:
        """Ask all boards for motors off and latched, now."""
        self._last = self._off
        self._sink.stop()

    def reports(self) -> Sequence[BoardReport]:
        """The newest report of every board."""
        return self._sink.reports()

    def issue(self, t_s: float, wanted: Setpoints | None, rest_u: Floats | None, state: State) -> Setpoints | None:
        """Send what may be sent at `t_s` and return it. rest_u (motors,): newest rest lengths [u], or None while unknown.

        Without a usable wish, and with unknown rest lengths, the motors are told to be off.
        """
        if state not in (State.ARMING, State.DEGRADED, State.ACTIVE):
            self.counts.blocked += wanted is not None
            return None
        value = self._off
        source = f"off:{state.value}"
        if state is State.ACTIVE and rest_u is not None and wanted is not None and self._accept(t_s, wanted):
            value, source = self._within(wanted.value, rest_u), wanted.source
        step = self._limits.slew_per_s * min(max(t_s - self._last_s, 0.0), LONGEST_STEP_S)
        limited = np.clip(value, self._last - step, self._last + step) if value.any() else value  # off is never slewed
        self.counts.slewed += int(np.count_nonzero(limited != value))
        self.counts.issued += 1
        self._last, self._last_s = limited, t_s
        issued = Setpoints(t_s, frozen(limited), source)
        self._sink.send(issued)
        return issued

    def _accept(self, t_s: float, wanted: Setpoints) -> bool:
        if wanted.value.shape != (self._limits.motors,):
            self.counts.wrong_shape += 1
            return False
        self.not_finite = not (np.isfinite(wanted.value).all() and np.isfinite(wanted.t_s))
        if self.not_finite:
            self.counts.not_finite += 1
            return False
        if not 0.0 <= t_s - wanted.t_s <= self._limits.ttl_s:
            self.counts.expired += 1
            return False
        return True

    def _within(self, wanted: Floats, rest_u: Floats) -> Floats:
        inside = np.clip(wanted, -1.0, 1.0)
        self.counts.clamped += int(np.count_nonzero(inside != wanted))
        low, high = self._limits.rest_min_u + END_MARGIN_U, self._limits.rest_max_u - END_MARGIN_U
        at_end = ((rest_u <= low) & (inside > 0.0)) | ((rest_u >= high) & (inside < 0.0)) | ~np.isfinite(rest_u)
        self.counts.ends += int(np.count_nonzero(at_end))
        return np.where(at_end, 0.0, inside)
