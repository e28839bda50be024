"""Disc geometry: the tower's joints in frames that make every disc's rotation the identity when the tower stands upright."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats, Ints, frozen
from onboard.tower import StrutTower


@dataclass(frozen=True, slots=True)
class DiscGeometry:
    """Arrays the kernels read: M modules of N struts, C cables, discs 0 .. M (0 is the fixed base).

    lower_m, upper_m (M, N, 3): joints of strut (m, j) in the frames of discs m and m + 1 [m]. strut_length_m (M, N).
    saddle (N,): shape of a ring's warp, +1 and -1 in turn; zero for odd N, where no such mode exists.
    rest_position_m (M+1, 3): disc centres of the upright tower. rest_direction (M N, 3): struts of the upright tower.
    cables (C, 3): module, upper joint on disc m + 1, lower joint on disc m.
    """

    lower_m: Floats
    upper_m: Floats
    strut_length_m: Floats
    saddle: Floats
    rest_position_m: Floats
    rest_direction: Floats
    cables: Ints

    @property
    def modules(self) -> int:
        """Number of modules, which is the number of moving discs."""
        return len(self.lower_m)

    @classmethod
    def of(cls, tower: StrutTower) -> DiscGeometry:
        """The geometry of a tower; with parallel struts the loader has refused it already."""
        lower, upper = tower.rest_joints_m()
        modules, n = lower.shape[:2]
        centre = np.zeros((modules + 1, 3))
        centre[:, 2] = tower.module_height_m * np.arange(modules + 1)
        strut = (upper - lower).reshape(-1, 3)
        length = np.linalg.norm(strut, axis=1)
        shape = np.where(np.arange(n) % 2 == 0, 1.0, -1.0) if n % 2 == 0 else np.zeros(n)
        return cls(
            lower_m=frozen(lower - centre[:-1, None]),
            upper_m=frozen(upper - centre[1:, None]),
            strut_length_m=frozen(length.reshape(modules, n)),
            saddle=frozen(shape),
            rest_position_m=frozen(centre),
            rest_direction=frozen(strut / length[:, None]),
            cables=frozen(np.array(tower.cable_ends(), dtype=np.int64).reshape(-1, 3), dtype=np.int64),
        )
