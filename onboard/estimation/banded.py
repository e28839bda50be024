"""Block-tridiagonal algebra: factor, solution and inverse of normal equations in which a disc meets only its neighbours."""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.messages import Floats

BAND = 11  # blocks of 6: entry (i, j) is zero where |i - j| > 11


@compiled
def factor(h: Floats, lower: Floats) -> bool:
    """Cholesky factor of `h` (n, n), band only, into `lower`; False where `h` is not positive definite."""
    n = len(h)
    for i in range(n):
        first = max(0, i - BAND)
        for j in range(first, i + 1):
            total = h[i, j]
            for k in range(first, j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                lower[i, i] = math.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]
    return True


@compiled
def solve(lower: Floats, x: Floats) -> None:
    """h^-1 x in place of `x` (n,), from the factor of h."""
    n = len(x)
    for i in range(n):
        total = x[i]
        for k in range(max(0, i - BAND), i):
            total -= lower[i, k] * x[k]
        x[i] = total / lower[i, i]
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, min(n, i + BAND + 1)):
            total -= lower[k, i] * x[k]
        x[i] = total / lower[i, i]


@compiled
def inverse(lower: Floats) -> Floats:
    """h^-1 (n, n), dense and exactly symmetric, from the factor of h."""
    n = len(lower)
    out = np.zeros((n, n))
    # Rows from the last to the first: row i of h^-1 follows from L^T h^-1 = L^-1, whose upper part is zero but its diagonal.
    for i in range(n - 1, -1, -1):
        pivot = 1.0 / lower[i, i]
        last = min(n, i + BAND + 1)
        for j in range(n - 1, i, -1):
            total = 0.0
            for k in range(i + 1, last):
                total -= lower[k, i] * out[k, j]
            out[i, j] = out[j, i] = total * pivot
        total = pivot
        for k in range(i + 1, last):
            total -= lower[k, i] * out[k, i]
        out[i, i] = total * pivot
    return out
