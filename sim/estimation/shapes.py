"""Shapes that a strut tower really takes: bends and a twist per module, rings that warp and joints that sit a little off.

Rigid discs with four exactly equal struts cannot bend freely, so a shape is drawn as (bend_x, bend_y, twist) of every module and
each module's shift (3) and ring warp (1) are solved from its four strut lengths. The estimators know neither warps nor joint
offsets.
"""

from __future__ import annotations

import math

import numpy as np

from onboard.errors import PrestressError
from onboard.estimation.compiled import compiled
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.so3 import exp_so3, log_so3, relative
from onboard.messages import Floats


class ShapeError(PrestressError):
    """No shift and warp satisfy the strut lengths: the drawn shape is beyond what the struts allow."""


@compiled
def _solve4(a: Floats, b: Floats) -> bool:
    """Solve the 4 x 4 system a x = b in place (x in b) with partial pivoting."""
    for i in range(4):
        pivot = i
        for k in range(i + 1, 4):
            if abs(a[k, i]) > abs(a[pivot, i]):
                pivot = k
        if abs(a[pivot, i]) < 1e-14:
            return False
        for k in range(4):
            a[i, k], a[pivot, k] = a[pivot, k], a[i, k]
        b[i], b[pivot] = b[pivot], b[i]
        for k in range(i + 1, 4):
            f = a[k, i] / a[i, i]
            for c in range(i, 4):
                a[k, c] -= f * a[i, c]
            b[k] -= f * b[i]
    for i in range(3, -1, -1):
        for c in range(i + 1, 4):
            b[i] -= a[i, c] * b[c]
        b[i] /= a[i, i]
    return True


@compiled
def solve_shapes(
    bends: Floats,
    lower: Floats,
    upper: Floats,
    length: Floats,
    saddle: Floats,
    height_m: float,
    position: Floats,
    rotation: Floats,
    direction: Floats,
    middle: Floats,
    warp: Floats,
) -> int:
    """Poses, strut directions, strut middles and warps for the module rotations `bends` (T, M, 3); all joints as they truly are.

    Out: position (T, M+1, 3), rotation (T, M+1, 3, 3), direction and middle (T, 4M, 3), warp (T, M). Returns the number of
    steps solved: T, unless Newton's method failed at that step.
    """
    steps, modules = bends.shape[0], bends.shape[1]
    x = np.zeros((modules, 4))
    for m in range(modules):
        x[m, 2] = height_m
    a, b, v, arm = np.empty((4, 4)), np.empty(4), np.empty((4, 3)), np.empty((4, 3))
    for t in range(steps):
        for i in range(3):
            position[t, 0, i] = 0.0
            for k in range(3):
                rotation[t, 0, i, k] = 1.0 if i == k else 0.0
        for m in range(modules):
            turn = exp_so3(bends[t, m])
            done = False
            for _ in range(30):
                worst = 0.0
                for j in range(4):
                    d2 = 0.0
                    for i in range(3):
                        lift = saddle[j] * x[m, 3]
                        arm[j, i] = (
                            turn[i, 0] * upper[m, j, 0] + turn[i, 1] * upper[m, j, 1] + turn[i, 2] * (upper[m, j, 2] + lift)
                        )
                        v[j, i] = x[m, i] + arm[j, i] - lower[m, j, i]
                        d2 += v[j, i] * v[j, i]
                    dist = math.sqrt(d2)
                    b[j] = dist - length[m, j]
                    worst = max(worst, abs(b[j]))
                    a[j, 3] = 0.0
                    for i in range(3):
                        a[j, i] = v[j, i] / dist
                        a[j, 3] += a[j, i] * saddle[j] * turn[i, 2]
                if worst < 1e-12:
                    done = True
                    break
                if not _solve4(a, b):
                    break
                for i in range(4):
                    x[m, i] -= min(max(b[i], -0.05), 0.05)
            if not done:
                return t
            warp[t, m] = x[m, 3]
            for i in range(3):
                total = position[t, m, i]
                for k in range(3):
                    total += rotation[t, m, i, k] * x[m, k]
                    rotation[t, m + 1, i, k] = (
                        rotation[t, m, i, 0] * turn[0, k] + rotation[t, m, i, 1] * turn[1, k] + rotation[t, m, i, 2] * turn[2, k]
                    )
                position[t, m + 1, i] = total
            for j in range(4):
                for i in range(3):
                    u = w = 0.0
                    for k in range(3):
                        u += rotation[t, m, i, k] * v[j, k]
                        w += rotation[t, m, i, k] * (lower[m, j, k] + 0.5 * v[j, k])
                    direction[t, 4 * m + j, i] = u / length[m, j]
                    middle[t, 4 * m + j, i] = position[t, m, i] + w
    return steps


class Shapes:
    """A solved motion: arrays over T steps, see `solve_shapes`."""

    def __init__(self, geometry: DiscGeometry, bends: Floats, lower: Floats, upper: Floats) -> None:
        steps, modules = bends.shape[:2]
        if geometry.lower_m.shape[1] != 4:
            raise ShapeError("the simulator of errors knows modules of four struts")
        self.position = np.empty((steps, modules + 1, 3))
        self.rotation = np.empty((steps, modules + 1, 3, 3))
        self.direction, self.middle = np.empty((steps, 4 * modules, 3)), np.empty((steps, 4 * modules, 3))
        self.warp = np.empty((steps, modules))
        solved = solve_shapes(
            bends, lower, upper, geometry.strut_length_m, geometry.saddle, float(geometry.rest_position_m[1, 2]),
            self.position, self.rotation, self.direction, self.middle, self.warp,
        )  # fmt: skip
        if solved < steps:
            raise ShapeError(f"no shape satisfies the strut lengths at step {solved} of {steps}")


@compiled
def module_rotations(rotation: Floats) -> Floats:
    """log(R_m^T R_(m+1)) (T, M, 3) of disc rotations (T, M+1, 3, 3)."""
    out = np.empty((rotation.shape[0], rotation.shape[1] - 1, 3))
    for t in range(len(out)):
        for m in range(out.shape[1]):
            w = log_so3(relative(rotation[t, m], rotation[t, m + 1]))
            for i in range(3):
                out[t, m, i] = w[i]
    return out


@compiled
def tip_tilt(bends: Floats) -> Floats:
    """Angle (T,) [rad] of the last disc's normal from the vertical when modules turn by `bends` (T, M, 3)."""
    out = np.empty(len(bends))
    z = np.empty(3)
    for t in range(len(bends)):
        z[0], z[1], z[2] = 0.0, 0.0, 1.0
        for m in range(bends.shape[1] - 1, -1, -1):
            r = exp_so3(bends[t, m])
            x0 = r[0, 0] * z[0] + r[0, 1] * z[1] + r[0, 2] * z[2]
            x1 = r[1, 0] * z[0] + r[1, 1] * z[1] + r[1, 2] * z[2]
            x2 = r[2, 0] * z[0] + r[2, 1] * z[1] + r[2, 2] * z[2]
            z[0], z[1], z[2] = x0, x1, x2
        out[t] = math.atan2(math.sqrt(z[0] * z[0] + z[1] * z[1]), z[2])
    return out
