"""Reverse of one time step: one more block tridiagonal solve gives the gradient of everything that entered it.

With the step's optimality system K (v, l) = ... differentiated as a whole, a cotangent g of the next velocity becomes
(a, m) = K^-1 (g, 0), K = [H + G'wG, A'; A, -C], w = z / (E z + s), and every input x receives
a.(db - dH v - dA'l + dG'z + G'w (de - dG v)) + m.(dd - dA v + dC l). Exact away from contact switches.
"""

from __future__ import annotations

from sim.vine.kernels import apart, inner
from sim.vine.kernels import columns as col
from sim.vine.kernels.blocks import factor, solve, solve_refined
from sim.vine.kernels.geometry import contact_adjoint
from sim.vine.kernels.laws import DAMPING, DRAG, FRICTION, INERTIA, MASS, RADIUS, law_terms, law_terms_adjoint, moment_adjoint
from sim.vine.kernels.step import (
    FLAT_BENDING,
    LEAST_SHARE,
    assemble,
    growth_compliance,
    insert_link,
    insert_link_adjoint,
    tip_extension,
)
from sim.vine.kernels.work import BASE_HEADING, BASE_X, BASE_Y, CURVATURE, PRESSURE, RATE

BASE_TURN = 6  # after the six controls: the base's turning rate during the step
STEP_INPUTS = 7


@inner
def bending_adjoint(work, i, v, h, p, cfg, terms, base_turn, extension, curvature, tip, gq, gv, gp, gc, by_terms):
    """Bending of joint i; returns its share of d / d extension."""
    apart()
    twist = work.link[i, col.DV + 2] - (work.link[i - 1, col.DV + 2] if i > 0 else 0.0)
    by_moment, by_secant = -h * twist, 0.0
    if cfg.implicit:
        if h * (h * work.link[i, col.BEND + 2] + p[DAMPING]) > FLAT_BENDING:
            rate = work.link[i, col.SPEED + 2] - (work.link[i - 1, col.SPEED + 2] if i > 0 else 0.0)
            by_weight = -twist * rate
            by_secant = h * h * by_weight
            gp[DAMPING] += h * by_weight
        if i == 0:
            gp[DAMPING] += h * twist * base_turn
            gc[BASE_TURN] += h * p[DAMPING] * twist
    else:
        rate = v[i, 2] - (v[i - 1, 2] if i > 0 else base_turn)
        gp[DAMPING] -= h * twist * rate
        by_rate = -h * twist * p[DAMPING]
        gv[i, 2] += by_rate
        if i > 0:
            gv[i - 1, 2] -= by_rate
        else:
            gc[BASE_TURN] -= by_rate
    by_bent = by_moment * work.link[i, col.BEND + 3] + by_secant * work.link[i, col.BEND + 4]
    moment_adjoint(cfg.law, p, terms, work.link[i, col.BEND], by_moment, by_secant, gp, by_terms)
    gq[i, 2] += by_bent
    if i == 0:
        gc[BASE_HEADING] -= by_bent
        return 0.0
    gq[i - 1, 2] -= by_bent
    full = 2.0 * cfg.half
    if i < tip:
        gc[CURVATURE] -= by_bent * full
        return 0.0
    gc[CURVATURE] -= by_bent * min(max(extension, 0.0), full)
    return -by_bent * curvature if 0.0 < extension < full else 0.0


@inner
def pin_adjoint(work, i, h, half, gq, gc):
    """Pin of link i to the link before it, or to the base."""
    apart()
    lx, ly, mx, my = work.link[i, col.LAM], work.link[i, col.LAM + 1], work.link[i, col.DL], work.link[i, col.DL + 1]
    c, s = work.link[i, col.T], work.link[i, col.T + 1]
    a, w = work.link[i, col.DV + 2], work.link[i, col.SPEED + 2]
    gq[i, 0] -= mx / h
    gq[i, 1] -= my / h
    gq[i, 2] += half / h * (-s * mx + c * my) - half * (c * (lx * a + mx * w) + s * (ly * a + my * w))
    if i == 0:
        gc[BASE_X] += mx / h
        gc[BASE_Y] += my / h
        return
    gq[i - 1, 0] += mx / h
    gq[i - 1, 1] += my / h
    c, s = work.link[i - 1, col.T], work.link[i - 1, col.T + 1]
    a, w = work.link[i - 1, col.DV + 2], work.link[i - 1, col.SPEED + 2]
    gq[i - 1, 2] += half / h * (-s * mx + c * my) - half * (c * (lx * a + mx * w) + s * (ly * a + my * w))


@inner
def tip_adjoint(work, n, pressure, rate, grows, extension, sideways, by_extension, h, p, cfg, gq, gp, gc):
    """Sliding and growth of the tip out of the last joint."""
    apart()
    tip, half = n - 1, cfg.half
    joint = tip - 1
    c, s = work.link[tip, col.T], work.link[tip, col.T + 1]
    lx, ly, mx, my = work.link[tip, col.LAM], work.link[tip, col.LAM + 1], work.link[tip, col.DL], work.link[tip, col.DL + 1]
    a, w = work.link[tip, col.DV + 2], work.link[tip, col.SPEED + 2]
    rx, ry = a * ly + w * my, -a * lx - w * mx  # on the tip's offset from the joint
    m_along, m_across = c * mx + s * my, c * my - s * mx
    l_along, l_across = c * lx + s * ly, c * ly - s * lx
    back = -sideways / h
    if grows:
        gc[RATE] += m_along
    turn = m_across * rate - m_along * back
    by_sideways = -m_across / h
    give = growth_compliance(p, pressure, cfg, h)
    turn += give * (m_across * l_along + m_along * l_across)
    by_give = m_along * l_along
    gc[PRESSURE] -= by_give * give / pressure
    gp[RADIUS] -= 2.0 * by_give * give / p[RADIUS]
    rx += by_extension * c - by_sideways * s
    ry += by_extension * s + by_sideways * c
    turn += by_extension * sideways - by_sideways * extension
    gq[tip, 0] += rx
    gq[tip, 1] += ry
    gq[tip, 2] += turn
    gq[joint, 0] -= rx
    gq[joint, 1] -= ry
    c, s = work.link[joint, col.T], work.link[joint, col.T + 1]
    a, w = work.link[joint, col.DV + 2], work.link[joint, col.SPEED + 2]
    gq[joint, 2] -= half * (-s * rx + c * ry) + half * (c * (lx * a + mx * w) + s * (ly * a + my * w))


@inner
def contacts_adjoint(work, n, per, q, h, p, gq, gp):
    """All contact rows; friction rows come in pairs."""
    apart()
    friction = p[FRICTION]
    for i in range(n):
        a0, a1, a2 = work.link[i, col.DV], work.link[i, col.DV + 1], work.link[i, col.DV + 2]
        s0, s1, s2 = work.link[i, col.SPEED], work.link[i, col.SPEED + 1], work.link[i, col.SPEED + 2]
        for at in range(work.first[i], work.first[i + 1]):
            o0 = o1 = o2 = l0 = l1 = l2 = by_target = 0.0
            for side in range(per):
                r = per * at + side
                pull = work.row[r, col.WEIGHT] * (
                    work.row[r, col.ROW] * a0 + work.row[r, col.ROW + 1] * a1 + work.row[r, col.ROW + 2] * a2
                )
                z = work.row[r, col.Z]
                y0, y1, y2 = z * a0 - pull * s0, z * a1 - pull * s1, z * a2 - pull * s2
                by_target += pull
                o0 += y0
                o1 += y1
                o2 += y2
                if per == 2:
                    sign = 1.0 if side == 0 else -1.0
                    l0 += sign * friction * y0
                    l1 += sign * friction * y1
                    l2 += sign * friction * y2
                    along = work.row[at, col.SLIDE] * y0 + work.row[at, col.SLIDE + 1] * y1 + work.row[at, col.SLIDE + 2] * y2
                    gp[FRICTION] += sign * along
            gp[RADIUS] += contact_adjoint(work, at, q, i, -by_target / h, (o0, o1, o2), (l0, l1, l2), per == 2, gq)


@inner
def substep_adjoint(work, world, robot, q, v, n, rate, pressure, base, base_turn, curvature, p, cfg, h, gq, gv, gp, gc):
    """Reverse of `step.substep` from its start (q, v, n; q and v are overwritten).

    In: col.SPEED, col.LAM, work.z, work.weight of the solution; gq, gv the cotangents of the state after it.
    Out: gq, gv of the state before it; gp (P,) and gc (STEP_INPUTS,) are added to. False if the factor failed.
    """
    apart()
    links, half = q.shape[0], cfg.half
    before = n
    extension, sideways = tip_extension(q, n, half)
    inserted, grows = False, True
    if extension > 2.0 * half:
        if n < links:
            insert_link(q, v, n, half)
            n += 1
            inserted = True
            extension, sideways = tip_extension(q, n, half)
        else:
            grows, rate = False, 0.0
    _, per, _ = assemble(work, world, robot, q, v, n, rate, pressure, base, base_turn, curvature, p, cfg, h)
    if not factor(work, n, per):
        return False
    for i in range(n):
        for k in range(3):
            work.link[i, col.TOP + k] = gv[i, k] + h * gq[i, k]
            work.link[i, col.BOTTOM + k] = 0.0
            gv[i, k] = 0.0
    if work.first[n] > 0:
        solve_refined(work, n, per, col.TOP, col.BOTTOM, col.DV, col.DL)
    else:
        solve(work, n, col.TOP, col.BOTTOM, col.DV, col.DL)
    tip = n - 1
    share, by_share, by_extension = 1.0, 0.0, 0.0
    if cfg.growing_mass:
        share = min(max(extension / (2.0 * half), LEAST_SHARE), 1.0)
    terms = law_terms(cfg.law, p, pressure)
    by_terms = work.extra
    by_terms[0] = by_terms[1] = by_terms[2] = 0.0
    for i in range(n):
        part = share if i == tip else 1.0
        a0, a1, a2 = work.link[i, col.DV], work.link[i, col.DV + 1], work.link[i, col.DV + 2]
        gv[i, 0] += part * p[MASS] * a0
        gv[i, 1] += part * p[MASS] * a1
        gv[i, 2] += part * p[INERTIA] * a2
        by_mass = a0 * (v[i, 0] - work.link[i, col.SPEED]) + a1 * (v[i, 1] - work.link[i, col.SPEED + 1])
        by_inertia = a2 * (v[i, 2] - work.link[i, col.SPEED + 2])
        by_drag = -h * (a0 * work.link[i, col.SPEED] + a1 * work.link[i, col.SPEED + 1])
        gp[MASS] += part * by_mass
        gp[INERTIA] += part * by_inertia
        gp[DRAG] += part * by_drag
        if i == tip:
            by_share = p[MASS] * by_mass + p[INERTIA] * by_inertia + p[DRAG] * by_drag
        else:
            pin_adjoint(work, i, h, half, gq, gc)
        by_extension += bending_adjoint(
            work, i, v, h, p, cfg, terms, base_turn, extension, curvature, tip, gq, gv, gp, gc, by_terms
        )
    if cfg.growing_mass and LEAST_SHARE < extension / (2.0 * half) < 1.0:
        by_extension += by_share / (2.0 * half)
    tip_adjoint(work, n, pressure, rate, grows, extension, sideways, by_extension, h, p, cfg, gq, gp, gc)
    contacts_adjoint(work, n, per, q, h, p, gq, gp)
    gc[PRESSURE] += law_terms_adjoint(cfg.law, p, pressure, by_terms, gp)
    if inserted:
        # Only the inserted link's pose depends on the tip's angle; undo it on the state before.
        rewind_insertion(q, v, before)
        insert_link_adjoint(q, before, half, gq, gv, v)
    return True


@inner
def rewind_insertion(q, v, n):
    """Restores the state before `insert_link`: the tip's row moves back."""
    for k in range(3):
        q[n - 1, k], v[n - 1, k] = q[n, k], v[n, k]
