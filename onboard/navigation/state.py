"""One idea: what is known of the robot now, from poses that come late and not always, and from its boards' rest lengths.

Speeds are the slope of the last rest lengths; what a slack cable measures is the distance of its caps less the hardware between.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from onboard.messages import BoardReport, Floats
from onboard.planning.costs import StrutState
from onboard.planning.settings import PlannerSettings
from onboard.planning.strut_state import StrutTracker
from onboard.three_bar_robot import CABLES, CAPS, ThreeBar

SLOPE_REPORTS = 4  # of a board, which speeds come from: 60 ms at 50 Hz


class StateKeeper:
    """Feeds the tracker that planners ask, and answers what gaits, governor and conditions need."""

    def __init__(self, spec: ThreeBar, settings: PlannerSettings) -> None:
        self.spec, self.settings = spec, settings
        self.tracker = StrutTracker(settings.state, StrutState(CAPS, CABLES), spec.bodies.cap_distance_u)
        self.pose_s: float | None = None
        self.caps_u: Floats | None = None
        self._pairs = np.array(spec.tendons.driven.pairs)
        self._boards = [board.motors for board in spec.motors.boards]
        self._last: list[deque[tuple[float, Floats]]] = [deque(maxlen=SLOPE_REPORTS) for _ in self._boards]

    def add_pose(self, t_s: float, caps_u: Floats) -> bool:
        """Cap positions (C, 3) [u] as of `t_s`; refused when not finite or not newer."""
        if caps_u.shape != (CAPS, 3) or not self.tracker.add_pose(t_s, caps_u):
            return False
        self.pose_s, self.caps_u = t_s, caps_u
        return True

    def add_report(self, board: int, report: BoardReport) -> None:
        """A board's rest lengths [u]."""
        if report.measured.shape == (len(self._boards[board]),) and np.isfinite(report.measured).all():
            self._last[board].append((report.t_s, report.measured))

    def tick(self, t_s: float) -> None:
        """Once a control tick: the motors' newest state to the tracker."""
        rest_u, speed = self.rest_u, np.zeros(CABLES)
        if rest_u is None:
            return
        for motors, last in zip(self._boards, self._last, strict=True):
            (begin_s, begin), (end_s, end) = last[0], last[-1]
            if end_s > begin_s:
                # winding in is a positive speed
                speed[motors] = (begin - end) / (end_s - begin_s) / self.spec.actuators.spool_radius_u
        newest_s = min(last[-1][0] for last in self._last)
        self.tracker.add_motors(newest_s, rest_u, speed)

    @property
    def rest_u(self) -> Floats | None:
        """Rest lengths (6,) [u], None until every board has reported."""
        if any(not last for last in self._last):
            return None
        rest_u = np.empty(CABLES)
        for motors, last in zip(self._boards, self._last, strict=True):
            rest_u[motors] = last[-1][1]
        return rest_u

    @property
    def length_u(self) -> Floats | None:
        """Lengths (6,) [u] of the driven cables by the newest pose."""
        if self.caps_u is None:
            return None
        ends = self.caps_u[self._pairs[:, 1]] - self.caps_u[self._pairs[:, 0]]
        length: Floats = np.linalg.norm(ends, axis=1) - self.settings.mppi.cable_offset_u
        return length
