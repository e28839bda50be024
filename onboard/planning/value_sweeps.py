"""One idea: the compiled loops of the cost to go: price all moves once, sweep until nothing changes, look values up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

F8 = npt.NDArray[np.float64]
UNREACHED = 1e5  # [s]; more than any way


@njit(cache=True)  # type: ignore[untyped-decorator]
def move_costs(
    factor: F8,
    free: npt.NDArray[np.bool_],
    height: F8,
    offset: F8,
    turn: npt.NDArray[np.int64],
    seconds: F8,
    cell: float,
    fine: float,
    step: float,
) -> npt.NDArray[np.float32]:
    """Time (nx, ny, K, A) [s] of each move, slowed by the mean `factor` (nx, ny, K) of both ends; infinite across a cliff.

    height: ground on cells of `fine` [u], sampled along the move at most a fine cell apart. A move that leaves the grid costs as
    much as it lasts here and is refused by the sweeps.
    """
    nx, ny, headings = factor.shape
    out = np.full((nx, ny, headings, len(turn)), np.inf, dtype=np.float32)
    for i in range(nx):
        for j in range(ny):
            if not free[i, j]:
                continue
            for k in range(headings):
                for a in range(len(turn)):
                    ox, oy = offset[k, a, 0], offset[k, a, 1]
                    n = int(np.ceil(max(abs(ox), abs(oy)) / fine))
                    before = height[
                        min(int((i + 0.5) * cell / fine), height.shape[0] - 1),
                        min(int((j + 0.5) * cell / fine), height.shape[1] - 1),
                    ]
                    blocked = False
                    for s in range(1, n + 1):
                        x = ((i + 0.5) * cell + ox * s / n) / fine
                        y = ((j + 0.5) * cell + oy * s / n) / fine
                        if x < 0.0 or y < 0.0 or x >= height.shape[0] or y >= height.shape[1]:
                            blocked = True
                            break
                        here = height[int(x), int(y)]
                        if abs(here - before) > step:
                            blocked = True
                            break
                        before = here
                    if blocked:
                        continue
                    ti = min(max(int(np.floor(i + 0.5 + ox / cell)), 0), nx - 1)
                    tj = min(max(int(np.floor(j + 0.5 + oy / cell)), 0), ny - 1)
                    there = factor[ti, tj, (k + turn[a]) % headings]
                    out[i, j, k, a] = seconds[a] * 0.5 * (factor[i, j, k] + there)
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def sweep_until(
    value: F8,
    fixed: F8,
    free: npt.NDArray[np.bool_],
    ground: F8,
    cost: npt.NDArray[np.float32],
    offset: F8,
    turn: npt.NDArray[np.int64],
    step: float,
    tolerance: float,
    most: int,
) -> int:
    """Gauss-Seidel sweeps over value (nx, ny, K) in four orders until no change exceeds `tolerance`; how many it took."""
    nx, ny, headings = value.shape
    moves = len(turn)
    base = np.floor(offset).astype(np.int64)
    part = offset - base
    for count in range(most):
        change = 0.0
        for ii in range(nx):
            i = ii if count & 1 == 0 else nx - 1 - ii
            for jj in range(ny):
                j = jj if count & 2 == 0 else ny - 1 - jj
                if not free[i, j] or np.isfinite(fixed[i, j]):
                    continue
                for k in range(headings):
                    best = UNREACHED
                    for a in range(moves):
                        price = cost[i, j, k, a]
                        if not price < best:
                            continue
                        total, weight = 0.0, 0.0
                        to = (k + turn[a]) % headings
                        for corner in range(4):
                            ci, cj = i + base[k, a, 0] + (corner & 1), j + base[k, a, 1] + (corner >> 1)
                            fx = part[k, a, 0] if corner & 1 else 1.0 - part[k, a, 0]
                            fy = part[k, a, 1] if corner >> 1 else 1.0 - part[k, a, 1]
                            w = fx * fy
                            if w < 1e-9 or ci < 0 or cj < 0 or ci >= nx or cj >= ny or not free[ci, cj]:
                                continue
                            if abs(ground[ci, cj] - ground[i, j]) > 2.0 * step:
                                continue
                            total += w * value[ci, cj, to]
                            weight += w
                        if weight < 0.4:
                            continue
                        best = min(best, price + total / weight)
                    change = max(change, abs(value[i, j, k] - best))
                    value[i, j, k] = best
        if change < tolerance:
            return count + 1
    return most


@njit(cache=True)  # type: ignore[untyped-decorator]
def trilinear(value: F8, poses: F8, origin: F8, cell: float, outside: float) -> F8:
    """Values (N,) at poses (N, 3); the angle counts modulo half a turn; `outside` per [u] off the grid is added."""
    nx, ny, headings = value.shape
    out = np.empty(len(poses))
    for n in range(len(poses)):
        if not np.isfinite(poses[n]).all():
            out[n] = np.nan
            continue
        x = (poses[n, 0] - origin[0]) / cell - 0.5
        y = (poses[n, 1] - origin[1]) / cell - 0.5
        cx, cy = min(max(x, 0.0), nx - 1.0), min(max(y, 0.0), ny - 1.0)
        off = np.hypot(x - cx, y - cy) * cell
        i, j = min(int(cx), nx - 2), min(int(cy), ny - 2)
        fx, fy = cx - i, cy - j
        angle = (poses[n, 2] / np.pi) % 1.0 * headings
        k = int(angle)
        fk = angle - k
        k0, k1 = k % headings, (k + 1) % headings
        total = 0.0
        for corner in range(4):
            a, b = corner & 1, corner >> 1
            w = (fx if a else 1.0 - fx) * (fy if b else 1.0 - fy)
            total += w * ((1.0 - fk) * value[i + a, j + b, k0] + fk * value[i + a, j + b, k1])
        out[n] = total + outside * max(off - 0.5 * cell, 0.0)
    return out
