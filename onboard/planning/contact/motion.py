"""One motion checked: shapes along the way, sections under the true load, free space, no self-contact."""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.closure import project_closure
from onboard.planning.contact.compiled import copy2, copy3, jit, zero2
from onboard.planning.contact.feasibility import load_moments, slack
from onboard.planning.contact.kinematics import chain, compose, flip_frame, flip_shape, invert, segment
from onboard.planning.contact.scene import distance_gradient

SAMPLES = 16  # shapes between two steps; 6 let a small excess of load through (reference measurement)
ARC_POINTS = 8
MARGIN_M = 0.0005  # the planner keeps this much more room than the rule, the validator samples finer
SLACK = 0.003  # the same for sections, in normalised coordinates
OK, ATTACHMENT, LOAD, COLLISION, SELF, CLOSURE, REACH = 0, 1, 2, 3, 4, 5, 6
REASONS = ("ok", "attachment", "load", "collision", "self_collision", "closure", "reach")


@jit
def rebuild(frames, shape, low, high, out):  # type: ignore[no-untyped-def]
    """All link frames after segments low .. high - 1 changed: anchored at link `low` if low >= 0, else at `high`.

    frames (n + 1, 3, 4) are those before; links outside the block keep theirs.
    """
    n = shape.shape[0]
    copy3(frames, out)
    if low >= 0:
        last = high if high >= 0 else n
        chain(frames[low], shape[low:last], out[low : last + 1])
        if high >= 0:
            copy2(frames[high], out[high])
    else:
        step, back = np.empty((3, 4)), np.empty((3, 4))
        for i in range(high - 1, -1, -1):
            segment(shape[i, 0], shape[i, 1], shape[i, 2], step)
            invert(step, back)
            compose(out[i + 1], back, out[i])


@jit
def attached_well(body, solids, frame):  # type: ignore[no-untyped-def]
    """Whether a pad sits on a surface: distance and angle inside their tolerances, less the planner's margin."""
    x = frame[0, 3] - body.pad_offset * frame[0, 0]
    y = frame[1, 3] - body.pad_offset * frame[1, 0]
    z = frame[2, 3] - body.pad_offset * frame[2, 0]
    d, gx, gy, gz = distance_gradient(solids, x, y, z)
    if abs(d) > body.pad_distance - MARGIN_M:
        return False
    return gx * frame[0, 0] + gy * frame[1, 0] + gz * frame[2, 0] > body.pad_cosine + 0.002


@jit
def sections_hold(body, frames, shape, attached, moments, bins):  # type: ignore[no-untyped-def]
    """Whether every segment holds its shape under its true load; moments and bins are written."""
    load_moments(body, frames, shape, attached, moments, bins)
    least = np.inf
    for i in range(shape.shape[0]):
        least = min(least, slack(body, shape[i, 0], shape[i, 1], shape[i, 2], moments[i], bins[i]))
    return least >= SLACK


@jit
def free_space(body, solids, frames, shape, points):  # type: ignore[no-untyped-def]
    """OK, COLLISION or SELF for one shape. points (n (ARC_POINTS + 1) + 1, 3) is scratch: links and arc points."""
    n = shape.shape[0]
    per = ARC_POINTS + 1
    half = np.empty((3, 4))
    for i in range(n + 1):
        f = frames[i]
        x, y, z = f[0, 3], f[1, 3], f[2, 3]
        points[per * i, 0], points[per * i, 1], points[per * i, 2] = x, y, z
        d, _, _, _ = distance_gradient(solids, x, y, z)
        if d < body.link_radius - body.collision + MARGIN_M:
            return COLLISION
        r = body.pad_offset
        d, _, _, _ = distance_gradient(solids, x - r * f[0, 0], y - r * f[1, 0], z - r * f[2, 0])
        if d < -body.collision + MARGIN_M:
            return COLLISION
        if i == n:
            break
        for k in range(1, ARC_POINTS + 1):
            segment(shape[i, 0] * k / (ARC_POINTS + 1), shape[i, 1], shape[i, 2], half)
            x = f[0, 0] * half[0, 3] + f[0, 1] * half[1, 3] + f[0, 2] * half[2, 3] + f[0, 3]
            y = f[1, 0] * half[0, 3] + f[1, 1] * half[1, 3] + f[1, 2] * half[2, 3] + f[1, 3]
            z = f[2, 0] * half[0, 3] + f[2, 1] * half[1, 3] + f[2, 2] * half[2, 3] + f[2, 3]
            points[per * i + k, 0], points[per * i + k, 1], points[per * i + k, 2] = x, y, z
            d, _, _, _ = distance_gradient(solids, x, y, z)
            if d < body.segment_radius - body.collision + MARGIN_M:
                return COLLISION
    if touches_itself(body, shape, points):
        return SELF
    return OK


@jit
def touches_itself(body, shape, points):  # type: ignore[no-untyped-def]
    """Whether two places at least 4 radii apart along the body come closer than two radii less the tolerance."""
    per = ARC_POINTS + 1
    count = points.shape[0]
    radius = max(body.link_radius, body.segment_radius)
    near = (2.0 * radius - body.collision + MARGIN_M) ** 2
    along = 0.0
    arc = np.empty(count)
    for i in range(count):
        arc[i] = along
        if i < count - 1:
            along += shape[i // per, 0] / per
    for i in range(count):
        for j in range(i + 1, count):
            if arc[j] - arc[i] > 4.0 * radius:
                dx, dy = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
                dz = points[i, 2] - points[j, 2]
                if dx * dx + dy * dy + dz * dz < near:
                    return True
    return False


@jit
def check_motion(  # type: ignore[no-untyped-def]
    body, solids, frames, before, after, low, high, holding, path, moments, bins
):
    """Checks the motion of one block from shape `before` to `after` (n, 3) under the pads that hold throughout.

    The shape runs linearly; between two anchors every sample is projected onto closure. path (SAMPLES + 1, n, 3)
    receives the samples. Returns OK or the first reason against it.
    """
    n = before.shape[0]
    now, scratch = np.empty((n + 1, 3, 4)), np.empty((n + 1, 3, 4))
    points = np.empty((n * (ARC_POINTS + 1) + 1, 3))
    correction, guess = np.zeros((n, 3)), np.empty((n, 3))
    two = low >= 0 and high >= 0
    for k in range(SAMPLES + 1):
        share = k / SAMPLES
        for i in range(n):
            for j in range(3):
                path[k, i, j] = before[i, j] + share * (after[i, j] - before[i, j]) + correction[i, j]
        if two and 0 < k < SAMPLES:
            copy2(path[k], guess)
            if not project_closure(body, frames[low], path[k, low:high], frames[high], scratch[low : high + 1]):
                return CLOSURE
            # the next sample starts from this one's correction, which fades towards the end
            fade = (1.0 - (k + 1) / SAMPLES) / (1.0 - share)
            for i in range(low, high):
                for j in range(3):
                    total = correction[i, j] + path[k, i, j] - guess[i, j]
                    correction[i, j] = total * fade
        if k == 0:
            zero2(correction)
    copy2(before, path[0])
    copy2(after, path[SAMPLES])
    for k in range(SAMPLES + 1):
        rebuild(frames, path[k], low, high, now)
        if not sections_hold(body, now, path[k], holding, moments, bins):
            return LOAD
        reason = free_space(body, solids, now, path[k], points)
        if reason != OK:
            return reason
    return OK


@jit
def block_problem(frames, shape, low, high, root, inner):  # type: ignore[no-untyped-def]
    """Root frame (3, 4) and shape of a block as a chain that starts at an anchor; tail blocks are flipped."""
    if low >= 0:
        last = high if high >= 0 else shape.shape[0]
        copy2(frames[low], root)
        copy2(shape[low:last], inner)
    else:
        flip_frame(frames[high], root)
        flip_shape(shape[:high], inner)
