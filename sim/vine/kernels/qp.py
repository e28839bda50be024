"""The step's quadratic program: primal-dual interior point with an exact active-set finish.

    minimise   1/2 v'Hv - b'v + 1/2 |l|^2_C + 1/2 |z|^2_E     over v, with
    A v - C l = d  (joints, growth, bending),     G v + E z - s = e,  s >= 0, z >= 0,  s z = 0  (contacts)

Every contact has the compliance E > 0, so the program is strictly convex and always feasible. A guess of the active
contacts is tried first: one linear solve proves it right or wrong. Otherwise Mehrotra's predictor-corrector runs from a
centred start; as soon as it tells the active contacts apart, the linear solve finishes to rounding error.
"""

from __future__ import annotations

from sim.vine.kernels import apart, inner
from sim.vine.kernels import columns as col
from sim.vine.kernels.blocks import factor, solve, solve_refined

GUESSES = 6
LIMIT = 60
RESTART = 16
AGREE = 1e-13  # m/s: a contact this close to its switch may count on either side

CLOSED = 1e-13  # complementarity, relative to the centred start, at which the interior point stops

AUTO, INTERIOR_ONLY = 0, 1


@inner
def solve_active(work, n, rows, per, soft):
    """Solves with the active contacts held as springs; True if no contact should switch.

    Writes v, l, z; on False the active flags hold the corrected guess.
    """
    apart()
    held = False
    for r in range(rows):
        work.row[r, col.WEIGHT] = 1.0 / soft if work.index[r, col.ACTIVE] else 0.0
        held |= work.index[r, col.ACTIVE] != 0
    if not factor(work, n, per):
        return False
    for j in range(n):
        for k in range(3):
            work.link[j, col.TOP + k] = work.link[j, col.FORCE + k]
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            if work.index[r, col.ACTIVE]:
                pull = work.row[r, col.WEIGHT] * work.row[r, col.TARGET]
                for k in range(3):
                    work.link[j, col.TOP + k] += pull * work.row[r, col.ROW + k]
    if held:
        solve_refined(work, n, per, col.TOP, col.DRIFT, col.SPEED, col.LAM)
    else:
        solve(work, n, col.TOP, col.DRIFT, col.SPEED, col.LAM)
    right = True
    for j in range(n):
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            gap = -work.row[r, col.TARGET]
            for k in range(3):
                gap += work.row[r, col.ROW + k] * work.link[j, col.SPEED + k]
            if work.index[r, col.ACTIVE]:
                work.row[r, col.Z] = -gap / soft
                if gap > AGREE:
                    work.index[r, col.ACTIVE] = False
                    right = False
            else:
                work.row[r, col.Z] = 0.0
                if not gap >= -AGREE:
                    work.index[r, col.ACTIVE] = True
                    right = False
            work.row[r, col.SLACK] = gap
    for j in range(n):
        if not (abs(work.link[j, col.SPEED]) + abs(work.link[j, col.SPEED + 1]) + abs(work.link[j, col.SPEED + 2]) < 1e12):
            return False
    return right


@inner
def row_times(work, r, link, x):
    return (
        work.row[r, col.ROW] * work.link[link, x]
        + work.row[r, col.ROW + 1] * work.link[link, x + 1]
        + work.row[r, col.ROW + 2] * work.link[link, x + 2]
    )


@inner
def residuals(work, n, per, soft):
    """Dual, joint and contact residuals at the present iterate."""
    apart()
    for j in range(n):
        h, turn = work.link[j, col.HEFT], work.link[j, col.HEFT + 1]
        l0, l1, l2 = work.link[j, col.LAM], work.link[j, col.LAM + 1], work.link[j, col.LAM + 2]
        v0, v1, v2 = work.link[j, col.SPEED], work.link[j, col.SPEED + 1], work.link[j, col.SPEED + 2]
        d0 = h * v0 - work.link[j, col.FORCE] + l0
        d1 = h * v1 - work.link[j, col.FORCE + 1] + l1
        d2 = turn * v2 - work.link[j, col.FORCE + 2] + l2 - work.link[j, col.REAR] * l0 - work.link[j, col.REAR + 1] * l1
        if j < n - 1:
            m0, m1, m2 = work.link[j + 1, col.LAM], work.link[j + 1, col.LAM + 1], work.link[j + 1, col.LAM + 2]
            d0 -= m0
            d1 -= m1
            d2 -= work.link[j, col.FRONT] * m0 + work.link[j, col.FRONT + 1] * m1 + m2
        p0 = (
            v0
            - v2 * work.link[j, col.REAR]
            - work.link[j, col.GIVE] * l0
            - work.link[j, col.GIVE + 1] * l1
            - work.link[j, col.DRIFT]
        )
        p1 = (
            v1
            - v2 * work.link[j, col.REAR + 1]
            - work.link[j, col.GIVE + 1] * l0
            - work.link[j, col.GIVE + 2] * l1
            - work.link[j, col.DRIFT + 1]
        )
        p2 = v2 - work.link[j, col.GIVE + 3] * l2 - work.link[j, col.DRIFT + 2]
        if j > 0:
            u2 = work.link[j - 1, col.SPEED + 2]
            p0 -= work.link[j - 1, col.SPEED] + u2 * work.link[j - 1, col.FRONT]
            p1 -= work.link[j - 1, col.SPEED + 1] + u2 * work.link[j - 1, col.FRONT + 1]
            p2 -= u2
        work.link[j, col.DUAL], work.link[j, col.DUAL + 1], work.link[j, col.DUAL + 2] = d0, d1, d2
        work.link[j, col.BOTTOM], work.link[j, col.BOTTOM + 1], work.link[j, col.BOTTOM + 2] = -p0, -p1, -p2
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            z = work.row[r, col.Z]
            for k in range(3):
                work.link[j, col.DUAL + k] -= z * work.row[r, col.ROW + k]
            work.row[r, col.MISS] = row_times(work, r, j, col.SPEED) + soft * z - work.row[r, col.SLACK] - work.row[r, col.TARGET]


@inner
def newton_step(work, n, per):
    """Direction (dv, dl, dz, ds) for the complementarity right-hand side PRODUCT, with the last factor."""
    apart()
    for j in range(n):
        for k in range(3):
            work.link[j, col.TOP + k] = -work.link[j, col.DUAL + k]
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            pull = -work.row[r, col.WEIGHT] * (work.row[r, col.MISS] + work.row[r, col.PRODUCT] / work.row[r, col.Z])
            for k in range(3):
                work.link[j, col.TOP + k] += pull * work.row[r, col.ROW + k]
    solve(work, n, col.TOP, col.BOTTOM, col.DV, col.DL)
    for j in range(n):
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            move = row_times(work, r, j, col.DV)
            dz = -work.row[r, col.WEIGHT] * (work.row[r, col.MISS] + work.row[r, col.PRODUCT] / work.row[r, col.Z] + move)
            work.row[r, col.DZ] = dz
            work.row[r, col.DS] = -(work.row[r, col.PRODUCT] + work.row[r, col.SLACK] * dz) / work.row[r, col.Z]


@inner
def longest(work, rows):
    """Longest step in [0, 1] that keeps slacks and multipliers non-negative."""
    step = 1.0
    for r in range(rows):
        if work.row[r, col.DZ] < 0.0:
            step = min(step, -work.row[r, col.Z] / work.row[r, col.DZ])
        if work.row[r, col.DS] < 0.0:
            step = min(step, -work.row[r, col.SLACK] / work.row[r, col.DS])
    return step


@inner
def interior_point(work, n, rows, per, soft, exact_finish):
    """Mehrotra's method from a centred start. Returns iterations, negative when it has not converged."""
    apart()
    for r in range(rows):
        work.index[r, col.ACTIVE] = False
    solve_active(work, n, rows, per, soft)
    scale, worst = 1e-3, 0.0
    for r in range(rows):
        worst = max(worst, -work.row[r, col.SLACK])
    scale = max(scale, worst)
    mass = work.link[0, col.HEFT]
    start = mass * scale * scale
    for r in range(rows):
        work.row[r, col.SLACK] = max(work.row[r, col.SLACK], scale)
        work.row[r, col.Z] = start / work.row[r, col.SLACK]
    solves = 1
    for iteration in range(LIMIT):
        mu = 0.0
        for r in range(rows):
            mu += work.row[r, col.SLACK] * work.row[r, col.Z]
        mu /= rows
        if iteration == RESTART or iteration == 2 * RESTART:
            for r in range(rows):  # cycling between the walls of a slot: back to the central path
                work.row[r, col.Z] = mu / work.row[r, col.SLACK]
        residuals(work, n, per, soft)
        if mu < CLOSED * start or (exact_finish and iteration >= 2 and mu < 1e-3 * start):
            if not exact_finish:
                return iteration + solves
            for r in range(rows):
                work.index[r, col.ACTIVE] = work.row[r, col.Z] * scale > start / scale * work.row[r, col.SLACK]
                work.row[r, col.KSLACK], work.row[r, col.KZ] = work.row[r, col.SLACK], work.row[r, col.Z]
            for j in range(n):
                for k in range(3):
                    work.link[j, col.KSPEED + k], work.link[j, col.KLAM + k] = (
                        work.link[j, col.SPEED + k],
                        work.link[j, col.LAM + k],
                    )
            for _ in range(3):
                solves += 1
                if solve_active(work, n, rows, per, soft):
                    return iteration + solves
            for r in range(rows):
                work.row[r, col.SLACK], work.row[r, col.Z] = work.row[r, col.KSLACK], work.row[r, col.KZ]
            for j in range(n):
                for k in range(3):
                    work.link[j, col.SPEED + k], work.link[j, col.LAM + k] = (
                        work.link[j, col.KSPEED + k],
                        work.link[j, col.KLAM + k],
                    )
            if mu < CLOSED * start:
                for r in range(rows):
                    work.row[r, col.WEIGHT] = work.row[r, col.Z] / (soft * work.row[r, col.Z] + work.row[r, col.SLACK])
                return iteration + solves
        for r in range(rows):
            work.row[r, col.WEIGHT] = work.row[r, col.Z] / (soft * work.row[r, col.Z] + work.row[r, col.SLACK])
            work.row[r, col.PRODUCT] = work.row[r, col.SLACK] * work.row[r, col.Z]
        if not factor(work, n, per):
            return -(iteration + solves)
        newton_step(work, n, per)
        step = longest(work, rows)
        ahead = 0.0
        for r in range(rows):
            ahead += (work.row[r, col.SLACK] + step * work.row[r, col.DS]) * (work.row[r, col.Z] + step * work.row[r, col.DZ])
        ahead /= rows
        centring = min(max((ahead / mu) ** 3, 1e-4), 0.8)
        for r in range(rows):
            cross = work.row[r, col.DS] * work.row[r, col.DZ]
            work.row[r, col.PRODUCT] = work.row[r, col.SLACK] * work.row[r, col.Z] - centring * mu + min(max(cross, -mu), mu)
        newton_step(work, n, per)
        step = min(1.0, 0.99 * longest(work, rows))
        if step < 0.1:  # the corrector went astray: a plain centring step keeps the neighbourhood
            for r in range(rows):
                work.row[r, col.PRODUCT] = work.row[r, col.SLACK] * work.row[r, col.Z] - 0.5 * mu
            newton_step(work, n, per)
            step = min(1.0, 0.99 * longest(work, rows))
        for j in range(n):
            for k in range(3):
                work.link[j, col.SPEED + k] += step * work.link[j, col.DV + k]
                work.link[j, col.LAM + k] += step * work.link[j, col.DL + k]
        for r in range(rows):
            work.row[r, col.SLACK] = max(work.row[r, col.SLACK] + step * work.row[r, col.DS], 1e-17 * scale)
            work.row[r, col.Z] = max(work.row[r, col.Z] + step * work.row[r, col.DZ], 1e-17 * start / scale)
    return -(LIMIT + solves)


@inner
def solve_step(work, n, rows, per, soft, method):
    """Solves the step's program into col.SPEED, col.LAM, work.z; iterations, negative when not converged."""
    apart()
    tried = 0
    if method == AUTO or rows == 0:
        for _ in range(GUESSES if rows > 0 else 1):
            tried += 1
            if solve_active(work, n, rows, per, soft):
                return tried
        if rows == 0:
            return -tried
    iterations = interior_point(work, n, rows, per, soft, method == AUTO)
    return iterations - tried if iterations < 0 else iterations + tried
