"""Rotations: exponential and logarithm of SO(3) and their Jacobians, exact at zero and up to pi."""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.messages import Floats

SMALL_ANGLE_RAD = 1e-3  # below this the closed forms lose digits; their series to fourth order are exact to 1e-16


@compiled
def _coefficients(angle2: float) -> tuple[float, float, float]:
    """sin p / p, (1 - cos p) / p^2 and (p - sin p) / p^3 from p^2 = `angle2`."""
    if angle2 < SMALL_ANGLE_RAD * SMALL_ANGLE_RAD:
        a = 1.0 - angle2 / 6.0 * (1.0 - angle2 / 20.0)
        b = 0.5 - angle2 / 24.0 * (1.0 - angle2 / 30.0)
        c = 1.0 / 6.0 - angle2 / 120.0 * (1.0 - angle2 / 42.0)
        return a, b, c
    p = math.sqrt(angle2)
    half = math.sin(0.5 * p)
    a = math.sin(p) / p
    return a, 2.0 * half * half / angle2, (1.0 - a) / angle2


@compiled
def exp_so3(w: Floats) -> Floats:
    """Rotation matrix (3, 3) of the rotation vector `w` (3,) [rad]: Rodrigues' formula."""
    x, y, z = w[0], w[1], w[2]
    a, b, _ = _coefficients(x * x + y * y + z * z)
    r = np.empty((3, 3))
    r[0, 0] = 1.0 - b * (y * y + z * z)
    r[1, 1] = 1.0 - b * (x * x + z * z)
    r[2, 2] = 1.0 - b * (x * x + y * y)
    r[0, 1] = b * x * y - a * z
    r[1, 0] = b * x * y + a * z
    r[0, 2] = b * x * z + a * y
    r[2, 0] = b * x * z - a * y
    r[1, 2] = b * y * z - a * x
    r[2, 1] = b * y * z + a * x
    return r


@compiled
def log_so3(r: Floats) -> Floats:
    """Rotation vector (3,) [rad] of the matrix `r` (3, 3), norm <= pi; by way of the quaternion, so exact near pi too."""
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    v = np.empty(3)
    if trace >= max(r[0, 0], r[1, 1], r[2, 2]):
        s = 1.0 + trace
        v[0], v[1], v[2] = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    else:
        i = 0
        if r[1, 1] > r[i, i]:
            i = 1
        if r[2, 2] > r[i, i]:
            i = 2
        j, k = (i + 1) % 3, (i + 2) % 3
        v[i] = 1.0 + 2.0 * r[i, i] - trace
        v[j] = r[j, i] + r[i, j]
        v[k] = r[k, i] + r[i, k]
        s = r[k, j] - r[j, k]
    norm = math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    if s < 0.0:
        s, v[0], v[1], v[2] = -s, -v[0], -v[1], -v[2]
    scale = 2.0 / s if norm < 1e-12 * s else 2.0 * math.atan2(norm, s) / norm
    v[0], v[1], v[2] = scale * v[0], scale * v[1], scale * v[2]
    return v


@compiled
def right_jacobian(w: Floats) -> Floats:
    """J_r (3, 3) at `w` (3,): exp(w + d) = exp(w) exp(J_r d) to first order (reference page, "Mathematics")."""
    _, b, c = _coefficients(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    return _polynomial(w, -b, c)


@compiled
def inverse_left_jacobian(w: Floats) -> Floats:
    """J_l^-1 (3, 3) at `w` (3,): log(exp(d) exp(w)) = w + J_l^-1 d to first order; finite up to a full turn."""
    angle2 = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    if angle2 < 1e-4:
        c = 1.0 / 12.0 + angle2 / 720.0 + angle2 * angle2 / 30240.0
    else:
        half = 0.5 * math.sqrt(angle2)
        c = (1.0 - half * math.cos(half) / math.sin(half)) / angle2
    return _polynomial(w, -0.5, c)


@compiled
def _polynomial(w: Floats, first: float, second: float) -> Floats:
    """I + first [w]x + second [w]x^2."""
    x, y, z = w[0], w[1], w[2]
    m = np.empty((3, 3))
    m[0, 0] = 1.0 - second * (y * y + z * z)
    m[1, 1] = 1.0 - second * (x * x + z * z)
    m[2, 2] = 1.0 - second * (x * x + y * y)
    m[0, 1] = second * x * y - first * z
    m[1, 0] = second * x * y + first * z
    m[0, 2] = second * x * z + first * y
    m[2, 0] = second * x * z - first * y
    m[1, 2] = second * y * z - first * x
    m[2, 1] = second * y * z + first * x
    return m


@compiled
def rotate(r: Floats, p: Floats) -> tuple[float, float, float]:
    """r p as three scalars: no array is made."""
    return (
        r[0, 0] * p[0] + r[0, 1] * p[1] + r[0, 2] * p[2],
        r[1, 0] * p[0] + r[1, 1] * p[1] + r[1, 2] * p[2],
        r[2, 0] * p[0] + r[2, 1] * p[1] + r[2, 2] * p[2],
    )


@compiled
def multiply(a: Floats, b: Floats, out: Floats) -> None:
    """out = a b for rotations (3, 3), pulled back onto SO(3) to first order so that rounding does not pile up; out may be b."""
    c = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            c[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]
    for i in range(3):  # c (3 I - c^T c) / 2, row by row: (3 c - (c c^T) c) / 2
        x = c[i, 0] * c[0, 0] + c[i, 1] * c[0, 1] + c[i, 2] * c[0, 2]
        y = c[i, 0] * c[1, 0] + c[i, 1] * c[1, 1] + c[i, 2] * c[1, 2]
        z = c[i, 0] * c[2, 0] + c[i, 1] * c[2, 1] + c[i, 2] * c[2, 2]
        for j in range(3):
            out[i, j] = 1.5 * c[i, j] - 0.5 * (x * c[0, j] + y * c[1, j] + z * c[2, j])


@compiled
def relative(a: Floats, b: Floats) -> Floats:
    """a^T b (3, 3)."""
    c = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            c[i, j] = a[0, i] * b[0, j] + a[1, i] * b[1, j] + a[2, i] * b[2, j]
    return c
