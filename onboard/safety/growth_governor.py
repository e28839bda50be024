"""The only way to a growing robot's actuators: finite, in limits, slew-limited, fresh and allowed, or the shape is held.

What has grown does not come back and a base that turns sweeps the body: without a usable wish growth stops and everything else
stays where it is. The check valves open only when the lines have reached what the robot had when it was armed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard.growing.lines import CHANNELS, VALUES, LineMap
from onboard.messages import BoardReport, Floats, Setpoints, frozen
from onboard.ports import ActuatorSink
from onboard.safety.table import State

LONGEST_STEP_S = 0.05  # a late tick may not earn a bigger step than this much time allows
SETTLED = 0.02  # of the lines' range: this near to their set-points they have settled
GROWTH = 0


@dataclass(slots=True)
class Counts:
    """What was prevented since start. clamped and slewed count values, the others whole commands."""

    issued: int = 0
    not_finite: int = 0
    wrong_shape: int = 0
    expired: int = 0
    blocked: int = 0
    clamped: int = 0
    slewed: int = 0


class GrowthGovernor:
    """Holds the sink; everything sent goes through `issue`.

    start (4,): what the robot has before anything was commanded. slew (4,): fastest change a second; infinite for growth.
    """

    def __init__(self, lines: LineMap, start: Floats, slew: Floats, ttl_s: float, sink: ActuatorSink) -> None:
        self._map, self._sink, self._slew, self._ttl_s = lines, sink, slew, ttl_s
        self._last, self._last_s = np.asarray(start, dtype=np.float64).copy(), -np.inf
        self.free = False
        self.counts = Counts()
        self.not_finite = False  # the newest wish was refused as not a number

    @property
    def issued(self) -> Floats:
        """What was sent last (4,)."""
        return frozen(self._last)

    def arm(self, epoch: int) -> None:
        """Ask the board to arm under `epoch`, check valves shut; asking again harms nothing."""
        self._shut()
        self.not_finite = False
        self._sink.arm(epoch)

    def disarm(self) -> None:
        """Ask the board to disarm: growth stops, the shape is held."""
        self._shut()
        self._sink.disarm()

    def stop(self) -> None:
        """Ask the board for its safe state, now: growth stops, the shape is held."""
        self._shut()
        self._sink.stop()

    def reports(self) -> Sequence[BoardReport]:
        """The newest report of every board."""
        return self._sink.reports()

    def issue(self, t_s: float, wanted: Setpoints | None, state: State) -> Setpoints | None:
        """Send what may be sent at `t_s`; returns values (4,). Growth is zero unless ACTIVE with open valves and a good wish."""
        if state not in (State.ARMING, State.DEGRADED, State.ACTIVE):
            self.counts.blocked += wanted is not None
            return None
        value, source = self._last.copy(), f"hold:{state.value}"
        value[GROWTH] = self._map.low[GROWTH]
        if state is State.ACTIVE and not self.free:
            self.free = self._settled(value)
        elif state is State.ACTIVE and wanted is not None and self._accept(t_s, wanted):
            inside = np.clip(wanted.value, self._map.low, self._map.high)
            self.counts.clamped += int(np.count_nonzero(inside != wanted.value))
            step = self._slew * min(max(t_s - self._last_s, 0.0), LONGEST_STEP_S)
            value, source = np.clip(inside, self._last - step, self._last + step), wanted.source
            self.counts.slewed += int(np.count_nonzero(value != inside))
        self.counts.issued += 1
        self._last, self._last_s = value, t_s
        self._sink.send(Setpoints(t_s, frozen(self._map.to_pa(value, self.free)), source))
        return Setpoints(t_s, frozen(value), source)

    def measured(self) -> Floats | None:
        """Line pressures (5,) [Pa] by the newest report; None before the first."""
        for report in self._sink.reports():
            if report.measured.shape == (CHANNELS,) and np.isfinite(report.measured).all():
                return report.measured
        return None

    def _settled(self, value: Floats) -> bool:
        measured = self.measured()
        if measured is None:
            return False
        off = np.abs(measured - self._map.to_pa(value, False))[:-1]
        return bool((off <= SETTLED * (self._map.lines.high_pa - self._map.lines.low_pa)).all())

    def _shut(self) -> None:
        self.free = False
        self._last[GROWTH] = self._map.low[GROWTH]

    def _accept(self, t_s: float, wanted: Setpoints) -> bool:
        if wanted.value.shape != (len(VALUES),):
            self.counts.wrong_shape += 1
            return False
        self.not_finite = not (np.isfinite(wanted.value).all() and np.isfinite(wanted.t_s))
        if self.not_finite:
            self.counts.not_finite += 1
            return False
        if not 0.0 <= t_s - wanted.t_s <= self._ttl_s:
            self.counts.expired += 1
            return False
        return True
