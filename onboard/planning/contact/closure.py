"""Blocks between two anchors: least-norm projection of a shape onto the set that closes the chain."""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.compiled import jit
from onboard.planning.contact.ik import solve_cholesky
from onboard.planning.contact.ik_loss import (
    ROTATION_LEVER_M,
    from_unit,
    point_jacobian,
    rotation_error,
    to_unit,
    world_columns,
)
from onboard.planning.contact.kinematics import chain

POSITION_M, ANGLE_RAD = 2e-5, 2e-4  # far inside the stick tolerances, 1 mm and 0.5 degrees
ITERATIONS = 15
_DAMPING = 1e-7  # cuts off directions in which a chain cannot move at first order (a straight one has them)


@jit
def project_closure(body, root, shape, closure, frames):  # type: ignore[no-untyped-def]
    """Changes `shape` (n, 3) as little as possible until its end is at `closure` (3, 4); True when it is.

    The norm is that of (rho, cx, cy). frames (n + 1, 3, 4) are those of the result.
    """
    n = shape.shape[0]
    size = 3 * n
    unit, place, turn = np.empty((n, 3)), np.empty((n, 3, 3)), np.empty((n, 3, 3))
    jac, full, gram = np.empty((3, size)), np.empty((6, size)), np.empty((6, 6))
    error, rotation = np.empty(6), np.empty(3)
    to_unit(body, shape, unit)
    for used in range(ITERATIONS + 1):
        chain(root, shape, frames)
        end = frames[n]
        rotation_error(end, closure, rotation)
        distance = 0.0
        for k in range(3):
            error[k] = closure[k, 3] - end[k, 3]
            error[3 + k] = -ROTATION_LEVER_M * rotation[k]
            distance += error[k] ** 2
        angle = np.sqrt(rotation[0] ** 2 + rotation[1] ** 2 + rotation[2] ** 2)
        if np.sqrt(distance) < POSITION_M and angle < ANGLE_RAD:
            aligned = end[0, 0] * closure[0, 0] + end[1, 0] * closure[1, 0] + end[2, 0] * closure[2, 0]
            return aligned > 0.0
        if used == ITERATIONS:
            break
        world_columns(body, frames, shape, place, turn)
        point_jacobian(frames, place, turn, n, end[0, 3], end[1, 3], end[2, 3], jac)
        for k in range(3):
            for i in range(n):
                for j in range(3):
                    full[k, 3 * i + j] = jac[k, 3 * i + j]
                    full[3 + k, 3 * i + j] = ROTATION_LEVER_M * turn[i, k, j]
        for a in range(6):
            for b in range(a + 1):
                total = 0.0
                for i in range(size):
                    total += full[a, i] * full[b, i]
                gram[a, b] = total
            gram[a, a] += _DAMPING
        if not solve_cholesky(gram, error, gram.shape[0]):
            return False
        for i in range(n):
            for j in range(3):
                for a in range(6):
                    unit[i, j] += full[a, 3 * i + j] * error[a]
        from_unit(body, unit, shape)
    return False
