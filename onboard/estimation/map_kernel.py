"""One fading-memory update of the joint estimate per tick, while tracking.

Tracking keeps the information matrix of the last ticks, faded by exp(-dt / memory), as the weight of the last estimate: each tick
solves (keep H_old + (1 - keep) H) d = keep p - (1 - keep) g, where p carries the motion that the gyros saw since. Without
noise the estimate follows without lag; noise and short lies of the accelerometers are averaged over the memory.
"""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.banded import factor, solve
from onboard.estimation.compiled import compiled
from onboard.estimation.equations import assemble
from onboard.estimation.so3 import exp_so3, multiply
from onboard.messages import Floats

MAX_TURN_RAD, MAX_MOVE_M = 0.5, 0.15  # of one disc in one step: beyond this the linearisation says nothing


@compiled
def move(position: Floats, rotation: Floats, warp: Floats, d: Floats, warp_row: Floats, gain: float) -> None:
    """Apply the step `d` (6M,) to discs 1 .. M in place, and to each module's warp what follows for it."""
    modules = len(warp)
    scale, w = 1.0, np.empty(3)
    for k in range(modules):
        turn = math.sqrt(d[6 * k + 3] ** 2 + d[6 * k + 4] ** 2 + d[6 * k + 5] ** 2)
        shift = math.sqrt(d[6 * k] ** 2 + d[6 * k + 1] ** 2 + d[6 * k + 2] ** 2)
        scale = min(scale, MAX_TURN_RAD / max(turn, MAX_TURN_RAD), MAX_MOVE_M / max(shift, MAX_MOVE_M))
    for m in range(modules):
        total = gain * warp_row[m, 12]
        for x in range(6 if m == 0 else 0, 12):
            total += warp_row[m, x] * scale * d[6 * (m - 1) + x]
        warp[m] -= total / warp_row[m, 13]
        for x in range(3):
            position[m + 1, x] += scale * d[6 * m + x]
            w[x] = scale * d[6 * m + 3 + x]
        multiply(exp_so3(w), rotation[m + 1], rotation[m + 1])


@compiled
def track(
    position: Floats,
    rotation: Floats,
    warp: Floats,
    lower_m: Floats,
    upper_m: Floats,
    length_m: Floats,
    saddle: Floats,
    direction: Floats,
    weight_incl: Floats,
    weight_az: Floats,
    trust: Floats,
    motion: Floats,
    mode: int,
    weight: Floats,
    anchor: Floats,
    keep: float,
    information: Floats,
    lower: Floats,
    residual: Floats,
) -> float:
    """One tick: poses, warps and `information` (6M, 6M) in place, its Cholesky factor in `lower`; returns the cost before the
    step, or nan (and nothing moved) when the matrix cannot be factored or the step is not finite.
    """
    modules = len(warp)
    size = 6 * modules
    h, g, p = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    warp_row = np.zeros((modules, 14))
    cost = assemble(
        position, rotation, warp, lower_m, upper_m, length_m, saddle, direction, weight_incl, weight_az, trust, motion, mode,
        weight, anchor, h, g, p, warp_row, residual,
    )  # fmt: skip
    for x in range(size):
        for y in range(max(0, x - 11), min(size, x + 12)):
            h[x, y] = keep * information[x, y] + (1.0 - keep) * h[x, y]
    if not factor(h, lower):
        return math.nan
    for x in range(size):
        g[x] = keep * p[x] - (1.0 - keep) * g[x]
    solve(lower, g)
    total = 0.0
    for x in range(size):
        total += g[x]
    if not math.isfinite(total):
        return math.nan
    for x in range(size):
        for y in range(max(0, x - 11), min(size, x + 12)):
            information[x, y] = h[x, y]
    move(position, rotation, warp, g, warp_row, 1.0 - keep)
    return cost
