"""Cable lengths from disc poses, and how they change with them."""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.estimation.so3 import rotate
from onboard.messages import Floats, Ints


@compiled
def cable_lengths(position: Floats, rotation: Floats, lower_m: Floats, upper_m: Floats, cables: Ints) -> tuple[Floats, Floats]:
    """Lengths (C,) [m] and their Jacobian (C, 6M) by (position, world rotation vector) of discs 1 .. M."""
    count, modules = len(cables), len(lower_m)
    length, jacobian = np.empty(count), np.zeros((count, 6 * modules))
    for c in range(count):
        m, top, bottom = cables[c]
        b = rotate(rotation[m + 1], upper_m[m, top])
        a = rotate(rotation[m], lower_m[m, bottom])
        x = position[m + 1, 0] + b[0] - position[m, 0] - a[0]
        y = position[m + 1, 1] + b[1] - position[m, 1] - a[1]
        z = position[m + 1, 2] + b[2] - position[m, 2] - a[2]
        dist = math.sqrt(x * x + y * y + z * z)
        length[c] = dist
        if dist == 0.0:
            continue  # two joints in one place: no direction, and no mechanism that gets there
        ux, uy, uz = x / dist, y / dist, z / dist
        row, k = jacobian[c], 6 * m
        row[k], row[k + 1], row[k + 2] = ux, uy, uz
        row[k + 3] = b[1] * uz - b[2] * uy
        row[k + 4] = b[2] * ux - b[0] * uz
        row[k + 5] = b[0] * uy - b[1] * ux
        if m > 0:
            k -= 6
            row[k], row[k + 1], row[k + 2] = -ux, -uy, -uz
            row[k + 3] = -(a[1] * uz - a[2] * uy)
            row[k + 4] = -(a[2] * ux - a[0] * uz)
            row[k + 5] = -(a[0] * uy - a[1] * ux)
    return length, jacobian
