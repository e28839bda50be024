"""Signed distances from a chain of discs and capsules to rounded convex polygons.

An obstacle is a convex polygon with one (circle), two (wall) or more corners, counter-clockwise, inflated by a rounding
radius. A link touches it in two ways: the disc at the link's front joint against the whole obstacle, and a corner of the
obstacle against the link's side. Together they are the exact distance of the capsule, without the centre discs' gaps.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sim.vine.kernels import apart, inner
from sim.vine.kernels import columns as col

EDGE, CORNER, SIDE = 0, 1, 2  # a disc on an edge, a disc on a corner, an obstacle's corner on a link's side
ROWS_PER_LINK = 6


class World(NamedTuple):
    """Obstacles of all scenes, flat. Lengths in metres."""

    robot: Any  # (B, 2) robot b sees obstacles robot[b, 0] to robot[b, 1] - 1
    span: Any  # (O, 2) first corner, number of corners
    shape: Any  # (O, 4) rounding, centre x and y, greatest distance of the surface from the centre
    corner: Any  # (V, 4) x, y and the outward unit normal of the edge from this corner to the next


@inner
def signed_distance(world, o, px, py):
    """(distance, normal x, normal y, EDGE or CORNER, corner x, corner y) of a point from obstacle `o` [m]."""
    apart()
    start, count = world.span[o, 0], world.span[o, 1]
    best, at = -1e300, start
    if count == 2:
        best = (px - world.corner[start, 0]) * world.corner[start, 2]
        best += (py - world.corner[start, 1]) * world.corner[start, 3]
        sign = 1.0 if best >= 0.0 else -1.0
        best = abs(best)
    else:
        sign = 1.0
        if count > 2:
            for k in range(start, start + count):
                d = (px - world.corner[k, 0]) * world.corner[k, 2] + (py - world.corner[k, 1]) * world.corner[k, 3]
                if d > best:
                    best, at = d, k
    if count > 1:
        after = at + 1 if at + 1 < start + count else start
        ex = world.corner[after, 0] - world.corner[at, 0]
        ey = world.corner[after, 1] - world.corner[at, 1]
        along = (px - world.corner[at, 0]) * ex + (py - world.corner[at, 1]) * ey
        if (best <= 0.0 and count > 2) or (0.0 <= along <= ex * ex + ey * ey):
            nx, ny = sign * world.corner[at, 2], sign * world.corner[at, 3]
            return best - world.shape[o, 0], nx, ny, EDGE, 0.0, 0.0
    nearest, at = 1e300, start
    for k in range(start, start + count):
        d = (px - world.corner[k, 0]) ** 2 + (py - world.corner[k, 1]) ** 2
        if d < nearest:
            nearest, at = d, k
    cx, cy = world.corner[at, 0], world.corner[at, 1]
    nearest = math.sqrt(nearest)
    if nearest < 1e-12:  # exactly on a corner or in a circle's centre: any direction leaves it
        return -world.shape[o, 0], 1.0, 0.0, CORNER, cx, cy
    return nearest - world.shape[o, 0], (px - cx) / nearest, (py - cy) / nearest, CORNER, cx, cy


@inner
def find_contacts(work, world, robot, q, n, extension, half, radius, margin, centre_discs):
    """Fills the robot's contact list (link by link) with everything nearer than `margin`; returns the count."""
    apart()
    total = 0
    for i in range(n):
        work.first[i] = total
        px, py = q[i, 0], q[i, 1]
        tx, ty = work.link[i, col.T], work.link[i, col.T + 1]
        tip = i == n - 1
        arm = 0.0 if (tip or centre_discs) else half
        back = extension if tip else half
        fx, fy = px + arm * tx, py + arm * ty
        for o in range(world.robot[robot, 0], world.robot[robot, 1]):
            far = world.shape[o, 3] + radius + margin + (2.0 * half if tip else half)
            ox, oy = px - world.shape[o, 1], py - world.shape[o, 2]
            if ox * ox + oy * oy > far * far:
                continue
            gap, nx, ny, kind, cx, cy = signed_distance(world, o, fx, fy)
            gap -= radius
            if gap < margin:
                at = slot(work, i, total, gap)
                if at >= 0:
                    total = max(total, at + 1)
                    turn = arm * (tx * ny - ty * nx)
                    fill(work, at, o, kind, gap, arm, nx, ny, turn, -ny, nx, arm * (tx * nx + ty * ny) - radius)
                    if kind == EDGE:
                        work.row[at, col.DATA], work.row[at, col.DATA + 1] = nx, ny
                    else:
                        work.row[at, col.DATA], work.row[at, col.DATA + 1] = cx, cy
            if centre_discs:
                continue
            for k in range(world.span[o, 0], world.span[o, 0] + world.span[o, 1]):
                cx, cy = world.corner[k, 0] - px, world.corner[k, 1] - py
                along = cx * tx + cy * ty
                if along >= arm or along <= -back:
                    continue
                across = cy * tx - cx * ty
                gap = abs(across) - radius - world.shape[o, 0]
                if gap < margin:
                    at = slot(work, i, total, gap)
                    if at >= 0:
                        total = max(total, at + 1)
                        side = 1.0 if across >= 0.0 else -1.0
                        nx, ny = side * ty, -side * tx  # from the corner to the link
                        reach = cx * nx + cy * ny + world.shape[o, 0]
                        fill(work, at, o, SIDE, gap, side, nx, ny, -side * along, -ny, nx, reach)
                        work.row[at, col.DATA], work.row[at, col.DATA + 1] = world.corner[k, 0], world.corner[k, 1]
    work.first[n] = total
    return total


@inner
def slot(work, link, total, gap):
    """Where a new contact of `link` goes: behind the last, or over the farthest one when the link is full; else -1."""
    begin = work.first[link]
    if total - begin < ROWS_PER_LINK:
        return total
    worst = begin
    for k in range(begin + 1, total):
        if work.row[k, col.GAP] > work.row[worst, col.GAP]:
            worst = k
    return worst if work.row[worst, col.GAP] > gap else -1


@inner
def fill(work, at, obstacle, kind, gap, arm, nx, ny, turn, sx, sy, slide_turn):
    """Stores a contact: row (nx, ny, turn) opens the gap, row (sx, sy, slide_turn) slides along it."""
    work.index[at, col.KIND], work.index[at, col.OBSTACLE], work.row[at, col.GAP], work.row[at, col.ARM] = (
        kind,
        obstacle,
        gap,
        arm,
    )
    work.row[at, col.OPEN], work.row[at, col.OPEN + 1], work.row[at, col.OPEN + 2] = nx, ny, turn
    work.row[at, col.SLIDE], work.row[at, col.SLIDE + 1], work.row[at, col.SLIDE + 2] = sx, sy, slide_turn


@inner
def contact_adjoint(work, at, q, i, by_gap, yo, ys, friction, gq):
    """Adds the gradient of by_gap * gap + open . yo + slide . ys with respect to link i's pose; returns d / d radius.

    yo, ys are three numbers each (tuples); `slide` counts only with `friction` on.
    """
    apart()
    tx, ty = work.link[i, col.T], work.link[i, col.T + 1]
    nx, ny = work.row[at, col.OPEN], work.row[at, col.OPEN + 1]
    gq[i, 0] += by_gap * nx
    gq[i, 1] += by_gap * ny
    gq[i, 2] += by_gap * work.row[at, col.OPEN + 2]
    by_radius = -by_gap
    kind, arm = work.index[at, col.KIND], work.row[at, col.ARM]
    if kind == SIDE:
        side = arm
        rx, ry = work.row[at, col.DATA] - q[i, 0], work.row[at, col.DATA + 1] - q[i, 1]
        across = ry * tx - rx * ty
        # open = (side ty, -side tx, -side along): only the angle and the place along the link move it
        gq[i, 2] += side * (tx * yo[0] + ty * yo[1]) - side * across * yo[2]
        gq[i, 0] += side * tx * yo[2]
        gq[i, 1] += side * ty * yo[2]
        if friction:
            # slide = (side tx, side ty, r . n + rounding), r . n = -side across
            gq[i, 2] += side * (-ty * ys[0] + tx * ys[1])
            along = rx * tx + ry * ty
            gq[i, 2] += side * along * ys[2]
            gq[i, 0] += -side * ty * ys[2]
            gq[i, 1] += side * tx * ys[2]
        return by_radius
    # The disc's centre is q + arm t. open = (n, arm t x n), slide = (n turned, arm t . n - radius).
    cross, dot = tx * ny - ty * nx, tx * nx + ty * ny
    gq[i, 2] += -arm * dot * yo[2]
    wx, wy = yo[0] - arm * ty * yo[2], yo[1] + arm * tx * yo[2]
    if friction:
        gq[i, 2] += arm * cross * ys[2]
        wx += ys[1] + arm * tx * ys[2]
        wy += -ys[0] + arm * ty * ys[2]
        by_radius -= ys[2]
    if kind == CORNER:
        dx = q[i, 0] + arm * tx - work.row[at, col.DATA]
        dy = q[i, 1] + arm * ty - work.row[at, col.DATA + 1]
        distance = math.sqrt(dx * dx + dy * dy)
        if distance > 1e-12:
            lift = (wx * nx + wy * ny) / distance
            px, py = wx / distance - lift * nx, wy / distance - lift * ny
            gq[i, 0] += px
            gq[i, 1] += py
            gq[i, 2] += arm * (tx * py - ty * px)
    return by_radius
