"""One idea: the obstacles of a plane as a grid of signed distances and outward normals, looked up between cells.

An obstacle is a convex polygon (one corner: a circle, two: a wall) inflated by a rounding radius, as the camera's map gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard.errors import NotANumberError, PlanningError
from onboard.messages import Floats, frozen

Shape = tuple[Floats, float]  # corners (V, 2) counter-clockwise [m], rounding radius [m]
FAR_M = 1.0


def distances(points: Floats, corners: Floats, rounding_m: float) -> Floats:
    """Signed distances (P,) [m] of points (P, 2) from one obstacle; negative inside."""
    after = np.roll(corners, -1, axis=0)
    edge, offset = after - corners, points[:, None] - corners
    square = np.maximum(np.einsum("vi,vi->v", edge, edge), 1e-300)
    along = np.clip(np.einsum("pvi,vi->pv", offset, edge) / square, 0.0, 1.0)
    nearest = np.linalg.norm(offset - along[..., None] * edge, axis=2).min(axis=1)
    if len(corners) > 2:
        outward = np.stack([edge[:, 1], -edge[:, 0]], axis=1) / np.sqrt(square)[:, None]
        deepest = np.einsum("pvi,vi->pv", offset, outward).max(axis=1)
        nearest = np.where(deepest < 0.0, deepest, nearest)
    signed: Floats = nearest - rounding_m
    return signed


@dataclass(frozen=True, slots=True)
class Field:
    """origin (2,): centre of cell (0, 0) [m]; values (3, ny, nx): distance [m] and its gradient's x and y."""

    origin: Floats
    cell_m: float
    values: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Cells (ny, nx)."""
        return self.values.shape[1], self.values.shape[2]

    def look_up(self, points: Floats) -> tuple[Floats, Floats]:
        """(distance (...) [m], outward unit normal (..., 2)) at points (..., 2), bilinear; beyond the grid its edge holds."""
        ny, nx = self.shape
        x = np.clip((points[..., 0] - self.origin[0]) / self.cell_m, 0.0, nx - 1.0)
        y = np.clip((points[..., 1] - self.origin[1]) / self.cell_m, 0.0, ny - 1.0)
        i, j = np.minimum(x.astype(np.int64), nx - 2), np.minimum(y.astype(np.int64), ny - 2)
        fx, fy = x - i, y - j
        v = self.values
        low = v[:, j, i] * (1.0 - fx) + v[:, j, i + 1] * fx
        high = v[:, j + 1, i] * (1.0 - fx) + v[:, j + 1, i + 1] * fx
        found = low * (1.0 - fy) + high * fy
        normal = np.stack([found[1], found[2]], axis=-1)
        length = np.sqrt(np.sum(normal**2, axis=-1, keepdims=True) + 1e-12)
        return found[0], normal / length


def field_of(shapes: Sequence[Shape], origin: tuple[float, float], cells: tuple[int, int], cell_m: float) -> Field:
    """Distances to the nearest of `shapes` over (ny, nx) cells; without any, FAR_M everywhere.

    Raises NotANumberError for a corner or rounding that is not finite, PlanningError for a negative rounding.
    """
    ny, nx = cells
    x, y = origin[0] + cell_m * np.arange(nx), origin[1] + cell_m * np.arange(ny)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    distance = np.full(len(points), FAR_M)
    for corners, rounding in shapes:
        if not (np.isfinite(corners).all() and np.isfinite(rounding)):
            raise NotANumberError("an obstacle's corner or rounding is not finite")
        if rounding < 0.0:
            raise PlanningError(f"an obstacle's rounding is {rounding} m, must not be negative")
        distance = np.minimum(distance, distances(points, np.asarray(corners, dtype=float), rounding))
    plane = distance.reshape(ny, nx)
    by_y, by_x = np.gradient(plane, cell_m)
    return Field(frozen(origin), cell_m, frozen(np.stack([plane, by_x, by_y])))
