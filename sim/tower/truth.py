"""What a strut tower really does: disc poses as best rigid fits of warping loops, strut directions, cable lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.tower import StrutTower


@dataclass(frozen=True, slots=True)
class TowerTruth:
    """The plant's state in the estimator's terms.

    position_m (M+1, 3), rotation (M+1, 3, 3): of disc 0 (the base) .. M (the tip), world axes; identity when upright.
    direction (n, 3): unit vectors from lower to upper end. cable_length_m (C,): joint to joint. warp_m (M+1,): RMS
    distance of a loop's joints from the best rigid fit, along the disc's axis. pressure_pa (A,): in the chambers.
    """

    t_s: float
    position_m: Floats
    rotation: Floats
    direction: Floats
    cable_length_m: Floats
    warp_m: Floats
    pressure_pa: Floats

    @property
    def tip_m(self) -> Floats:
        """Position of the last disc (3,) [m]."""
        tip: Floats = self.position_m[-1]
        return tip

    @property
    def tip_tilt_rad(self) -> float:
        """Angle between the last disc's axis and the vertical [rad]."""
        return float(np.arctan2(np.linalg.norm(self.rotation[-1, :2, 2]), self.rotation[-1, 2, 2]))


class DiscFit:
    """Best rigid fit (Kabsch, 1976) of all loops' joints to their places in the nominal shape."""

    def __init__(self, tower: StrutTower) -> None:
        lower, upper = tower.rest_joints_m()
        count = tower.modules + 1
        # Every loop padded to 2N joints with weights, so that one batched SVD does all.
        self._rest = np.zeros((count, 2 * tower.struts_per_module, 3))
        self._weight = np.zeros((count, 2 * tower.struts_per_module, 1))
        n = tower.struts_per_module
        self._rest[:-1, :n], self._weight[:-1, :n] = lower, 1.0
        self._rest[1:, n:], self._weight[1:, n:] = upper, 1.0
        self._rest[:, :, 2] -= tower.module_height_m * np.arange(count)[:, None]
        self._weight /= self._weight.sum(axis=1, keepdims=True)
        self._n = n

    def fit(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
        """(position (D, 3), rotation (D, 3, 3), warp (D,)) from world joints B (M, N, 3) and T (M, N, 3)."""
        points = np.zeros_like(self._rest)
        points[:-1, : self._n], points[1:, self._n :] = lower, upper
        weight = self._weight
        mean = (weight * points).sum(axis=1)
        rest_mean = (weight * self._rest).sum(axis=1)
        centred, rest = points - mean[:, None], self._rest - rest_mean[:, None]
        u, _, vt = np.linalg.svd(np.einsum("dji,djk->dik", weight * centred, rest))
        sign = np.ones((len(mean), 3))
        sign[:, 2] = np.sign(np.linalg.det(u @ vt))
        rotation = (u * sign[:, None, :]) @ vt
        position = mean - np.einsum("dij,dj->di", rotation, rest_mean)
        out = np.einsum("dji,di->dj", centred - np.einsum("dij,dkj->dki", rotation, rest), rotation[:, :, 2])
        return position, rotation, np.sqrt((weight[..., 0] * out**2).sum(axis=1))
