"""One time step of one robot: insertion of a link, assembly of the quadratic program, solution, position update.

Links 0 to n - 2 are full and pinned; the last one, the tip, slides along its own direction out of the last joint:
its position is the tip's, its extension is measured from the joint. All rows are at velocity level with full
position correction, J h v = -c(q), as in section IV of arXiv 2501.17963; the differences are listed in docs/vine.md.
"""

from __future__ import annotations

import math

from sim.vine.kernels import apart, inner
from sim.vine.kernels import columns as col
from sim.vine.kernels.geometry import find_contacts
from sim.vine.kernels.laws import DAMPING, DRAG, FRICTION, INERTIA, MASS, RADIUS, law_terms, moment
from sim.vine.kernels.qp import solve_step
from sim.vine.kernels.work import FULL, INFEASIBLE, INSERTED, NEAR_SWITCH, OUT_OF_DOMAIN, UNCONVERGED

LEAST_SHARE = 0.1  # of a full link's mass at zero extension
FLAT_BENDING = 1e-15  # N m s^2: weight of a bending row that is switched off
SWITCH_GAP = 1e-7  # m/s and, for insertion, relative: nearer than this a derivative is one-sided
SQUASHED_M = 1e-4  # hard growth into a wall: deeper than this the demand was infeasible


@inner
def tip_extension(q, n, half):
    """(extension, sideways offset) of the tip from the last joint [m]; needs two links."""
    tip, joint = n - 1, n - 2
    rx = q[tip, 0] - q[joint, 0] - half * math.cos(q[joint, 2])
    ry = q[tip, 1] - q[joint, 1] - half * math.sin(q[joint, 2])
    c, s = math.cos(q[tip, 2]), math.sin(q[tip, 2])
    return c * rx + s * ry, c * ry - s * rx


@inner
def insert_link(q, v, n, half):
    """Turns the tip's first full length into a link that moves rigidly with the joint; the tip itself stays."""
    joint, old, new = n - 2, n - 1, n
    for k in range(3):
        q[new, k], v[new, k] = q[old, k], v[old, k]
    c, s = math.cos(q[joint, 2]), math.sin(q[joint, 2])
    ct, st = math.cos(q[old, 2]), math.sin(q[old, 2])
    q[old, 0] = q[joint, 0] + half * (c + ct)
    q[old, 1] = q[joint, 1] + half * (s + st)
    v[old, 0] = v[joint, 0] - half * (s * v[joint, 2] + st * v[old, 2])
    v[old, 1] = v[joint, 1] + half * (c * v[joint, 2] + ct * v[old, 2])


@inner
def insert_link_adjoint(q, n, half, gq, gv, v):
    """Reverse of `insert_link`: q, v, n before it; gq, gv are rewritten in place."""
    joint, old, new = n - 2, n - 1, n
    c, s = math.cos(q[joint, 2]), math.sin(q[joint, 2])
    ct, st = math.cos(q[old, 2]), math.sin(q[old, 2])
    px, py, ux, uy = gq[old, 0], gq[old, 1], gv[old, 0], gv[old, 1]
    gq[joint, 0] += px
    gq[joint, 1] += py
    gq[joint, 2] += half * (-s * px + c * py) - half * v[joint, 2] * (c * ux + s * uy)
    gv[joint, 0] += ux
    gv[joint, 1] += uy
    gv[joint, 2] += half * (-s * ux + c * uy)
    gq[old, 0], gq[old, 1] = gq[new, 0], gq[new, 1]
    gq[old, 2] += gq[new, 2] + half * (-st * px + ct * py) - half * v[old, 2] * (ct * ux + st * uy)
    gv[old, 0], gv[old, 1] = gv[new, 0], gv[new, 1]
    gv[old, 2] += gv[new, 2] + half * (-st * ux + ct * uy)
    for k in range(3):
        gq[new, k] = gv[new, k] = 0.0


@inner
def growth_compliance(p, pressure, cfg, h):
    """Compliance of the growth row: growth slows by top_rate per stall force, pressure times tip area [1/kg]."""
    if cfg.hard:
        return 0.0
    return cfg.top_rate / (pressure * math.pi * p[RADIUS] ** 2 * h)


@inner
def rest_angle(j, n, extension, curvature, half):
    """Angle at rest of joint j: the side muscles' curvature times the length it stands for."""
    if j == 0:
        return 0.0
    if j == n - 1:
        return curvature * min(max(extension, 0.0), 2.0 * half)
    return curvature * 2.0 * half


@inner
def assemble(work, world, robot, q, v, n, rate, pressure, base, base_turn, curvature, p, cfg, h):
    """Fills `work` with the step's program; returns (contact rows, rows a contact, status bits)."""
    apart()
    half, status = cfg.half, 0
    tip = n - 1
    extension, sideways = tip_extension(q, n, half)
    share = 1.0
    if cfg.growing_mass:
        share = min(max(extension / (2.0 * half), LEAST_SHARE), 1.0)
    terms = law_terms(cfg.law, p, pressure)
    for i in range(n):
        c, s = math.cos(q[i, 2]), math.sin(q[i, 2])
        work.link[i, col.T], work.link[i, col.T + 1] = c, s
        work.link[i, col.FRONT], work.link[i, col.FRONT + 1] = -half * s, half * c
        work.link[i, col.REAR], work.link[i, col.REAR + 1] = -half * s, half * c
        part = share if i == tip else 1.0
        mass, turning = part * p[MASS], part * p[INERTIA]
        work.link[i, col.HEFT], work.link[i, col.HEFT + 1] = mass + h * part * p[DRAG], turning
        work.link[i, col.FORCE], work.link[i, col.FORCE + 1], work.link[i, col.FORCE + 2] = (
            mass * v[i, 0],
            mass * v[i, 1],
            turning * v[i, 2],
        )
        if i == 0:
            cx, cy = base[0], base[1]
        else:
            cx = q[i - 1, 0] + half * work.link[i - 1, col.T]
            cy = q[i - 1, 1] + half * work.link[i - 1, col.T + 1]
        if i < tip:
            work.link[i, col.DRIFT] = -(q[i, 0] - half * c - cx) / h
            work.link[i, col.DRIFT + 1] = -(q[i, 1] - half * s - cy) / h
            work.link[i, col.GIVE] = work.link[i, col.GIVE + 1] = work.link[i, col.GIVE + 2] = 0.0
        else:
            work.link[i, col.REAR], work.link[i, col.REAR + 1] = -(q[i, 1] - cy), q[i, 0] - cx
            back = -sideways / h
            work.link[i, col.DRIFT], work.link[i, col.DRIFT + 1] = -s * back + c * rate, c * back + s * rate
            give = growth_compliance(p, pressure, cfg, h)
            work.link[i, col.GIVE], work.link[i, col.GIVE + 1] = give * c * c, give * c * s
            work.link[i, col.GIVE + 2] = give * s * s
        work.link[i, col.DRIFT + 2] = 0.0
        # Bending of joint i.
        before = base[2] if i == 0 else q[i - 1, 2]
        bent = q[i, 2] - before - rest_angle(i, n, extension, curvature, half)
        if abs(bent) > math.pi:
            status |= OUT_OF_DOMAIN
        value, secant, slope, secant_slope = moment(cfg.law, p, terms, bent)
        work.link[i, col.BEND], work.link[i, col.BEND + 1], work.link[i, col.BEND + 2] = bent, value, secant
        work.link[i, col.BEND + 3], work.link[i, col.BEND + 4] = slope, secant_slope
        if cfg.implicit:
            push = h * value
            if i == 0:
                push -= h * p[DAMPING] * base_turn
            work.link[i, col.GIVE + 3] = 1.0 / max(h * (h * secant + p[DAMPING]), FLAT_BENDING)
        else:
            turn = v[i, 2] - (base_turn if i == 0 else v[i - 1, 2])
            push = h * (value + p[DAMPING] * turn)
            work.link[i, col.GIVE + 3] = 1.0 / FLAT_BENDING
        work.link[i, col.FORCE + 2] -= push
        if i > 0:
            work.link[i - 1, col.FORCE + 2] += push
    contacts = find_contacts(work, world, robot, q, n, extension, half, p[RADIUS], cfg.margin, cfg.centre_discs)
    friction = p[FRICTION]
    if friction == 0.0:
        for r in range(contacts):
            work.row[r, col.ROW], work.row[r, col.ROW + 1], work.row[r, col.ROW + 2] = (
                work.row[r, col.OPEN],
                work.row[r, col.OPEN + 1],
                work.row[r, col.OPEN + 2],
            )
            work.row[r, col.TARGET] = -work.row[r, col.GAP] / h
        return contacts, 1, status
    for i in range(n):
        for at in range(work.first[i], work.first[i + 1]):
            # Convex cone of Anitescu: a sliding contact rides up by friction times its travel in the step.
            for side in range(2):
                r = 2 * at + side
                mu = friction if side == 0 else -friction
                for k in range(3):
                    work.row[r, col.ROW + k] = work.row[at, col.OPEN + k] + mu * work.row[at, col.SLIDE + k]
                work.row[r, col.TARGET] = -work.row[at, col.GAP] / h
    return 2 * contacts, 2, status


@inner
def substep(work, world, robot, q, v, n, rate, pressure, base, base_turn, curvature, p, cfg, h):
    """Advances q, v in place by h; returns (links, iterations, status bits, contact rows, rows a contact)."""
    apart()
    status = 0
    links = q.shape[0]
    extension, _ = tip_extension(q, n, cfg.half)
    if extension > 2.0 * cfg.half:
        if n < links:
            insert_link(q, v, n, cfg.half)
            n += 1
            status |= INSERTED
        else:
            status |= FULL
            rate = 0.0
    if abs(extension / (2.0 * cfg.half) - 1.0) < SWITCH_GAP:
        status |= NEAR_SWITCH
    rows, per, more = assemble(work, world, robot, q, v, n, rate, pressure, base, base_turn, curvature, p, cfg, h)
    status |= more
    soft = 1.0 / (cfg.contact_stiffness * h * h)
    for i in range(n):  # first guess: what the present velocity would close
        for r in range(work.first[i] * per, work.first[i + 1] * per):
            ahead = -work.row[r, col.TARGET]
            for k in range(3):
                ahead += work.row[r, col.ROW + k] * v[i, k]
            work.index[r, col.ACTIVE] = ahead < 1e-6
    iterations = solve_step(work, n, rows, per, soft, cfg.method)
    if iterations < 0:
        status |= UNCONVERGED
        iterations = -iterations
    for r in range(rows):
        if abs(work.row[r, col.SLACK]) < SWITCH_GAP and work.row[r, col.Z] * soft < SWITCH_GAP:
            status |= NEAR_SWITCH
        if cfg.hard and work.row[r, col.Z] * soft * h > SQUASHED_M:
            status |= INFEASIBLE
    for i in range(n):
        for k in range(3):
            v[i, k] = work.link[i, col.SPEED + k]
            q[i, k] += h * work.link[i, col.SPEED + k]
    return n, iterations, status, rows, per


@inner
def joint_error(q, n, base, half):
    """Largest distance between what the joints hold together [m]."""
    worst = 0.0
    x, y = base[0], base[1]
    for i in range(n - 1):
        c, s = half * math.cos(q[i, 2]), half * math.sin(q[i, 2])
        worst = max(worst, math.hypot(q[i, 0] - c - x, q[i, 1] - s - y))
        x, y = q[i, 0] + c, q[i, 1] + s
    _, sideways = tip_extension(q, n, half)
    return max(worst, abs(sideways))


@inner
def penetration(work, world, robot, q, n, cfg, radius):
    """Deepest overlap with an obstacle at pose q [m]; overwrites the contact list."""
    apart()
    for i in range(n):
        work.link[i, col.T], work.link[i, col.T + 1] = math.cos(q[i, 2]), math.sin(q[i, 2])
    extension, _ = tip_extension(q, n, cfg.half)
    count = find_contacts(work, world, robot, q, n, extension, cfg.half, radius, 0.0, cfg.centre_discs)
    worst = 0.0
    for k in range(count):
        worst = max(worst, -work.row[k, col.GAP])
    return worst
