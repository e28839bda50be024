"""One contact transition: solve the free block for its target, then check the whole motion."""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.closure import project_closure
from onboard.planning.contact.compiled import copy1, copy2, jit
from onboard.planning.contact.feasibility import load_moments, section
from onboard.planning.contact.ik import solve_block
from onboard.planning.contact.kinematics import flip_frame, flip_shape, one_segment_to
from onboard.planning.contact.motion import (
    ATTACHMENT,
    CLOSURE,
    LOAD,
    REACH,
    attached_well,
    block_problem,
    check_motion,
    rebuild,
    sections_hold,
)

HOVER_M = 0.015  # a hovering link may miss its pose by this much
HOPELESS_M = 0.03  # a target missed by more is not tried from another start


@jit
def anchors(holding, link):  # type: ignore[no-untyped-def]
    """The holding links next to `link` on the tail's and the head's side, -1 for none."""
    low, high = -1, -1
    for i in range(link - 1, -1, -1):
        if holding[i]:
            low = i
            break
    for i in range(link + 1, holding.shape[0]):
        if holding[i]:
            high = i
            break
    return low, high


@jit
def within_reach(body, frame, links, target):  # type: ignore[no-untyped-def]
    """Whether `links` segments from a frame can get near a target: closed form for one, the longest line for more.

    Any landing that satisfies adhesion counts, so one segment gets a centimetre and a half more curvature of grace.
    """
    dx, dy, dz = target[0, 3] - frame[0, 3], target[1, 3] - frame[1, 3], target[2, 3] - frame[2, 3]
    distance = np.sqrt(dx * dx + dy * dy + dz * dz)
    longest = body.length_min + body.length_span
    if distance > links * longest + 0.01:
        return False
    if links > 1:
        return True
    x = frame[0, 0] * dx + frame[1, 0] * dy + frame[2, 0] * dz
    y = frame[0, 1] * dx + frame[1, 1] * dy + frame[2, 1] * dz
    z = frame[0, 2] * dx + frame[1, 2] * dy + frame[2, 2] * dz
    length, kx, ky = one_segment_to(x, y, z)
    if length < body.length_min - 0.01 or length > longest + 0.01:
        return False
    return np.sqrt(kx * kx + ky * ky) < 1.5 * np.sqrt(2.0) * body.curvature


@jit
def transition(  # type: ignore[no-untyped-def]
    body, weights, solids, frames, shape, holding, link, landing, target, new_frames, new_shape, path, counts
):
    """Moves `link` to `target` (3, 4) while the pads in `holding` stay; `landing` asks for adhesion there.

    Frames (n + 1, 3, 4), shape (n, 3) and holding (n + 1) describe the robot before; new_frames, new_shape and path
    (SAMPLES + 1, n, 3) receive the result. counts[0] grows by one for every inverse kinematics solved, counts[1] by
    its iterations. Returns OK or the first reason against it.
    """
    n = shape.shape[0]
    low, high = anchors(holding, link)
    if low >= 0 and not within_reach(body, frames[low], link - low, target):
        return REACH
    flipped_frame, flipped_target = np.empty((3, 4)), np.empty((3, 4))
    if high >= 0:
        flip_frame(frames[high], flipped_frame)
        flip_frame(target, flipped_target)
        if not within_reach(body, flipped_frame, high - link, flipped_target):
            return REACH
    first = low if low >= 0 else 0
    last = high if high >= 0 else n
    size = last - first
    root, inner, result = np.empty((3, 4)), np.empty((size, 3)), np.empty((size, 3))
    block_problem(frames, shape, low, high, root, inner)
    closed = low >= 0 and high >= 0
    goal = target if low >= 0 else flipped_target
    index = link - low if low >= 0 else high - link
    closure = frames[high] if closed else root
    moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
    facets = body.normals.shape[0]
    matrix, bound = np.empty((size, facets, 3)), np.empty((size, facets))
    inner_frames = np.empty((size + 1, 3, 4))
    after = np.empty_like(holding)
    copy1(holding, after)
    if landing:
        after[link] = 1
    load_moments(body, frames, shape, holding, moments, bins)
    reason = ATTACHMENT
    attempt, refrozen = 0, False
    while attempt <= weights.restarts:
        for i in range(size):
            k = first + i if low >= 0 else high - 1 - i
            section(body, moments[k], bins[k], matrix[i], bound[i])
        counts[0] += 1
        used, loss = solve_block(
            body, weights, solids, root, inner, matrix, bound, index, goal, closed, closure, result, inner_frames
        )
        counts[1] += used
        if not np.isfinite(loss):
            return LOAD
        reason, missed = ATTACHMENT, 0.0
        if closed and not project_closure(body, root, result, closure, inner_frames):
            reason = CLOSURE
        else:
            copy2(shape, new_shape)
            if low >= 0:
                copy2(result, new_shape[first:last])
            else:
                flip_shape(result, new_shape[:last])
            rebuild(frames, new_shape, low, high, new_frames)
            dx, dy = new_frames[link, 0, 3] - target[0, 3], new_frames[link, 1, 3] - target[1, 3]
            dz = new_frames[link, 2, 3] - target[2, 3]
            missed = np.sqrt(dx * dx + dy * dy + dz * dz)
            good = attached_well(body, solids, new_frames[link]) if landing else missed < HOVER_M
            if good:
                held = sections_hold(body, new_frames, new_shape, holding, moments, bins)
                if held and landing:
                    held = sections_hold(body, new_frames, new_shape, after, moments, bins)
                    if not held:
                        return LOAD
                if held:
                    return check_motion(body, solids, frames, shape, new_shape, low, high, holding, path, moments, bins)
                if refrozen:
                    return LOAD
                refrozen = True  # once more, under the moments of the solution
                copy2(result, inner)
                continue
        if missed > HOPELESS_M:
            break
        # another start: straight, with the middle extension, then bent to either side of the pad's plane
        attempt += 1
        for i in range(size):
            inner[i, 0] = body.length_min + 0.5 * body.length_span
            inner[i, 1], inner[i, 2] = 0.0, 0.0
            if attempt > 1:
                inner[i, 2] = 0.4 * body.curvature * (1.0 if attempt % 2 == 0 else -1.0)
        load_moments(body, frames, shape, holding, moments, bins)
    return reason
