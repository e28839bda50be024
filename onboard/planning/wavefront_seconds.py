"""One idea: the wavefront in seconds, in the place of the cost that knows the heading: what knowing it is worth."""

from __future__ import annotations

import numpy as np

from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.planning.settings import ValueTable
from onboard.planning.terrain import Terrain
from onboard.planning.wavefront import Wavefront


class WavefrontSeconds:
    """Answers as a ValueField does, whatever the heading: cells to go at the pace of straight rolling."""

    def __init__(self, terrain: Terrain, table: ValueTable) -> None:
        self.terrain = terrain
        self._seconds_per_cell = terrain.cell * table.roll_times_s[0] / table.roll_u
        self.front: Wavefront | None = None

    def set_goal(self, goal: Floats) -> None:
        """Grow anew from `goal` (2,) [u]. Raises PlanningError or NotANumberError; the old goal then stays."""
        front = Wavefront(self.terrain.grid(goal))
        front.set_goal(goal)
        self.front = front

    def cost(self, poses: Floats) -> Floats:
        """Seconds to go (...) from planar poses (..., 3); in an obstacle worse than anywhere outside. Raises without a goal."""
        if self.front is None:
            raise PlanningError("the cost to go has no goal yet")
        points = np.asarray(poses, dtype=float)[..., :2]
        cells = self.front.cost(points)
        straight = np.linalg.norm(points - self.front.goal, axis=-1) / self.terrain.cell
        inside = 2.0 * sum(self.front.grid.clearance.shape) + straight
        seconds: Floats = self._seconds_per_cell * np.where(np.isposinf(cells), inside, cells)
        return seconds
