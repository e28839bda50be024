"""One idea: what a rollout of a growing tip is worth: the way that is left around inflated obstacles, and where the tip points.

The way left is the shared wavefront (onboard/planning/wavefront.py) over the field's cells, worked out once a goal.
"""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats, frozen
from onboard.planning.vine.field import Field
from onboard.planning.vine.state import Layout
from onboard.planning.wavefront import Grid, Wavefront

UNIT_M = 0.002  # the wavefront's shyness of obstacles fades over a few of these
SPILL_CELLS = 12  # how deep into obstacles the way left is continued, so that a tip that grazes one still knows its way
SPILL_COST = 6.0  # cells a cell in there
AHEAD_M = 0.05  # the tip's direction is judged by the way left from here ahead of it


class WayLeft:
    """Way left to `goal` (2,) [m] for a tip of `radius_m`, paths blocked where it would lie deeper than `keep_off_m`.

    Raises PlanningError when the goal is off the grid or in an obstacle.
    """

    def __init__(self, field: Field, goal: Floats, radius_m: float, keep_off_m: float) -> None:
        clearance = field.values[0].T - radius_m + keep_off_m
        corner = field.origin - 0.5 * field.cell_m
        grid = Grid(frozen(corner / UNIT_M), field.cell_m / UNIT_M, frozen(clearance / UNIT_M))
        front = Wavefront(grid)
        front.set_goal(np.asarray(goal, dtype=float) / UNIT_M)
        nx, ny = clearance.shape
        x = field.origin[0] + field.cell_m * np.arange(nx)
        y = field.origin[1] + field.cell_m * np.arange(ny)
        centres = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
        self.field, self.goal = field, frozen(goal)
        self.cells = _spill(front.cost(centres / UNIT_M)) * field.cell_m

    def __call__(self, points: Floats) -> Floats:
        """Way left (...) [m] from points (..., 2), bilinear; beyond the grid the distance to it is added."""
        nx, ny = self.cells.shape
        at = (points - self.field.origin) / self.field.cell_m
        x, y = np.clip(at[..., 0], 0.0, nx - 1.001), np.clip(at[..., 1], 0.0, ny - 1.001)
        i, j = x.astype(np.int64), y.astype(np.int64)
        fx, fy = x - i, y - j
        low = self.cells[i, j] * (1.0 - fx) + self.cells[i + 1, j] * fx
        high = self.cells[i, j + 1] * (1.0 - fx) + self.cells[i + 1, j + 1] * fx
        outside = self.field.cell_m * np.hypot(at[..., 0] - x, at[..., 1] - y)
        straight = np.linalg.norm(points - self.goal, axis=-1)
        way: Floats = np.maximum(low * (1.0 - fy) + high * fy + outside, straight)
        return np.where(straight < 2.0 * self.field.cell_m, straight, way)


def _spill(cost: Floats) -> Floats:
    """Infinite cells next to finite ones get their cost and more, a few cells deep; what is deeper gets the worst of all."""
    cost = cost.copy()
    for _ in range(SPILL_CELLS):
        padded = np.pad(cost, 1, constant_values=np.inf)
        sides = np.minimum.reduce([padded[2:, 1:-1], padded[:-2, 1:-1], padded[1:-1, 2:], padded[1:-1, :-2]])
        cost = np.where(np.isfinite(cost), cost, sides + SPILL_COST)
    finite = np.isfinite(cost)
    return np.where(finite, cost, cost[finite].max() + SPILL_COST if finite.any() else 0.0)


class TipCost:
    """Cost [m] of rollouts: least way left, plus what the tip's last direction makes longer, plus a little for being slow."""

    def __init__(self, layout: Layout, way: WayLeft, near_m: float, turn: float = 0.5, slow: float = 0.05) -> None:
        self.layout, self.way, self.near_m, self.turn, self.slow = layout, way, near_m, turn, slow

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        """Costs (M,) of states (M, T, nx); a state that is not finite makes its sample's cost not finite."""
        tips = self.layout.tip(states)
        left = self.way(np.where(np.isfinite(tips), tips, 0.0))
        least = left.min(axis=1)
        heading = self.layout.tip_heading(states[:, -1])
        ahead = tips[:, -1] + AHEAD_M * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
        detour = self.way(np.where(np.isfinite(ahead), ahead, 0.0)) - left[:, -1] + AHEAD_M
        arrives = least < self.near_m
        cost: Floats = least + self.slow * left.mean(axis=1) + np.where(arrives, 0.0, self.turn * detour)
        return np.where(np.isfinite(tips).all(axis=(1, 2)), cost, np.nan)
