"""One idea: two passes over a grid, compiled: Euclidean distance to the nearest marked cell, and what is joined to a cell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.messages import Bools, Floats

FAR = 1e12


@njit(cache=True)  # type: ignore[untyped-decorator]
def _lower_envelope(f: npt.NDArray[np.float64], out: npt.NDArray[np.float64]) -> None:
    """out[q] = min over p of (q - p)^2 + f[p]: parabolas standing on the line (Felzenszwalb and Huttenlocher 2012)."""
    n = f.shape[0]
    at = np.zeros(n, dtype=np.int64)
    edge = np.empty(n + 1)
    k = 0
    edge[0], edge[1] = -FAR, FAR
    for q in range(1, n):
        while True:
            p = at[k]
            s = ((f[q] + q * q) - (f[p] + p * p)) / (2.0 * (q - p))
            if s > edge[k] or k == 0:
                break
            k -= 1
        if s <= edge[k]:
            at[0] = q
            edge[1] = FAR
            continue
        k += 1
        at[k] = q
        edge[k], edge[k + 1] = s, FAR
    k = 0
    for q in range(n):
        while edge[k + 1] < q:
            k += 1
        out[q] = (q - at[k]) ** 2 + f[at[k]]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _squared(marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    nx, ny = marked.shape
    first, second = np.empty((nx, ny)), np.empty((nx, ny))
    column = np.empty(nx)
    for j in range(ny):
        for i in range(nx):
            column[i] = 0.0 if marked[i, j] else 1e9
        line = np.empty(nx)
        _lower_envelope(column, line)
        first[:, j] = line
    for i in range(nx):
        line = np.empty(ny)
        _lower_envelope(first[i].copy(), line)
        second[i] = line
    return second


def distance_to(marked: Bools, cell: float) -> Floats:
    """Distances (nx, ny) between cells' centres, times `cell`, to the nearest marked cell; very far where none is."""
    out: Floats = np.sqrt(np.maximum(_squared(np.ascontiguousarray(marked)), 0.0)) * cell
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def flood(height: npt.NDArray[np.float64], i: int, j: int, step: float) -> npt.NDArray[np.bool_]:
    """Cells (nx, ny) that can be reached from (i, j), side by side, without a step of height beyond `step`."""
    nx, ny = height.shape
    reached = np.zeros((nx, ny), dtype=np.bool_)
    stack = np.empty(nx * ny + 1, dtype=np.int64)
    reached[i, j] = True
    stack[0] = i * ny + j
    size = 1
    while size > 0:
        size -= 1
        a, b = stack[size] // ny, stack[size] % ny
        for side in range(4):
            c = a + (side == 0) - (side == 1)
            d = b + (side == 2) - (side == 3)
            if c < 0 or d < 0 or c >= nx or d >= ny or reached[c, d]:
                continue
            if abs(height[c, d] - height[a, b]) > step:
                continue
            reached[c, d] = True
            stack[size] = c * ny + d
            size += 1
    return reached
