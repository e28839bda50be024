"""One idea: a world of boxes seen from above: how high the ground is, where a robot can stand, how far the next obstacle is.

A cell's ground is the lowest surface with `standing_u` free above it; so a beam with room beneath is open and a wall is a high
plateau that nobody can climb. What is joined to a place without a step higher than `step_u` is free from there. Ramps come out
right by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.errors import NotANumberError, PlanningError
from onboard.messages import Bools, Floats, frozen
from onboard.planning.distance import distance_to, flood
from onboard.planning.wavefront import Grid

OPEN_SKY_U = 1e3
SURFACE_U = 0.02  # two surfaces closer than this are one


@dataclass(frozen=True, slots=True)
class Terrain:
    """Cells of `cell` [u] from `origin` (2,). height (nx, ny): ground [u]. ceiling (nx, ny): what hangs lowest above it [u]."""

    origin: Floats
    cell: float
    height: Floats
    ceiling: Floats
    step_u: float

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells (nx, ny)."""
        return int(self.height.shape[0]), int(self.height.shape[1])

    def index(self, points: Floats) -> tuple[npt.NDArray[np.int64], Bools]:
        """Cells (..., 2) of points (..., 2) [u], clipped to the grid, and whether they lie on it (...)."""
        cells = np.floor((points - self.origin) / self.cell).astype(np.int64)
        inside = np.asarray(np.all((cells >= 0) & (cells < self.shape), axis=-1))
        return np.clip(cells, 0, np.array(self.shape) - 1), inside

    def cell_of(self, point: Floats, what: str) -> tuple[int, int]:
        """The cell of `what` at `point` (2,). Raises NotANumberError, or PlanningError when it is off the grid."""
        if not np.isfinite(point).all():
            raise NotANumberError(f"{what} {point} is not finite")
        cell, inside = self.index(np.asarray(point, dtype=float))
        if not inside:
            raise PlanningError(f"{what} ({point[0]:g}, {point[1]:g}) u is off the grid")
        return int(cell[0]), int(cell[1])

    def free_from(self, point: Floats) -> Bools:
        """Cells (nx, ny) that are joined to `point` (2,) without a cliff."""
        i, j = self.cell_of(point, "place")
        free: Bools = flood(self.height, i, j, self.step_u)
        return free

    def clearance(self, free: Bools) -> Floats:
        """Signed distance (nx, ny) [u] from each cell's centre to the nearest cell that is not free, cliff, or border.

        A cliff's edge belongs to its upper side. Negative inside what is not free.
        """
        rim = np.zeros(self.shape, dtype=np.bool_)
        for axis in (0, 1):
            fall = np.diff(self.height, axis=axis)
            low, high = [slice(None)] * 2, [slice(None)] * 2
            low[axis], high[axis] = slice(None, -1), slice(1, None)
            rim[tuple(high)] |= fall > self.step_u
            rim[tuple(low)] |= fall < -self.step_u
        blocked = rim | ~free
        half = 0.5 * self.cell  # a blocked cell begins half a cell before its centre
        away = distance_to(blocked, self.cell) - half
        inside = np.where(free, 0.0, distance_to(free, self.cell) - half)
        x = (np.arange(self.shape[0]) + 0.5) * self.cell
        y = (np.arange(self.shape[1]) + 0.5) * self.cell
        border = np.minimum(np.minimum(x, x[::-1])[:, None], np.minimum(y, y[::-1])[None, :])
        signed: Floats = np.where(blocked, -np.maximum(inside, 0.0), np.minimum(away, border))
        return signed

    def grid(self, goal: Floats) -> Grid:
        """The wavefront's grid around `goal` (2,). Raises PlanningError when the goal is off the grid or in an obstacle."""
        self.check_goal(goal)
        return Grid(self.origin, self.cell, frozen(self.clearance(self.free_from(goal))))

    def check_goal(self, goal: Floats) -> None:
        """Raises NotANumberError, or PlanningError when `goal` (2,) is off the grid or in an obstacle.

        An obstacle is ground that is not joined to the lowest ground: the top of a wall, a platform without a ramp.
        """
        i, j = self.cell_of(goal, "goal")
        free = flood(self.height, i, j, self.step_u)
        if self.height[free].min() > self.height.min() + self.step_u:
            raise PlanningError(f"goal ({goal[0]:g}, {goal[1]:g}) u lies in an obstacle")


def terrain_of(bounds: Floats, world: Floats, cell: float, standing_u: float, step_u: float) -> Terrain:
    """The terrain within bounds ((x0, x1), (y0, y1)) of a world (K, 16) of boxes; the floor is a box like any other.

    Raises NotANumberError for a non-finite world and PlanningError where a cell has no ground at all.
    """
    if not (np.isfinite(world).all() and np.isfinite(bounds).all()):
        raise NotANumberError("the world to plan in is not finite")
    (x0, x1), (y0, y1) = bounds
    shape = (max(1, round((x1 - x0) / cell)), max(1, round((y1 - y0) / cell)))
    x = x0 + (np.arange(shape[0]) + 0.5) * cell
    y = y0 + (np.arange(shape[1]) + 0.5) * cell
    spans = [_span(row, x, y) for row in world if row[15] > 0.0]
    if not spans:
        raise PlanningError("the world to plan in has no ground")
    tops, bottoms = np.stack([top for top, _ in spans]), np.stack([bottom for _, bottom in spans])
    height = np.full(shape, np.inf)
    for candidate in tops:
        free = np.isfinite(candidate)
        for top, bottom in spans:
            free &= ~((bottom < candidate + standing_u) & (top > candidate + SURFACE_U))
        height = np.where(free & (candidate < height), candidate, height)
    if not np.isfinite(height).all():
        raise PlanningError("a part of the world to plan in has no ground")
    above = np.where(bottoms > height + SURFACE_U, bottoms, OPEN_SKY_U).min(axis=0)
    return Terrain(frozen((x0, y0)), cell, frozen(height), frozen(above), step_u)


def _span(row: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Top and bottom (nx, ny) [u] of one box over the cells' centres; (-inf, inf) where it is not. Tilted boxes are deep."""
    rotation = row[6:15].reshape(3, 3)
    normal = rotation[:, 2]
    crest = row[0:3] + normal * row[5]
    dx, dy = x[:, None] - crest[0], y[None, :] - crest[1]
    dz = -(normal[0] * dx + normal[1] * dy) / normal[2]
    u = rotation[0, 0] * dx + rotation[1, 0] * dy + rotation[2, 0] * dz
    v = rotation[0, 1] * dx + rotation[1, 1] * dy + rotation[2, 1] * dz
    inside = (np.abs(u) <= row[3]) & (np.abs(v) <= row[4])
    top = np.where(inside, crest[2] + dz, -np.inf)
    bottom = np.where(inside, crest[2] + dz - 2.0 * row[5] / normal[2], np.inf)
    return top, bottom
