"""One idea: what six cap positions say about the robot as a whole: centre of mass, axis, heading, lower caps.

Left caps are the even ones, right caps the odd ones (paper section III). All rods weigh the same and are symmetric, so the
centre of mass is the mean of the caps.
"""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats


def centre_of_mass(caps: Floats) -> Floats:
    """(..., 3) from caps (..., 6, 3)."""
    return caps.mean(axis=-2)


def rod_axes(caps: Floats) -> Floats:
    """Unit vectors from left to right cap (..., 3 rods, 3)."""
    axis = caps[..., 1::2, :] - caps[..., 0::2, :]
    return axis / np.maximum(np.linalg.norm(axis, axis=-1, keepdims=True), 1e-9)


def axis_angle(caps: Floats) -> Floats:
    """Direction of the principal axis in plan [rad], (...): the mean of the rods' axes, seen from above."""
    mean = rod_axes(caps).mean(axis=-2)
    return np.arctan2(mean[..., 1], mean[..., 0])


def heading(caps: Floats) -> Floats:
    """Heading [rad] (...): the principal axis turned by +90 degrees; the roll gait runs the opposite way."""
    return wrap(axis_angle(caps) + np.pi / 2.0)


def wrap(angle_rad: Floats) -> Floats:
    """Angle into [-pi, pi)."""
    return (angle_rad + np.pi) % (2.0 * np.pi) - np.pi


def lower_caps(caps: Floats) -> tuple[int, int, int]:
    """The lower cap of each rod, for caps (6, 3)."""
    first, second, third = (2 * rod + int(caps[2 * rod + 1, 2] < caps[2 * rod, 2]) for rod in range(3))
    return first, second, third


def planar_pose(caps: Floats) -> Floats:
    """(x, y, axis angle) (..., 3) [u, u, rad]."""
    com = centre_of_mass(caps)
    return np.stack([com[..., 0], com[..., 1], axis_angle(caps)], axis=-1)


def displacement(before: Floats, after: Floats) -> Floats:
    """Planar pose `after` (..., 3) seen from `before` (..., 3): x along the principal axis, y to its left, turn [rad]."""
    step = after[..., :2] - before[..., :2]
    c, s = np.cos(before[..., 2]), np.sin(before[..., 2])
    return np.stack(
        [
            c * step[..., 0] + s * step[..., 1],
            -s * step[..., 0] + c * step[..., 1],
            wrap(after[..., 2] - before[..., 2]),
        ],
        axis=-1,
    )
