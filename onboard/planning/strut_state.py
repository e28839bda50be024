"""One idea: the state of a strut robot from cap positions that come late, noisy and not always, and from what its motors report.

Velocities are the slope of a line through the last positions of each cap; struts are rigid, which both are held to. While poses
are missing the newest one stands, with its time: whoever plans leads it in with the commands given since.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from onboard.errors import EstimationError
from onboard.messages import Floats
from onboard.planning.costs import StrutState
from onboard.planning.settings import StateTable

HISTORY_S = 2.0


class StrutTracker:
    """Keeps the last poses and motor reports. strut_u: length between the caps of a strut."""

    def __init__(self, table: StateTable, layout: StrutState, strut_u: float) -> None:
        self.table, self.layout, self.strut_u = table, layout, strut_u
        self._poses: deque[tuple[float, Floats]] = deque()
        self._motors: deque[tuple[float, Floats, Floats]] = deque()
        self.refused = 0

    def add_pose(self, t_s: float, caps: Floats) -> bool:
        """Cap positions (C, 3) [u] as of `t_s`. Refused and counted: not finite, or not newer than the last one."""
        newer = not self._poses or t_s > self._poses[-1][0]
        if not (newer and np.isfinite(t_s) and np.isfinite(caps).all()):
            self.refused += 1
            return False
        self._poses.append((t_s, np.array(caps, dtype=float)))
        while self._poses[0][0] < t_s - HISTORY_S:
            self._poses.popleft()
        return True

    def add_motors(self, t_s: float, rest_u: Floats, speed_rad_s: Floats) -> bool:
        """Rest lengths [u] and spool speeds (nu,) each as of `t_s`; refused and counted when not finite."""
        if not (np.isfinite(rest_u).all() and np.isfinite(speed_rad_s).all()):
            self.refused += 1
            return False
        self._motors.append((t_s, np.array(rest_u), np.array(speed_rad_s)))
        while self._motors[0][0] < t_s - HISTORY_S:
            self._motors.popleft()
        return True

    def caps(self) -> Floats:
        """The newest cap positions (C, 3), unfiltered. Raises EstimationError when there never was one."""
        if not self._poses:
            raise EstimationError("no pose has been seen yet")
        return self._poses[-1][1]

    def state(self, now_s: float) -> tuple[float, Floats]:
        """(t_s, state (nx,)): the newest state there is and when it was true.

        Raises EstimationError when there are too few poses, when the newest is older than `coast_s`, or when motors are silent.
        """
        if not self._poses or now_s - self._poses[-1][0] > self.table.coast_s:
            raise EstimationError("the pose source is silent")
        if not self._motors or now_s - self._motors[-1][0] > self.table.coast_s:
            raise EstimationError("the motor boards are silent")
        t_s = self._poses[-1][0]
        recent = [(t, caps) for t, caps in self._poses if t >= t_s - self.table.velocity_window_s - 1e-9]
        times = np.array([t for t, _ in recent]) - t_s
        if -times[0] < self.table.velocity_least_s - 1e-9:
            raise EstimationError("too few poses to tell velocities")
        caps, velocity = self._line(times, np.array([c for _, c in recent]))
        rest, speed = self._motors_at(t_s)
        return t_s, np.concatenate([caps.ravel(), velocity.ravel(), rest, speed])

    def _line(self, times: Floats, caps: Floats) -> tuple[Floats, Floats]:
        """Value at time 0 and slope (C, 3) of the least-squares line through caps (N, C, 3), made rigid strut by strut."""
        middle = times.mean()
        slope = np.tensordot(times - middle, caps, axes=1) / np.sum((times - middle) ** 2)
        end = caps.mean(axis=0) - middle * slope
        along = end[1::2] - end[0::2]
        length = np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
        axis, centre = along / length, 0.5 * (end[1::2] + end[0::2])
        end[0::2], end[1::2] = centre - 0.5 * self.strut_u * axis, centre + 0.5 * self.strut_u * axis
        stretch = np.einsum("ri,ri->r", slope[1::2] - slope[0::2], axis)[:, None] * axis
        slope[0::2] += 0.5 * stretch
        slope[1::2] -= 0.5 * stretch
        return end, slope

    def _motors_at(self, t_s: float) -> tuple[Floats, Floats]:
        """The motors' report closest to `t_s`."""
        _, rest, speed = min(self._motors, key=lambda item: abs(item[0] - t_s))
        return rest, speed
