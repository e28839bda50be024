"""All children of one search node: modes, targets along the guide, transitions, and why the others were refused."""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.compiled import copy1, copy2, copy3, jit
from onboard.planning.contact.motion import OK, REACH, SAMPLES, sections_hold
from onboard.planning.contact.transition import anchors, transition

DISTANCES, LATERALS, HOVERS = 8, 3, 3
LIFT_M = 0.02  # height of hovering poses above where the pad would attach
# reach along the guide per segment [m]: ahead of an anchor, behind one, sideways shifts between two
AHEAD_M, BEHIND_M, BETWEEN_M = (0.14, 0.055), (0.05, 0.13), 0.01
COUNTS = 10  # IK calls, IK iterations, then one count for each reason of motion.REASONS, then modes refused for load


@jit
def project(line, along, point_x, point_y, point_z):  # type: ignore[no-untyped-def]
    """Arc length [m] of a point's projection on the guide's line (S, 3), and its distance [m] from the line."""
    best, index = np.inf, 0
    for i in range(line.shape[0]):
        dx, dy, dz = point_x - line[i, 0], point_y - line[i, 1], point_z - line[i, 2]
        d = dx * dx + dy * dy + dz * dz
        if d < best:
            best, index = d, i
    low, high = max(index - 1, 0), min(index + 1, line.shape[0] - 1)
    ux, uy, uz = line[high, 0] - line[low, 0], line[high, 1] - line[low, 1], line[high, 2] - line[low, 2]
    size = np.sqrt(ux * ux + uy * uy + uz * uz) + 1e-12
    dx, dy, dz = point_x - line[index, 0], point_y - line[index, 1], point_z - line[index, 2]
    shift = (ux * dx + uy * dy + uz * dz) / size
    s = min(max(along[index] + shift, along[low]), along[high])
    return s, np.sqrt(max(best - shift * shift, 0.0))


@jit
def _place(low, high, link, s_low, s_high, k):  # type: ignore[no-untyped-def]
    """The k-th arc length to try for a link, most progress first."""
    share = k / (DISTANCES - 1)
    if high < 0:
        ahead = AHEAD_M[0] + share * (AHEAD_M[1] - AHEAD_M[0])
        if link - low > 1:
            ahead = min(ahead, 0.13)
        return s_low + (link - low) * ahead
    if low < 0:
        return s_high - (high - link) * (BEHIND_M[0] + share * (BEHIND_M[1] - BEHIND_M[0]))
    middle = s_low + (s_high - s_low) * (link - low) / (high - low)
    side = 1.0 if k % 2 == 1 else -1.0
    return middle + side * BETWEEN_M * ((k + 1) // 2)


@jit
def expand(  # type: ignore[no-untyped-def]
    body, weights, solids, guide, frames, shape, attached, top, max_free, children, counts
):
    """Children of one node. guide = (targets (S, 3, 3, 4), valid (S, 3), line (S, 3), along (S,)).

    children = (frames (C, n + 1, 3, 4), shape (C, n, 3), attached (C, n + 1), path (C, SAMPLES + 1, n, 3),
    meta (C, 2)) is written: meta holds the link released and the link attached, -1 for none. Returns how many.
    """
    targets, valid, line, along = guide
    out_frames, out_shape, out_attached, out_path, out_meta = children
    links = attached.shape[0]
    n = links - 1
    spacing = along[1] - along[0]
    where = np.empty(links)
    held = 0
    for i in range(links):
        where[i], _ = project(line, along, frames[i, 0, 3], frames[i, 1, 3], frames[i, 2, 3])
        held += attached[i]
    holding = np.empty_like(attached)
    moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
    lifted = np.empty((3, 4))
    found, room = 0, out_meta.shape[0]
    for release in range(-1, links):
        if release >= 0 and not attached[release]:
            continue
        copy1(attached, holding)
        if release >= 0:
            holding[release] = 0
        if held - (release >= 0) < 1:
            continue
        if not sections_hold(body, frames, shape, holding, moments, bins):
            counts[9] += 1
            continue
        for attach in range(-1, links):
            if attach == release or (attach >= 0 and attached[attach]):
                continue
            free = links - held + (release >= 0) - (attach >= 0)
            if free > max_free:
                continue
            link = attach if attach >= 0 else release
            low, high = anchors(holding, link)
            s_low = where[low] if low >= 0 else 0.0
            s_high = where[high] if high >= 0 else 0.0
            successes = 0
            if attach < 0 and found < room:  # let go and stay
                copy3(frames, out_frames[found])
                copy2(shape, out_shape[found])
                copy1(holding, out_attached[found])
                for k in range(SAMPLES + 1):
                    copy2(shape, out_path[found, k])
                out_meta[found, 0], out_meta[found, 1] = release, -1
                found += 1
            for lateral in range(LATERALS):
                for k in range(DISTANCES):
                    if attach < 0 and (lateral > 0 or k % 2 == 1 or k > 2 * (HOVERS - 1)):
                        continue
                    if successes >= top or found >= room:
                        break
                    index = int(np.floor(_place(low, high, link, s_low, s_high, k) / spacing + 0.5))
                    if index < 0 or index >= line.shape[0] or not valid[index, lateral]:
                        counts[2 + REACH] += 1
                        continue
                    copy2(targets[index, lateral], lifted)
                    if attach < 0:
                        for a in range(3):
                            lifted[a, 3] += LIFT_M * lifted[a, 0]
                    reason = transition(
                        body, weights, solids, frames, shape, holding, link, attach >= 0, lifted,
                        out_frames[found], out_shape[found], out_path[found], counts,
                    )  # fmt: skip
                    counts[2 + reason] += 1
                    if reason == OK:
                        copy1(holding, out_attached[found])
                        if attach >= 0:
                            out_attached[found, attach] = 1
                        out_meta[found, 0], out_meta[found, 1] = release, attach
                        found += 1
                        successes += 1
    return found


@jit
def measure(body, guide, extension, bending, frames, shape, out):  # type: ignore[no-untyped-def]
    """Progress and deformation of C states: frames (C, n + 1, 3, 4), shape (C, n, 3); out (C, 4) is written.

    out columns: 0 head's arc length [m], 1 mean arc length of the links [m], 2 head's lateral distance [m],
    3 deformation (1/n) sum(extension rho + bending |theta|^2).
    """
    _, _, line, along = guide
    n = shape.shape[1]
    for c in range(shape.shape[0]):
        total = 0.0
        for i in range(n + 1):
            f = frames[c, i]
            s, lateral = project(line, along, f[0, 3], f[1, 3], f[2, 3])
            total += s
            out[c, 0], out[c, 2] = s, lateral
        out[c, 1] = total / (n + 1)
        cost = 0.0
        for i in range(n):
            angle = shape[c, i, 0] ** 2 * (shape[c, i, 1] ** 2 + shape[c, i, 2] ** 2)
            cost += extension * (shape[c, i, 0] - body.length_min) / body.length_span + bending * angle
        out[c, 3] = cost / n
