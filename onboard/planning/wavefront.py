"""One idea: cost to go on a grid, grown from the goal only as far as anybody asks: the closed list is shared by all questions.

Paper section IV-C and algorithm 2. Dijkstra over free cells, 8-connected: a step costs its length in cells plus
`gain` exp(-`decay` d), with d the distance [u] to the nearest obstacle or border. A question that lies beyond what is closed
goes on where the last one stopped, so asking again costs nothing and asking everywhere costs one search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.errors import NotANumberError, PlanningError
from onboard.messages import Floats, frozen

GAIN, DECAY = 20.0, 0.7
ROOT2 = float(np.sqrt(2.0))


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of `cell` [u] from `origin` (2,).

    clearance (nx, ny): distance [u] of a cell's centre to what may not be touched, zero or less inside.
    """

    origin: Floats
    cell: float
    clearance: Floats

    def index(self, points: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Cells (..., 2) of points (..., 2) [u] and whether they lie on the grid (...)."""
        cells = np.floor((points - self.origin) / self.cell).astype(np.int64)
        inside = np.asarray(np.all((cells >= 0) & (cells < self.clearance.shape), axis=-1))
        return cells, inside


def grid_of(bounds: Floats, world: Floats, cell: float, height: tuple[float, float]) -> Grid:
    """A grid over bounds ((x0, x1), (y0, y1)) and a world (K, 16) of boxes.

    Of the world count upright boxes that stand in the way between `height` = (low, high) [u]: neither the floor and what hangs
    above, nor tilted boxes, which are ramps and driven over.
    """
    (x0, x1), (y0, y1) = bounds
    shape = (max(1, round((x1 - x0) / cell)), max(1, round((y1 - y0) / cell)))
    x = x0 + (np.arange(shape[0]) + 0.5) * cell
    y = y0 + (np.arange(shape[1]) + 0.5) * cell
    clearance = np.minimum(np.minimum(x - x0, x1 - x)[:, None], np.minimum(y - y0, y1 - y)[None, :])
    for row in world:
        rotation = row[6:15].reshape(3, 3)
        reach = np.abs(rotation[2]) @ row[3:6]
        blocks = row[15] > 0.0 and row[2] - reach < height[1] and row[2] + reach > height[0] and abs(rotation[2, 2]) > 0.9999
        if not blocks:
            continue
        dx, dy = x[:, None] - row[0], y[None, :] - row[1]
        qx = np.abs(rotation[0, 0] * dx + rotation[1, 0] * dy) - row[3]
        qy = np.abs(rotation[0, 1] * dx + rotation[1, 1] * dy) - row[4]
        away = np.hypot(np.maximum(qx, 0.0), np.maximum(qy, 0.0)) + np.minimum(np.maximum(qx, qy), 0.0)
        clearance = np.minimum(clearance, away)
    return Grid(frozen((x0, y0)), cell, frozen(clearance))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _grow(
    clearance: npt.NDArray[np.float64],
    cost: npt.NDArray[np.float64],
    closed: npt.NDArray[np.bool_],
    keys: npt.NDArray[np.float64],
    cells: npt.NDArray[np.int64],
    size: int,
    wanted: npt.NDArray[np.int64],
) -> int:
    """Close cells in order of cost until all `wanted` (n, 2) are closed or nothing is left; the heap's new size."""
    nx, ny = clearance.shape
    missing = 0
    for w in range(wanted.shape[0]):
        if not closed[wanted[w, 0], wanted[w, 1]] and clearance[wanted[w, 0], wanted[w, 1]] > 0.0:
            missing += 1
    target = np.zeros((nx, ny), dtype=np.int64)
    for w in range(wanted.shape[0]):
        target[wanted[w, 0], wanted[w, 1]] += 1
    while size > 0 and missing > 0:
        key, cell = keys[0], cells[0]
        size -= 1
        last_key, last_cell = keys[size], cells[size]
        hole = 0
        while True:  # sift the last one down from the root
            child = 2 * hole + 1
            if child >= size:
                break
            if child + 1 < size and keys[child + 1] < keys[child]:
                child += 1
            if keys[child] >= last_key:
                break
            keys[hole], cells[hole] = keys[child], cells[child]
            hole = child
        keys[hole], cells[hole] = last_key, last_cell
        i, j = cell // ny, cell % ny
        if closed[i, j]:
            continue
        closed[i, j] = True
        cost[i, j] = key
        missing -= target[i, j]
        for di in range(-1, 2):
            for dj in range(-1, 2):
                a, b = i + di, j + dj
                if (di == 0 and dj == 0) or a < 0 or b < 0 or a >= nx or b >= ny:
                    continue
                if closed[a, b] or clearance[a, b] <= 0.0:
                    continue
                step = (ROOT2 if di != 0 and dj != 0 else 1.0) + GAIN * np.exp(-DECAY * clearance[a, b])
                if key + step >= cost[a, b]:
                    continue
                cost[a, b] = key + step
                at = size
                size += 1
                while at > 0 and keys[(at - 1) // 2] > key + step:
                    keys[at], cells[at] = keys[(at - 1) // 2], cells[(at - 1) // 2]
                    at = (at - 1) // 2
                keys[at], cells[at] = key + step, a * ny + b
    return size


class Wavefront:
    """Cost to go to one goal at a time."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._goal = np.zeros(2)
        self._cost = np.full(grid.clearance.shape, np.inf)
        self._closed = np.zeros(grid.clearance.shape, dtype=np.bool_)
        self._keys = np.empty(8 * grid.clearance.size + 1)
        self._cells = np.empty(8 * grid.clearance.size + 1, dtype=np.int64)
        self._size = -1

    @property
    def goal(self) -> Floats:
        """The goal (2,) [u]; meaningless before `set_goal`."""
        return self._goal

    @property
    def closed(self) -> int:
        """How many cells have been worked out for this goal."""
        return int(self._closed.sum())

    def set_goal(self, goal: Floats) -> None:
        """Start anew from `goal` (2,).

        Raises PlanningError when it is off the grid or in an obstacle; the old goal then stays.
        """
        if not np.isfinite(goal).all():
            raise NotANumberError(f"goal {goal} is not finite")
        cell, inside = self.grid.index(np.asarray(goal, dtype=float))
        if not inside:
            raise PlanningError(f"goal ({goal[0]:g}, {goal[1]:g}) u is off the grid")
        if self.grid.clearance[cell[0], cell[1]] <= 0.0:
            raise PlanningError(f"goal ({goal[0]:g}, {goal[1]:g}) u lies in an obstacle")
        self._goal = np.array(goal, dtype=float)
        self._cost[:], self._closed[:] = np.inf, False
        self._keys[0], self._cells[0] = 0.0, cell[0] * self.grid.clearance.shape[1] + cell[1]
        self._cost[cell[0], cell[1]] = 0.0
        self._size = 1

    def cost(self, points: Floats) -> Floats:
        """Cost to go (...) of points (..., 2) [u].

        Off the grid: the Euclidean distance in cells. In an obstacle or cut off from the goal: infinite. Not finite:
        not a number. Raises PlanningError without a goal.
        """
        if self._size < 0:
            raise PlanningError("the wavefront has no goal yet")
        finite = np.asarray(np.isfinite(points).all(axis=-1))
        safe = np.where(finite[..., None], points, self._goal)
        cells, inside = self.grid.index(safe)
        wanted = np.unique(cells[inside].reshape(-1, 2), axis=0)
        self._size = _grow(self.grid.clearance, self._cost, self._closed, self._keys, self._cells, self._size, wanted)
        straight = np.linalg.norm(safe - self._goal, axis=-1) / self.grid.cell
        at = np.where(inside[..., None], cells, 0)
        known = np.where(self._closed[at[..., 0], at[..., 1]], self._cost[at[..., 0], at[..., 1]], np.inf)
        answer: Floats = np.where(finite, np.where(inside, known, straight), np.nan)
        return answer
