"""One tick of the joint estimate while tracking: carried by the gyros, corrected by the readings, with fading memory.

The gyros' turn of every strut since the last tick moves the discs (least squares, strut lengths kept); this carries the
estimate without lag. The readings then correct it. The information of past ticks, faded by exp(-dt / memory), is the weight
of the carried pose: with keep = exp(-dt / memory) each tick solves (keep H_old + (1 - keep) H) d = -(1 - keep) g. Noise and
short lies of the accelerometers are averaged over the memory, and what fades is the average information of a tick, not a sum,
so that constant errors are not taken for averaged ones in the covariance.
"""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.banded import factor, solve
from onboard.estimation.compiled import compiled
from onboard.estimation.equations import W_LENGTH, add_row, assemble, set_row
from onboard.estimation.so3 import exp_so3, multiply, rotate
from onboard.messages import Floats

MAX_TURN_RAD, MAX_MOVE_M = 0.5, 0.15  # of one disc in one step: beyond this the linearisation says nothing
GYRO_WEIGHT = (0.003) ** -2  # [1/rad^2] of one tick's turn; only its ratio to the strut lengths' weight matters
RIDGE = 1.0  # [1/m^2], [1/rad^2]: discs that no gyro moves stay


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
def carry(
    position: Floats,
    rotation: Floats,
    lower_m: Floats,
    upper_m: Floats,
    motion: Floats,
    moving: Floats,
    weight: Floats,
    h: Floats,
    lower: Floats,
    d: Floats,
) -> bool:
    """Into `d` (6M,) disc motions that turn the struts by `motion` (MN, 3) where `moving` (MN,) is 1 and keep their lengths."""
    modules, n = lower_m.shape[0], lower_m.shape[1]
    h[:] = 0.0
    d[:] = 0.0
    hl, gl, j = np.empty((13, 13)), np.empty(13), np.empty(13)
    for m in range(modules):
        hl[:] = 0.0
        gl[:] = 0.0
        r1, r2 = rotation[m], rotation[m + 1]
        for k in range(n):
            i = m * n + k
            a, b = rotate(r1, lower_m[m, k]), rotate(r2, upper_m[m, k])
            vx = position[m + 1, 0] + b[0] - position[m, 0] - a[0]
            vy = position[m + 1, 1] + b[1] - position[m, 1] - a[1]
            vz = position[m + 1, 2] + b[2] - position[m, 2] - a[2]
            dist = math.sqrt(vx * vx + vy * vy + vz * vz)
            ux, uy, uz = vx / dist, vy / dist, vz / dist
            set_row(j, ux, uy, uz, a, b, 0.0)
            add_row(hl, gl, j, 0.0, weight[W_LENGTH])
            if moving[i] == 0.0:
                continue
            sine = math.sqrt(ux * ux + uy * uy)
            ax, ay = (-uy / sine, ux / sine) if sine > 1e-9 else (1.0, 0.0)
            ix, iy, iz = -ay * uz, ax * uz, ay * ux - ax * uy
            set_row(j, ax / dist, ay / dist, 0.0, a, b, 0.0)
            add_row(hl, gl, j, ax * motion[i, 0] + ay * motion[i, 1], GYRO_WEIGHT)
            set_row(j, ix / dist, iy / dist, iz / dist, a, b, 0.0)
            add_row(hl, gl, j, ix * motion[i, 0] + iy * motion[i, 1] + iz * motion[i, 2], GYRO_WEIGHT)
        start = 6 * (m - 1)
        for x in range(6 if m == 0 else 0, 12):
            d[start + x] += gl[x]
            for y in range(6 if m == 0 else 0, x + 1):
                h[start + x, start + y] += hl[x, y]
    for x in range(len(d)):
        h[x, x] += RIDGE
    if not factor(h, lower):
        return False
    solve(lower, d)
    return True


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
    moving: Floats,
    mode: int,
    weight: Floats,
    anchor: Floats,
    keep: float,
    information: Floats,
    lower: Floats,
    residual: Floats,
) -> float:
    """One tick: poses, warps and `information` (6M, 6M) in place, its Cholesky factor in `lower`; returns the cost before the
    correction, or nan when a matrix cannot be factored or the step is not finite (the poses stay finite).
    """
    modules = len(warp)
    size = 6 * modules
    h, g = np.zeros((size, size)), np.zeros(size)
    warp_row = np.zeros((modules, 14))
    if keep > 0.0:
        if not carry(position, rotation, lower_m, upper_m, motion, moving, weight, h, lower, g):
            return math.nan
        if not math.isfinite(g.sum()):
            return math.nan
        for m in range(modules):
            warp_row[m, 13] = 1.0
        move(position, rotation, warp, g, warp_row, 0.0)
    cost = assemble(
        position, rotation, warp, lower_m, upper_m, length_m, saddle, direction, weight_incl, weight_az, trust, mode,
        weight, anchor, h, g, warp_row, residual,
    )  # fmt: skip
    for x in range(size):
        for y in range(max(0, x - 11), x + 1):
            h[x, y] = keep * information[x, y] + (1.0 - keep) * h[x, y]
    if not factor(h, lower):
        return math.nan
    for x in range(size):
        g[x] *= keep - 1.0
    solve(lower, g)
    if not math.isfinite(g.sum()):
        return math.nan
    for x in range(size):
        for y in range(max(0, x - 11), x + 1):
            information[x, y] = h[x, y]
    move(position, rotation, warp, g, warp_row, 1.0 - keep)
    return cost
