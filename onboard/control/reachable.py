"""The reachable tangent space: which small changes of cable lengths near-rigid struts leave to a module."""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats, PoseEstimate
from onboard.tower import StrutTower

FREEDOMS = 3  # of a module: bending to two sides and twisting, which carries its height along
_RANK = 1e-3  # directions this much weaker than the strongest one do not count as reachable


class ReachableSpace:
    """Orthonormal bases of reachable length changes, module by module, at the pose of an estimate.

    With cable lengths between two discs come six relative motions, of which the struts forbid all but three. They forbid
    what changes the mean strut length and its first harmonic around the ring; what is left of a strut's length change is
    taken up by the warp of the rings (reference page, "What to know", 2 and 7). Cables of module m are rows m K .. m K + K - 1.
    """

    def __init__(self, tower: StrutTower) -> None:
        lower, upper = tower.rest_joints_m()
        height = tower.module_height_m * np.arange(tower.modules)
        centre = np.zeros((tower.modules, 1, 3))
        centre[:, 0, 2] = height
        self._lower_m = lower - centre
        self._upper_m = upper - centre - np.array([0.0, 0.0, tower.module_height_m])
        self._modules, self._cables = tower.modules, tower.cable_count // tower.modules
        angle = 2.0 * np.pi * np.arange(tower.struts_per_module) / tower.struts_per_module
        self._harmonics = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)])

    def basis(self, estimate: PoseEstimate) -> Floats:
        """Basis (M, K, 3) of length changes: columns orthonormal, or zero where the pose leaves fewer freedoms."""
        rotation, position = estimate.rotation, estimate.position_m
        lower = position[:-1, None] + np.einsum("mij,mnj->mni", rotation[:-1], self._lower_m)
        arm = np.einsum("mij,mnj->mni", rotation[1:], self._upper_m)
        strut = position[1:, None] + arm - lower
        strut /= np.linalg.norm(strut, axis=2, keepdims=True)
        # Change of strut lengths by (position, world rotation) of the upper disc.
        by_pose = np.concatenate([strut, np.cross(arm, strut)], axis=2)
        forbidden = np.einsum("hn,mnk->mhk", self._harmonics, by_pose)
        allowed = np.linalg.svd(forbidden)[2][:, FREEDOMS:]
        jacobian = estimate.cable_jacobian.reshape(self._modules, self._cables, self._modules, 6)
        own = jacobian[np.arange(self._modules), :, np.arange(self._modules)]
        u, s, _ = np.linalg.svd(own @ allowed.transpose(0, 2, 1), full_matrices=False)
        kept: Floats = u * (s > _RANK * s[:, :1])[:, None, :]
        return kept

    def trust(self, basis: Floats, estimate: PoseEstimate, scale_m: float) -> Floats:
        """How far to believe reachable length changes (3M, 3M): scale^2 (scale^2 + their covariance)^-1, between 0 and 1.

        Inclinations say little about some shapes, such as neighbouring modules bent to opposite sides, while the tip's
        place is well known. What the covariance calls vague is weighed down, the rest is left as it is.
        """
        modules, cables = self._modules, self._cables
        jacobian = estimate.cable_jacobian.reshape(modules, cables, 6 * modules)
        by_pose = (basis.transpose(0, 2, 1) @ jacobian).reshape(FREEDOMS * modules, 6 * modules)
        variance = by_pose @ estimate.covariance @ by_pose.T / scale_m**2
        return np.asarray(np.linalg.inv(np.eye(len(variance)) + variance), dtype=np.float64)

    def weigh(self, basis: Floats, trust: Floats, length_m: Floats) -> Floats:
        """The reachable part of length changes (C,) [m], each as far as it is trusted."""
        by_module = length_m.reshape(self._modules, self._cables, 1)
        shape = trust @ (basis.transpose(0, 2, 1) @ by_module).reshape(-1)
        weighed: Floats = (basis @ shape.reshape(self._modules, FREEDOMS, 1)).reshape(-1)
        return weighed

    def project(self, basis: Floats, length_m: Floats) -> Floats:
        """The reachable part of length changes (C,) [m]."""
        by_module = length_m.reshape(self._modules, self._cables, 1)
        return (basis @ (basis.transpose(0, 2, 1) @ by_module)).reshape(-1)
