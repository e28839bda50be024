"""Segments as screw motions: the exact map from length and curvature to a pose, its Jacobian and its inverses.

A segment of length L [m] and curvature (kx, ky) [1/m] moves a frame by exp of the twist (0, 0, L, kx L, ky L, 0)
(paper, II-A3). With w = (kx L, ky L, 0), t = |w|, a = sin t / t and b = (1 - cos t) / t^2:
R = I + a [w] + b [w]^2 and p = L (b wy, -b wx, a). Body axis is z, pad normal x. Frames are rows of a (3, 4) array:
rotation in the first three columns, position [m] in the last.
"""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.compiled import copy2, jit, zero2

_SERIES = 1e-8  # t^2 below which Taylor series replace the quotients


@jit
def coefficients(tt):  # type: ignore[no-untyped-def]
    """(a, b, c, da, db) at t^2: da and db are the factors of w_j in da/dw_j and db/dw_j; c = (t - sin t)/t^3."""
    if tt < _SERIES:
        return 1.0 - tt / 6.0, 0.5 - tt / 24.0, 1.0 / 6.0 - tt / 120.0, -1.0 / 3.0 + tt / 30.0, -1.0 / 12.0 + tt / 180.0
    t = np.sqrt(tt)
    sine, cosine = np.sin(t), np.cos(t)
    a = sine / t
    half = np.sin(0.5 * t)
    b = 2.0 * half * half / tt  # no cancellation, unlike 1 - cos t
    return a, b, (1.0 - a) / tt, (cosine - a) / tt, (a - 2.0 * b) / tt


@jit
def segment(length, kx, ky, out):  # type: ignore[no-untyped-def]
    """Pose of a segment's end in its start frame, into `out` (3, 4)."""
    wx, wy = kx * length, ky * length
    a, b, _, _, _ = coefficients(wx * wx + wy * wy)
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - b * wy * wy, b * wx * wy, a * wy
    out[1, 0], out[1, 1], out[1, 2] = b * wx * wy, 1.0 - b * wx * wx, -a * wx
    out[2, 0], out[2, 1], out[2, 2] = -a * wy, a * wx, 1.0 - b * (wx * wx + wy * wy)
    out[0, 3], out[1, 3], out[2, 3] = length * b * wy, -length * b * wx, length * a


@jit
def segment_jacobian(length, kx, ky, dp, dr):  # type: ignore[no-untyped-def]
    """Derivatives with respect to (L, kx, ky), by columns.

    dp (3, 3): of the end's position, in the start frame. dr (3, 3): rotation vector of the end, in the END frame
    (right Jacobian): R(u + du) = R(u) exp([dr du]).
    """
    wx, wy = kx * length, ky * length
    tt = wx * wx + wy * wy
    a, b, c, fa, fb = coefficients(tt)
    # dp/dwx and dp/dwy
    xx, xy, xz = fb * wx * wy, -fb * wx * wx - b, fa * wx
    yx, yy, yz = fb * wy * wy + b, -fb * wy * wx, fa * wy
    dp[0, 0], dp[1, 0], dp[2, 0] = b * wy, -b * wx, a
    dp[0, 0] += length * (xx * kx + yx * ky)
    dp[1, 0] += length * (xy * kx + yy * ky)
    dp[2, 0] += length * (xz * kx + yz * ky)
    square = length * length
    dp[0, 1], dp[1, 1], dp[2, 1] = square * xx, square * xy, square * xz
    dp[0, 2], dp[1, 2], dp[2, 2] = square * yx, square * yy, square * yz
    # right Jacobian I - b [w] + c [w]^2 on the columns (kx, ky, 0), (L, 0, 0), (0, L, 0); w is parallel to the first
    dr[0, 0], dr[1, 0], dr[2, 0] = kx, ky, 0.0
    dr[0, 1], dr[1, 1], dr[2, 1] = length * (1.0 - c * wy * wy), length * c * wx * wy, length * b * wy
    dr[0, 2], dr[1, 2], dr[2, 2] = length * c * wx * wy, length * (1.0 - c * wx * wx), -length * b * wx


@jit
def compose(first, second, out):  # type: ignore[no-untyped-def]
    """out = first * second for (3, 4) frames; `out` must be neither of them."""
    for i in range(3):
        for j in range(4):
            out[i, j] = first[i, 0] * second[0, j] + first[i, 1] * second[1, j] + first[i, 2] * second[2, j]
        out[i, 3] += first[i, 3]


@jit
def invert(frame, out):  # type: ignore[no-untyped-def]
    """out = frame^-1 for (3, 4) frames; `out` must not be `frame`."""
    for i in range(3):
        for j in range(3):
            out[i, j] = frame[j, i]
        out[i, 3] = -(frame[0, i] * frame[0, 3] + frame[1, i] * frame[1, 3] + frame[2, i] * frame[2, 3])


@jit
def chain(root, shape, frames):  # type: ignore[no-untyped-def]
    """Frames of all links of a chain: frames[0] = root, frames[i + 1] = frames[i] * segment(shape[i]).

    root (3, 4); shape (n, 3) with rows (L [m], kx, ky [1/m]); frames (n + 1, 3, 4) is written.
    """
    step = np.empty((3, 4))
    copy2(root, frames[0])
    for i in range(shape.shape[0]):
        segment(shape[i, 0], shape[i, 1], shape[i, 2], step)
        compose(frames[i], step, frames[i + 1])


@jit
def chain_jacobian(frames, shape, link, out):  # type: ignore[no-untyped-def]
    """World Jacobian of one link of a chain with respect to all shape parameters.

    frames (n + 1, 3, 4) as from `chain`; out (6, 3 n): rows 0-2 position [m], rows 3-5 rotation vector [rad], world
    axes; columns (L, kx, ky) by segment, zero for segments past the link.
    """
    dp, dr = np.empty((3, 3)), np.empty((3, 3))
    zero2(out)
    for i in range(link):
        segment_jacobian(shape[i, 0], shape[i, 1], shape[i, 2], dp, dr)
        start, end = frames[i], frames[i + 1]
        ax = frames[link, 0, 3] - end[0, 3]
        ay = frames[link, 1, 3] - end[1, 3]
        az = frames[link, 2, 3] - end[2, 3]
        for j in range(3):
            column = 3 * i + j
            px = start[0, 0] * dp[0, j] + start[0, 1] * dp[1, j] + start[0, 2] * dp[2, j]
            py = start[1, 0] * dp[0, j] + start[1, 1] * dp[1, j] + start[1, 2] * dp[2, j]
            pz = start[2, 0] * dp[0, j] + start[2, 1] * dp[1, j] + start[2, 2] * dp[2, j]
            rx = end[0, 0] * dr[0, j] + end[0, 1] * dr[1, j] + end[0, 2] * dr[2, j]
            ry = end[1, 0] * dr[0, j] + end[1, 1] * dr[1, j] + end[1, 2] * dr[2, j]
            rz = end[2, 0] * dr[0, j] + end[2, 1] * dr[1, j] + end[2, 2] * dr[2, j]
            out[0, column] = px + ry * az - rz * ay
            out[1, column] = py + rz * ax - rx * az
            out[2, column] = pz + rx * ay - ry * ax
            out[3, column], out[4, column], out[5, column] = rx, ry, rz


@jit
def flip_frame(frame, out):  # type: ignore[no-untyped-def]
    """out = frame * diag(1, -1, -1): the same link seen by a chain that runs the other way."""
    for i in range(3):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = frame[i, 0], -frame[i, 1], -frame[i, 2], frame[i, 3]


@jit
def flip_shape(shape, out):  # type: ignore[no-untyped-def]
    """The same bodies for a chain that runs the other way: order reversed, kx -> -kx."""
    n = shape.shape[0]
    for i in range(n):
        out[n - 1 - i, 0], out[n - 1 - i, 1], out[n - 1 - i, 2] = shape[i, 0], -shape[i, 1], shape[i, 2]


@jit
def one_segment_to(x, y, z):  # type: ignore[no-untyped-def]
    """The only segment whose end lies at a point of its start frame: (L, kx, ky), L = inf where none exists.

    t = 2 atan2(|pxy|, pz) and L = |p| (t / 2) / sin(t / 2).
    """
    across = np.sqrt(x * x + y * y)
    t = 2.0 * np.arctan2(across, z)
    if t < 1e-9:
        return max(z, 1e-12), 0.0, 0.0
    if t >= 2.0 * np.pi - 1e-6:
        return np.inf, 0.0, 0.0
    length = np.sqrt(x * x + y * y + z * z) * (0.5 * t) / np.sin(0.5 * t)
    # the arc bends towards (x, y): p ~ (wy, -wx)
    return length, -y / across * t / length, x / across * t / length


@jit
def two_segments_to(target, share, shape):  # type: ignore[no-untyped-def]
    """A biarc: two segments from the identity to the position and axis of `target` (3, 4), into `shape` (2, 3).

    Two segments reach a five-dimensional set: end point and end axis can be chosen, the roll follows (double
    reflection). `share` > 0 is the ratio of the first tangent length to the second: the one free choice. Returns the
    roll left over about the end axis [rad], or nan where no biarc with that share exists.
    """
    px, py, pz = target[0, 3], target[1, 3], target[2, 3]
    ex, ey, ez = target[0, 2], target[1, 2], target[2, 2]
    # tangent lengths d1 = share * d2: |p - d1 e0 - d2 e1| = d1 + d2  (Bolton 1975), e0 = (0, 0, 1)
    qa = (share * share + 1.0 + 2.0 * share * ez) - (share + 1.0) * (share + 1.0)
    qb = -2.0 * (share * pz + px * ex + py * ey + pz * ez)
    qc = px * px + py * py + pz * pz
    if abs(qa) < 1e-12:
        if abs(qb) < 1e-15:
            return np.nan
        d2 = -qc / qb
    else:
        inner = qb * qb - 4.0 * qa * qc
        if inner < 0.0:
            return np.nan
        d2 = (-qb - np.sqrt(inner)) / (2.0 * qa)
        if d2 <= 0.0:
            d2 = (-qb + np.sqrt(inner)) / (2.0 * qa)
    if d2 <= 0.0:
        return np.nan
    d1 = share * d2
    # the joint divides the line between the two tangent points in the ratio d1 : d2
    weight = d1 / (d1 + d2)
    jx = (px - d2 * ex) * weight
    jy = (py - d2 * ey) * weight
    jz = d1 * (1.0 - weight) + (pz - d2 * ez) * weight
    shape[0, 0], shape[0, 1], shape[0, 2] = one_segment_to(jx, jy, jz)
    first, rest, joint = np.empty((3, 4)), np.empty((3, 4)), np.empty((3, 4))
    segment(shape[0, 0], shape[0, 1], shape[0, 2], first)
    invert(first, joint)
    compose(joint, target, rest)
    shape[1, 0], shape[1, 1], shape[1, 2] = one_segment_to(rest[0, 3], rest[1, 3], rest[2, 3])
    if not (np.isfinite(shape[0, 0]) and np.isfinite(shape[1, 0])):
        return np.nan
    segment(shape[1, 0], shape[1, 1], shape[1, 2], first)
    # left over: rotation of the target against the reached end about their common axis
    sine = first[0, 1] * rest[0, 0] + first[1, 1] * rest[1, 0] + first[2, 1] * rest[2, 0]
    cosine = first[0, 0] * rest[0, 0] + first[1, 0] * rest[1, 0] + first[2, 0] * rest[2, 0]
    return np.arctan2(sine, cosine)
