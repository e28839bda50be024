"""The reachable tangent space: which small changes of cable lengths near-rigid struts leave, and how far to believe them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats, PoseEstimate
from onboard.tower import StrutTower

FREEDOMS = 3  # of a module: bending to two sides and twisting, which carries its height along
_RANK = 1e-3  # directions this much weaker than the strongest one do not count as reachable


@dataclass(frozen=True, slots=True)
class Reach:
    """What is reachable at one pose of M modules with K cables each.

    basis (M, K, 3): orthonormal length changes of every module, or zero columns where the pose leaves fewer. tip (3, 3M): the
    last disc's displacement for a unit of each.
    """

    basis: Floats
    tip: Floats

    def shape(self, length_m: Floats) -> Floats:
        """Coordinates (3M,) [m] of length changes (C,) in the basis."""
        modules, cables, _ = self.basis.shape
        found: Floats = (self.basis.transpose(0, 2, 1) @ length_m.reshape(modules, cables, 1)).reshape(-1)
        return found

    def length(self, shape_m: Floats) -> Floats:
        """Length changes (C,) [m] of coordinates (3M,)."""
        found: Floats = (self.basis @ shape_m.reshape(-1, FREEDOMS, 1)).reshape(-1)
        return found

    def project(self, length_m: Floats) -> Floats:
        """The reachable part of length changes (C,) [m]."""
        return self.length(self.shape(length_m))

    def trust(self, estimate: PoseEstimate, scale_m: float) -> Trust:
        """How far to act on shapes, by the estimate's covariance; scale_m: standard deviation that is trusted by half."""
        modules, cables, _ = self.basis.shape
        jacobian = estimate.cable_jacobian.reshape(modules, cables, 6 * modules)
        by_pose = (self.basis.transpose(0, 2, 1) @ jacobian).reshape(FREEDOMS * modules, 6 * modules)
        vague = by_pose @ estimate.covariance @ by_pose.T / scale_m**2
        trusted: Floats = np.linalg.inv(np.eye(len(vague)) + vague).astype(np.float64)
        moves = trusted @ self.tip.T
        # Along the arm's own axis the tip can hardly be moved: only the two directions across it are asked for.
        size, way = np.linalg.eigh(self.tip @ moves)
        across = way[:, 1:] / np.sqrt(np.maximum(size[1:], _RANK))
        by_tip: Floats = (moves @ across @ across.T).astype(np.float64)
        return Trust(trusted, by_tip, self.tip)


@dataclass(frozen=True, slots=True)
class Trust:
    """Shrinks what is vague in shapes and keeps what moves the tip.

    Inclinations say little about some shapes, such as neighbouring modules bent to opposite sides, while the tip's place is
    well known. With V the shapes' covariance, W = scale^2 (scale^2 + V)^-1 shrinks vague ones. The part of an error that this
    takes away still displaces the tip, by T (1 - W) e; the least change of trusted shapes that displaces it as much,
    W T' (T W T')^-1 T (1 - W) e, is added (ours). trusted: W (3M, 3M). by_tip: W T' (T W T')^-1 (3M, 3). tip: T (3, 3M).
    """

    trusted: Floats
    by_tip: Floats
    tip: Floats

    def act(self, shape_m: Floats, tip_m: Floats | None = None) -> Floats:
        """The change (3M,) to act on where shapes are off by `shape_m` (3M,) and the tip by `tip_m` (3,) or as the shapes say."""
        kept = self.trusted @ shape_m
        off = self.tip @ shape_m if tip_m is None else tip_m
        acted: Floats = kept + self.by_tip @ (off - self.tip @ kept)
        return acted


class ReachableSpace:
    """Finds what is reachable at the pose of an estimate.

    With cable lengths between two discs come six relative motions, of which the struts forbid all but three. They forbid
    what changes the mean strut length and its first harmonic around the ring; what is left of a strut's length change is
    taken up by the warp of the rings (reference page, "What to know", 2 and 7). Cables of module m are rows m K .. m K + K - 1.
    """

    def __init__(self, tower: StrutTower) -> None:
        lower, upper = tower.rest_joints_m()
        centre = np.zeros((tower.modules, 1, 3))
        centre[:, 0, 2] = tower.module_height_m * np.arange(tower.modules)
        self._lower_m = lower - centre
        self._upper_m = upper - centre - np.array([0.0, 0.0, tower.module_height_m])
        self._modules, self._cables = tower.modules, tower.cable_count // tower.modules
        angle = 2.0 * np.pi * np.arange(tower.struts_per_module) / tower.struts_per_module
        self._harmonics = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)])

    def at(self, estimate: PoseEstimate) -> Reach:
        """What is reachable at the estimated pose."""
        rotation, position = estimate.rotation, estimate.position_m
        lower = position[:-1, None] + np.einsum("mij,mnj->mni", rotation[:-1], self._lower_m)
        arm = np.einsum("mij,mnj->mni", rotation[1:], self._upper_m)
        strut = position[1:, None] + arm - lower
        strut /= np.linalg.norm(strut, axis=2, keepdims=True)
        # Change of strut lengths by (position, world rotation) of the upper disc.
        by_pose = np.concatenate([strut, np.cross(arm, strut)], axis=2)
        forbidden = np.einsum("hn,mnk->mhk", self._harmonics, by_pose)
        allowed = np.linalg.svd(forbidden)[2][:, FREEDOMS:].transpose(0, 2, 1)
        each = np.arange(self._modules)
        own = estimate.cable_jacobian.reshape(self._modules, self._cables, self._modules, 6)[each, :, each]
        u, s, vt = np.linalg.svd(own @ allowed, full_matrices=False)
        kept = s > _RANK * s[:, :1]
        inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
        motion = allowed @ (vt.transpose(0, 2, 1) * inverse[:, None, :])
        # A module's motion carries all that stands on it, the tip included.
        lever = position[-1] - position[1:]
        tip = motion[:, :3] + np.cross(motion[:, 3:], lever[:, :, None], axis=1)
        return Reach(u * kept[:, None, :], tip.transpose(1, 0, 2).reshape(3, -1))
