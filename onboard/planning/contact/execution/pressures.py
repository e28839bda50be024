"""From a segment's shape to its four chambers: the stand-in's inverse, gravity's share, and the clipped integral law.

dp = clip(K_len I_len + K_rot B^T I_rot, +-limit) with I the integrals of the errors in length and in rotation (paper,
III-C1; reference measurement). Here lengths count in millimetres, angles in degrees and the integrals per second, so that
the paper's gains 5.0 and 2.0 give loops of about 3 and 1.5 rad/s on chambers of 100 units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.compiled import jit
from onboard.planning.contact.execution.ports import Flags, Floats
from onboard.planning.contact.kinematics import segment
from onboard.planning.contact.worm import WormSpec

MM, DEG = 1e3, 180.0 / np.pi


class PressureLaw:
    """Integrals of one worm. `correction` is what they add to the chambers now. Shape (n, 4)."""

    def __init__(self, spec: WormSpec) -> None:
        chambers, n = spec.chambers, spec.links.count - 1
        angles = np.deg2rad(chambers.angles_deg)
        self.directions: Floats = np.column_stack([np.cos(angles), np.sin(angles)])  # (4, 2): B transposed
        self._gain_length, self._gain_rotation, self._limit = chambers.gain_length, chambers.gain_rotation, chambers.limit
        self._length, self._rotation = np.zeros(n), np.zeros((n, 2))

    @property
    def correction(self) -> Floats:
        raw = self._gain_length * self._length[:, None] + self._gain_rotation * self._rotation @ self.directions.T
        out: Floats = np.clip(raw, -self._limit, self._limit)
        return out

    def update(self, dt_s: float, wanted: Floats, measured: Floats, active: Flags, room: Flags | None = None) -> Floats:
        """One step of dt_s for the segments in `active` (n,), towards shapes (n, 3) from measured ones; returns `correction`.

        A segment whose correction is at its limit, or whose chambers have no `room` (n,) left, stops integrating wherever
        that would take it further out.
        """
        length = dt_s * MM * (wanted[:, 0] - measured[:, 0])
        rotation = dt_s * DEG * (wanted[:, :1] * wanted[:, 1:] - measured[:, :1] * measured[:, 1:])
        before = self._raw()
        tried = before + self._gain_length * length[:, None] + self._gain_rotation * rotation @ self.directions.T
        full = np.any(np.abs(tried) > self._limit, axis=1)
        if room is not None:
            full |= ~room
        outwards = np.sum(tried**2, axis=1) > np.sum(before**2, axis=1)
        moves = active & ~(full & outwards)
        self._length = self._length + np.where(moves, length, 0.0)
        self._rotation = self._rotation + np.where(moves[:, None], rotation, 0.0)
        return self.correction

    def _raw(self) -> Floats:
        out: Floats = self._gain_length * self._length[:, None] + self._gain_rotation * self._rotation @ self.directions.T
        return out


def chamber_pressures(spec: WormSpec, shape: Floats, sag: Floats | None = None) -> Floats:
    """Chambers (n, 4), 0..100 units, that give shapes (n, 3) unloaded: L = Lmin + dL mean(p), kappa = k_max (p1 - p3, p2 - p4).

    `sag` (n, 2) [1/m] is added to the curvatures. One pressure distribution of many: the pairs' means differ only where a
    chamber would otherwise fall below nothing.
    """
    segments = spec.segments
    mean = (shape[:, 0] - segments.length_min_m) / (segments.length_max_m - segments.length_min_m)
    bend = (shape[:, 1:] + (0.0 if sag is None else sag)) / segments.curvature_max_per_m
    half = 0.5 * np.abs(bend)
    # the first pair may take mean + d, the second mean - d: d as small as keeps every chamber within 0..1
    low = np.maximum(half[:, 0] - mean, mean + half[:, 1] - 1.0)
    high = np.minimum(1.0 - half[:, 0] - mean, mean - half[:, 1])
    shift = np.clip(0.0, np.minimum(low, high), np.maximum(low, high))
    first, second = mean + shift, mean - shift
    chambers = np.column_stack(
        [first + 0.5 * bend[:, 0], second + 0.5 * bend[:, 1], first - 0.5 * bend[:, 0], second - 0.5 * bend[:, 1]]
    )
    out: Floats = 100.0 * np.clip(chambers, 0.0, 1.2)
    return out


def gravity_sag(spec: WormSpec, frames: Floats, shape: Floats, holding: NDArray[np.uint8]) -> Floats:
    """Curvature (n, 2) [1/m] to command in addition, so that weights leave segments in shape.

    A segment that carries links on one side bends by moment / stiffness; stiffness = capacity / curvature_max follows from
    the feasible set, where the capacity is the moment that takes all curvature away. Between two anchors: none.
    """
    stiffness = spec.load.capacity_n_m * spec.load.mean / spec.segments.curvature_max_per_m
    return _sag(frames, shape, holding, spec.gravity, spec.links.mass_kg, spec.segments.mass_kg, stiffness)  # type: ignore[no-any-return]


@jit
def _sag(frames, shape, holding, gravity, link_mass, segment_mass, stiffness):  # type: ignore[no-untyped-def]
    n = shape.shape[0]
    middle, half = np.empty((n, 3, 4)), np.empty((3, 4))
    out = np.zeros((n, 2))
    for i in range(n):
        segment(0.5 * shape[i, 0], shape[i, 1], shape[i, 2], half)
        for r in range(3):
            for c in range(4):
                middle[i, r, c] = frames[i, r, 0] * half[0, c] + frames[i, r, 1] * half[1, c] + frames[i, r, 2] * half[2, c]
            middle[i, r, 3] += frames[i, r, 3]
    for i in range(n):
        left, right = False, False
        for j in range(n + 1):
            if holding[j] and j <= i:
                left = True
            if holding[j] and j > i:
                right = True
        if left == right:
            continue
        weight = np.zeros(3)
        for j in range(n + 1):
            if (left and j > i) or (right and j <= i):
                for k in range(3):
                    weight[k] += link_mass * (frames[j, k, 3] - middle[i, k, 3])
        for j in range(n):
            if (left and j > i) or (right and j < i):
                for k in range(3):
                    weight[k] += segment_mass * (middle[j, k, 3] - middle[i, k, 3])
        moment = np.cross(weight, gravity)
        sign = -1.0 if left else 1.0  # a moment on the far end bends with it, one on the near end against it
        for k in range(2):
            local = middle[i, 0, k] * moment[0] + middle[i, 1, k] * moment[1] + middle[i, 2, k] * moment[2]
            out[i, k] = sign * local / stiffness
    return out
