"""One idea: costs of rollouts, as small pieces that add up. Each maps states (M, T', nx) and controls (M, T, nu) to (M,)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.planning.mppi import Cost


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of several costs."""

    terms: Sequence[Cost]

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        total: Floats = np.sum([term(states, controls) for term in self.terms], axis=0)
        return total


@dataclass(frozen=True, slots=True)
class Quadratic:
    """Sum over steps of x' Q x + u' R u with an end weight x_T' F x_T; q, r, f are symmetric matrices. goal (nx,)."""

    q: Floats
    r: Floats
    f: Floats
    goal: Floats

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        error = states - self.goal
        end = error[:, -1]
        cost: Floats = (
            np.einsum("mti,ij,mtj->m", error[:, :-1], self.q, error[:, :-1])
            + np.einsum("mti,ij,mtj->m", controls, self.r, controls)
            + np.einsum("mi,ij,mj->m", end, self.f, end)
        )
        return cost


@dataclass(frozen=True, slots=True)
class StrutState:
    """How a state of a strut robot is laid out, in the plant's units.

    `caps` cap positions (x, y, z each), their velocities, `cables` rest lengths, as many motor speeds.
    """

    caps: int
    cables: int

    @property
    def size(self) -> int:
        """Length of a state nx."""
        return 6 * self.caps + 2 * self.cables

    def positions(self, states: Floats) -> Floats:
        """Cap positions (..., caps, 3)."""
        part = states[..., : 3 * self.caps]
        return part.reshape(*part.shape[:-1], self.caps, 3)

    def rest_lengths(self, states: Floats) -> Floats:
        """Rest lengths of the driven cables (..., cables)."""
        rest: Floats = states[..., 6 * self.caps : 6 * self.caps + self.cables]
        return rest


@dataclass(frozen=True, slots=True)
class Reach:
    """Planar distance of the centre of mass to `goal` (2,) at the end, plus `heading_weight` per radian off a rolling direction.

    The robot rolls along +-90 degrees to its principal axis, so the heading counts modulo half a turn; within `fade` of the
    goal it fades out (reference measurement: distance + 3 |phi|, faded within 2).
    """

    layout: StrutState
    goal: Floats
    heading_weight: float = 0.0
    fade: float = 2.0

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        caps = self.layout.positions(states[:, -1])
        to_goal = self.goal - caps.mean(axis=1)[:, :2]
        distance: Floats = np.hypot(to_goal[:, 0], to_goal[:, 1])
        if self.heading_weight == 0.0:
            return distance
        axes = caps[:, 1::2] - caps[:, 0::2]
        axis = axes.mean(axis=1)
        off = np.arctan2(axis[:, 1], axis[:, 0]) + 0.5 * np.pi - np.arctan2(to_goal[:, 1], to_goal[:, 0])
        phi = np.abs((off + 0.5 * np.pi) % np.pi - 0.5 * np.pi)
        cost: Floats = distance + self.heading_weight * phi * np.minimum(distance / self.fade, 1.0)
        return cost


@dataclass(frozen=True, slots=True)
class SlackCables:
    """`weight` per unit of length that driven cables hang slack at the end beyond `allowed`.

    A cable between caps `pairs` (cables, 2) is about `offset` shorter than the distance of the caps. Two seconds are too short to
    wind in what was let out, so a plan that ends slack has cost time (reference measurement).
    """

    layout: StrutState
    pairs: Floats
    offset: float
    weight: float
    allowed: float = 0.05

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        end = states[:, -1]
        caps = self.layout.positions(end)
        first, second = self.pairs[:, 0].astype(int), self.pairs[:, 1].astype(int)
        length = np.linalg.norm(caps[:, first] - caps[:, second], axis=-1) - self.offset
        slack = np.maximum(self.layout.rest_lengths(end) - length - self.allowed, 0.0)
        cost: Floats = self.weight * slack.sum(axis=1)
        return cost


@dataclass(frozen=True, slots=True)
class Effort:
    """`weight` times the mean square of the controls."""

    weight: float

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        cost: Floats = self.weight * np.mean(controls**2, axis=(1, 2))
        return cost
