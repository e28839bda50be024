"""The paper's loss for one module, its gradient and its normal equations (reference page, "Mathematics").

L = sum_j lambda_l (|v_j| - D)^2 + lambda_z (u_j . e_z - cos theta_j)^2 over the struts between a known disc 1 and disc 2,
whose pose relative to disc 1 is (q, omega): p2 = q1 + R1 (q + exp(omega) b_j).
"""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.estimation.so3 import exp_so3, right_jacobian, rotate
from onboard.messages import Bools, Floats


@compiled
def residuals(
    q1: Floats, r1: Floats, pose: Floats, lower_m: Floats, upper_m: Floats, length_m: Floats, cosine: Floats, use: Bools
) -> tuple[Floats, Floats]:
    """Residuals (2N,) and Jacobian (2N, 6) by `pose` = (q, omega) (6,) of disc 2 in disc 1's frame.

    Row 2j is |v_j| - D [m], row 2j + 1 is u_j . e_z - cos theta_j; the latter is zero where `use` is False.
    """
    n = len(length_m)
    r, jac = np.zeros(2 * n), np.zeros((2 * n, 6))
    omega = pose[3:6]
    turn, jr = exp_so3(omega), right_jacobian(omega)
    row = np.empty(3)
    for j in range(n):
        tb = rotate(turn, upper_m[j])
        for x in range(3):
            row[x] = pose[x] + tb[x]
        p2, p1 = rotate(r1, row), rotate(r1, lower_m[j])
        vx, vy, vz = p2[0] - p1[0], p2[1] - p1[1], p2[2] - p1[2]
        dist = math.sqrt(vx * vx + vy * vy + vz * vz)
        ux, uy, uz = vx / dist, vy / dist, vz / dist
        for k in range(2):
            if k == 0:
                r[2 * j] = dist - length_m[j]
                row[0], row[1], row[2] = ux, uy, uz
            elif use[j]:
                r[2 * j + 1] = uz - cosine[j]
                row[0], row[1], row[2] = -uz * ux / dist, -uz * uy / dist, (1.0 - uz * uz) / dist
            else:
                continue
            # n in disc 1's frame: gradient by q; b x (exp(omega)^T n) through J_r^T: gradient by omega
            nx = r1[0, 0] * row[0] + r1[1, 0] * row[1] + r1[2, 0] * row[2]
            ny = r1[0, 1] * row[0] + r1[1, 1] * row[1] + r1[2, 1] * row[2]
            nz = r1[0, 2] * row[0] + r1[1, 2] * row[1] + r1[2, 2] * row[2]
            i = 2 * j + k
            jac[i, 0], jac[i, 1], jac[i, 2] = nx, ny, nz
            mx = turn[0, 0] * nx + turn[1, 0] * ny + turn[2, 0] * nz
            my = turn[0, 1] * nx + turn[1, 1] * ny + turn[2, 1] * nz
            mz = turn[0, 2] * nx + turn[1, 2] * ny + turn[2, 2] * nz
            bx, by, bz = upper_m[j, 0], upper_m[j, 1], upper_m[j, 2]
            cx, cy, cz = by * mz - bz * my, bz * mx - bx * mz, bx * my - by * mx
            for x in range(3):
                jac[i, 3 + x] = jr[0, x] * cx + jr[1, x] * cy + jr[2, x] * cz
    return r, jac


@compiled
def loss_and_gradient(
    q1: Floats,
    r1: Floats,
    pose: Floats,
    lower_m: Floats,
    upper_m: Floats,
    length_m: Floats,
    cosine: Floats,
    use: Bools,
    weight_length: float,
    weight_cosine: float,
    gradient: Floats,
) -> float:
    """L and, in `gradient` (6,), dL/d(q, omega)."""
    r, jac = residuals(q1, r1, pose, lower_m, upper_m, length_m, cosine, use)
    loss = 0.0
    for x in range(6):
        gradient[x] = 0.0
    for i in range(len(r)):
        w = weight_length if i % 2 == 0 else weight_cosine
        loss += w * r[i] * r[i]
        for x in range(6):
            gradient[x] += 2.0 * w * r[i] * jac[i, x]
    return loss


@compiled
def place(q1: Floats, r1: Floats, pose: Floats, q2: Floats, r2: Floats) -> None:
    """World pose of disc 2 into `q2` (3,) and `r2` (3, 3) from disc 1's and the relative `pose` (6,)."""
    shift = rotate(r1, pose)
    turn = exp_so3(pose[3:6])
    for x in range(3):
        q2[x] = q1[x] + shift[x]
        for y in range(3):
            r2[x, y] = r1[x, 0] * turn[0, y] + r1[x, 1] * turn[1, y] + r1[x, 2] * turn[2, y]
