"""One idea: what the caps of a strut robot say in plan: centre, principal axis, and the difference of two headings.

Left caps are the even ones, right caps the odd ones; the principal axis is the mean of the struts' directions, seen from above
(paper section III).
"""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats


def wrap(angle_rad: Floats) -> Floats:
    """Angles (...) into [-pi, pi)."""
    inside: Floats = (angle_rad + np.pi) % (2.0 * np.pi) - np.pi
    return inside


def planar_pose(caps: Floats) -> Floats:
    """(x, y, axis angle) (..., 3) of caps (..., C, 3)."""
    axes = caps[..., 1::2, :] - caps[..., 0::2, :]
    length = np.sqrt(np.einsum("...i,...i->...", axes, axes))[..., None]
    mean = (axes / np.maximum(length, 1e-9)).mean(axis=-2)
    centre = caps.mean(axis=-2)
    pose: Floats = np.stack([centre[..., 0], centre[..., 1], np.arctan2(mean[..., 1], mean[..., 0])], axis=-1)
    return pose
