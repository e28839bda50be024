"""One idea: seconds to the goal over (x, y, axis angle): value iteration that knows how the robot rolls, turns and creeps.

A rolling strut robot looks the same from both ends, so angles count modulo half a turn. Semi-Lagrangian iteration: a move lands
between cells and takes their interpolated value. Obstacles are soft near and inside (times grow), cliffs are hard. Moves and
times are a reference measurement and stand in robots/planners/<robot>.toml.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.errors import PlanningError
from onboard.messages import Bools, Floats, frozen
from onboard.planning.settings import TerrainTable, ValueTable
from onboard.planning.terrain import Terrain
from onboard.planning.value_sweeps import UNREACHED, move_costs, sweep_until, trilinear

TOLERANCE_S = 0.02
MOST_SWEEPS = 400
OUTSIDE_S_PER_U = 10.0  # what lies off the grid or in an obstacle is that much worse than the nearest place that counts


@dataclass(frozen=True, slots=True)
class Moves:
    """What the robot can do from a heading cell: offsets (K, A, 2) [u], turns (A,) [heading cells], times (A,) [s]."""

    offset: Floats
    turn: npt.NDArray[np.int64]
    seconds: Floats


def moves_of(table: ValueTable) -> Moves:
    """Roll both ways with up to so many cells of turn, turn in place, creep along the axis."""
    cell = np.pi / table.headings
    rows: list[tuple[float, float, int, float]] = []  # along the axis, across it, turn, time
    for turn, seconds in enumerate(table.roll_times_s):
        for way in (table.roll_u, -table.roll_u):
            rows += [(0.0, way, turn, seconds)] + ([(0.0, way, -turn, seconds)] if turn else [])
    rows += [(0.0, 0.0, way * table.turn_cells, table.turn_time_s) for way in (1, -1)]
    rows += [(way * table.side_u, 0.0, 0, table.side_time_s) for way in (1, -1)]
    along, across = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    turn_cells = np.array([r[2] for r in rows], dtype=np.int64)
    angle = (np.arange(table.headings)[:, None] + 0.5 * turn_cells) * cell  # moved along the mean direction
    c, s = np.cos(angle), np.sin(angle)
    offset = np.stack([c * along - s * across, s * along + c * across], axis=-1)
    return Moves(frozen(offset), turn_cells, frozen([r[3] for r in rows]))


class ValueField:
    """Cost to go [s] to one goal. `set_goal` takes a fraction of a second; `set_terrain` when obstacles changed."""

    def __init__(self, terrain: Terrain, body: TerrainTable, table: ValueTable) -> None:
        self.body, self.table = body, table
        self.moves = moves_of(table)
        self.goal: Floats | None = None
        self.sweeps = 0
        self.set_terrain(terrain)

    def set_terrain(self, terrain: Terrain) -> None:
        """Other obstacles; a goal that was set stays and is solved for anew. Raises as `set_goal` does."""
        self.terrain = terrain
        cell = self.table.cell_u
        self.shape = (
            max(2, round(terrain.shape[0] * terrain.cell / cell)),
            max(2, round(terrain.shape[1] * terrain.cell / cell)),
        )
        self.origin = np.array(terrain.origin)
        i, j = np.meshgrid(np.arange(self.shape[0]), np.arange(self.shape[1]), indexing="ij")
        self.centres = self.origin + (np.stack([i, j], axis=-1) + 0.5) * cell
        self._free_cells: Bools | None = None
        self.value = np.full((*self.shape, self.table.headings), np.inf)
        if self.goal is not None:
            self.set_goal(self.goal)

    def set_goal(self, goal: Floats) -> None:
        """Solve for `goal` (2,) [u].

        Raises NotANumberError, or PlanningError when it is off the grid or in an obstacle; the old goal then stays.
        """
        self.terrain.check_goal(goal)
        free_cells = self.terrain.free_from(goal)
        if self._free_cells is None or not np.array_equal(free_cells, self._free_cells):
            self._prepare(free_cells)
        self.goal = np.array(goal, dtype=float)
        away = np.linalg.norm(self.centres - self.goal, axis=-1)
        reach = 1.6 * self.table.cell_u
        pace = self.table.roll_times_s[0] / self.table.roll_u
        # Values close to the goal are fixed and grow with the distance: a step there would hold the robot off.
        fixed = np.where((away <= reach) & self.free, pace * away, np.inf)
        if not np.isfinite(fixed).any():
            fixed.flat[int(np.argmin(np.where(self.free, away, np.inf)))] = 0.0
        value = np.where(np.isfinite(fixed), fixed, UNREACHED)[..., None].repeat(self.table.headings, axis=2)
        self.sweeps = sweep_until(
            value,
            fixed,
            self.free,
            self.ground,
            self._cost,
            self._cells,
            self.moves.turn,
            self.body.step_u,
            TOLERANCE_S,
            MOST_SWEEPS,
        )
        self.value = self._fill(value)

    def _prepare(self, free_cells: Bools) -> None:
        """Costs of all moves between all cells; only where the obstacles are new."""
        clearance = self.terrain.clearance(free_cells)
        at, _ = self.terrain.index(self.centres)
        self.free = np.ascontiguousarray(free_cells[at[..., 0], at[..., 1]])
        self.ground = np.ascontiguousarray(self.terrain.height[at[..., 0], at[..., 1]])
        self._free_cells = free_cells
        self._cells = np.ascontiguousarray(self.moves.offset / self.table.cell_u)
        self._cost = move_costs(
            self._factor(clearance),
            self.free,
            np.ascontiguousarray(self.terrain.height),
            self.moves.offset,
            self.moves.turn,
            self.moves.seconds,
            self.table.cell_u,
            self.terrain.cell,
            self.body.step_u,
        )

    def _factor(self, clearance: Floats) -> Floats:
        """How much slower each (x, y, heading) is for being close to an obstacle (nx, ny, K)."""
        angle = np.arange(self.table.headings) * np.pi / self.table.headings
        axis = self.body.axis_half_u * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        points = self.centres[:, :, None, None, :] + np.stack([axis, -axis], axis=1)
        ends, _ = self.terrain.index(points)
        middle, _ = self.terrain.index(self.centres)
        room = np.minimum(
            (clearance[middle[..., 0], middle[..., 1]] - self.body.margin_u)[..., None],
            clearance[ends[..., 0], ends[..., 1]].min(axis=-1) - self.body.axis_margin_u,
        )
        table = self.table
        near = 1.0 + table.near_gain * np.exp(-np.maximum(room, 0.0) / table.near_u)
        deep = np.clip(-room / self.body.margin_u, 0.0, 1.0)
        factor: Floats = np.where(room >= 0.0, near, table.touch_factor + (table.inside_factor - table.touch_factor) * deep)
        return np.ascontiguousarray(factor)

    def _fill(self, value: Floats) -> Floats:
        """Give cells nobody can stand in the worst of their neighbours and more: a wall is uphill from both sides."""
        reached = value < 0.5 * UNREACHED
        filled = np.where(reached, value, -np.inf)
        if not reached.any():
            raise PlanningError("nothing leads to the goal")
        rise = OUTSIDE_S_PER_U * self.table.cell_u
        while not np.isfinite(filled).all():
            padded = np.pad(filled, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
            around = np.max([padded[2:, 1:-1], padded[:-2, 1:-1], padded[1:-1, 2:], padded[1:-1, :-2]], axis=0)
            turned = np.maximum(np.roll(filled, 1, axis=2), np.roll(filled, -1, axis=2))
            better = np.where(np.isfinite(around), around + rise, turned + rise)
            filled = np.where(np.isfinite(filled), filled, better)
        return np.ascontiguousarray(filled)

    def reachable(self, point: Floats) -> bool:
        """Whether a way leads from `point` (2,) to the goal without a cliff. Raises when the point is off the grid."""
        if self.goal is None or self._free_cells is None:
            raise PlanningError("the cost to go has no goal yet")
        i, j = self.terrain.cell_of(point, "start")
        return bool(self._free_cells[i, j])

    def cost(self, poses: Floats) -> Floats:
        """Seconds to go (...) from planar poses (..., 3); off the grid dearer by distance, not a number where a pose is not.

        Raises PlanningError without a goal.
        """
        if self.goal is None:
            raise PlanningError("the cost to go has no goal yet")
        flat = np.ascontiguousarray(poses, dtype=float).reshape(-1, 3)
        answer: Floats = trilinear(self.value, flat, self.origin, self.table.cell_u, OUTSIDE_S_PER_U)
        return answer.reshape(poses.shape[:-1])
