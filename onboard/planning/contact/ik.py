"""Inverse kinematics of one free block: interior-point Levenberg-Marquardt under the frozen convex sections.

In the loss's coordinates (rho, cx, cy) every constraint is linear; a logarithmic barrier keeps every iterate strictly
inside, and its weight falls with every accepted step.
"""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.compiled import jit, zero2
from onboard.planning.contact.ik_loss import block_loss, from_unit, to_unit
from onboard.planning.contact.kinematics import chain

BARRIER_START, BARRIER_END = 1e-2, 1e-5


@jit
def _barrier(unit, matrix, bound, square, slope):  # type: ignore[no-untyped-def]
    """Minus the sum of log slacks, inf outside; its second (n, 3, 3) and first (n, 3) derivatives are written."""
    zero2(slope)
    total = 0.0
    for i in range(unit.shape[0]):
        zero2(square[i])
        for f in range(bound.shape[1]):
            a0, a1, a2 = matrix[i, f, 0], matrix[i, f, 1], matrix[i, f, 2]
            room = bound[i, f] - a0 * unit[i, 0] - a1 * unit[i, 1] - a2 * unit[i, 2]
            if room <= 0.0:
                return np.inf
            total -= np.log(room)
            inverse = 1.0 / room
            for j in range(3):
                slope[i, j] += matrix[i, f, j] * inverse
                for k in range(j + 1):
                    square[i, j, k] += matrix[i, f, j] * matrix[i, f, k] * inverse * inverse
    return total


@jit
def solve_cholesky(matrix, rhs, size):  # type: ignore[no-untyped-def]
    """Solves in place with the lower half of `matrix`; the solution replaces `rhs`. False: not positive definite."""
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                matrix[i, i] = np.sqrt(total)
            else:
                matrix[i, j] = total / matrix[j, j]
    for i in range(size):
        for k in range(i):
            rhs[i] -= matrix[i, k] * rhs[k]
        rhs[i] /= matrix[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            rhs[i] -= matrix[k, i] * rhs[k]
        rhs[i] /= matrix[i, i]
    return True


@jit
def _inside(unit, matrix, bound):  # type: ignore[no-untyped-def]
    """Moves every segment towards the middle (1/2, 0, 0) until its slacks are 2 % of the middle's; False: empty."""
    for i in range(unit.shape[0]):
        keep = 1.0
        for f in range(bound.shape[1]):
            middle = bound[i, f] - 0.5 * matrix[i, f, 0]
            if middle <= 0.0:
                return False
            now = bound[i, f] - matrix[i, f, 0] * unit[i, 0] - matrix[i, f, 1] * unit[i, 1] - matrix[i, f, 2] * unit[i, 2]
            if now < 0.02 * middle:
                keep = min(keep, 0.98 * middle / (middle - now))
        unit[i, 0] = 0.5 + keep * (unit[i, 0] - 0.5)
        unit[i, 1] *= keep
        unit[i, 2] *= keep
    return True


@jit
def solve_block(  # type: ignore[no-untyped-def]
    body, weights, solids, root, start, matrix, bound, link, target, closed, closure, shape, frames
):
    """Minimises the block's loss from one start.

    root (3, 4) is the anchor's frame; start (n, 3) rows (L, kx, ky); matrix (n, F, 3) and bound (n, F) the frozen
    sections; link the index (1..n) that should reach `target` (3, 4), 0 for none; closed asks for link n at `closure`.
    shape (n, 3) and frames (n + 1, 3, 4) receive the result. Returns (iterations, loss), loss inf: empty section.
    """
    n = start.shape[0]
    size = 3 * n
    work = (
        np.empty((n, 3, 3)), np.empty((n, 3, 3)), np.empty((3, size)), np.empty(size),
        np.empty((3, 4)), np.empty(3), np.empty((3, 3)), np.empty((3, 3)),
    )  # fmt: skip
    unit, trial, step = np.empty((n, 3)), np.empty((n, 3)), np.empty(size)
    hessian, other_hessian, factor = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    gradient, other_gradient = np.empty(size), np.empty(size)
    square, other_square = np.empty((n, 3, 3)), np.empty((n, 3, 3))
    slope, other_slope = np.empty((n, 3)), np.empty((n, 3))
    to_unit(body, start, unit)
    if not _inside(unit, matrix, bound):
        return 0, np.inf
    cost = block_loss(body, weights, solids, root, unit, link, target, closed, closure, shape, frames, hessian, gradient, work)
    logs = _barrier(unit, matrix, bound, square, slope)
    mu, damping, used, stalled = BARRIER_START, 1e-3, 0, 0
    while used < weights.iterations:
        used += 1
        for i in range(size):
            for j in range(i + 1):
                factor[i, j] = hessian[i, j]
            segment_of, local = i // 3, i % 3
            for k in range(local + 1):
                factor[i, 3 * segment_of + k] += mu * square[segment_of, local, k]
            factor[i, i] += damping * (factor[i, i] + 1e-3)
            step[i] = -(gradient[i] + mu * slope[segment_of, local])
        if not solve_cholesky(factor, step, size):
            damping = 10.0 * damping + 1e-6
            continue
        share = 1.0
        for i in range(n):
            for f in range(bound.shape[1]):
                climb = 0.0
                room = bound[i, f]
                for j in range(3):
                    climb += matrix[i, f, j] * step[3 * i + j]
                    room -= matrix[i, f, j] * unit[i, j]
                if climb * share > 0.95 * room:
                    share = 0.95 * room / climb
        largest = 0.0
        for i in range(n):
            for j in range(3):
                trial[i, j] = unit[i, j] + share * step[3 * i + j]
                largest = max(largest, abs(share * step[3 * i + j]))
        trial_cost = block_loss(
            body, weights, solids, root, trial, link, target, closed, closure, shape, frames,
            other_hessian, other_gradient, work,
        )  # fmt: skip
        trial_logs = _barrier(trial, matrix, bound, other_square, other_slope)
        before, after = cost + mu * logs, trial_cost + mu * trial_logs
        if after < before:
            stalled = stalled + 1 if before - after < 1e-3 * abs(before) + 1e-7 else 0
            cost, logs = trial_cost, trial_logs
            unit, trial = trial, unit
            hessian, other_hessian = other_hessian, hessian
            gradient, other_gradient = other_gradient, gradient
            square, other_square = other_square, square
            slope, other_slope = other_slope, slope
            damping = max(0.2 * damping, 1e-7)
            mu = max(0.25 * mu, BARRIER_END)
            if mu == BARRIER_END and (stalled >= 2 or largest < 1e-4):
                break
        else:
            damping *= 8.0
            if damping > 1e6 or largest < 1e-6:
                if mu == BARRIER_END:
                    break
                mu, damping = max(0.25 * mu, BARRIER_END), 1e-3
    from_unit(body, unit, shape)
    chain(root, shape, frames)
    return used, cost
