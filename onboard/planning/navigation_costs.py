"""One idea: what the end of a rollout is worth on the way to a goal: cost to go, a bonus for arriving, room under a ceiling.

Each maps states (M, T', nx) and controls (M, T, nu) to (M,), as in onboard/planning/costs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from onboard.messages import Floats
from onboard.planning.costs import StrutState
from onboard.planning.planar import planar_pose
from onboard.planning.terrain import OPEN_SKY_U, Terrain
from onboard.planning.wavefront import Wavefront


class ToGo(Protocol):
    """Seconds to one goal at a time."""

    def set_goal(self, goal: Floats) -> None:
        """Work out the way to `goal` (2,) [u]."""

    def cost(self, poses: Floats) -> Floats:
        """Seconds to go (...) from planar poses (..., 3)."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """-`bonus` for plans whose centre of mass comes within `reach` [u] of `goal` (2,) at any predicted moment."""

    layout: StrutState
    goal: Floats
    reach: float
    bonus: float

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        centre = self.layout.positions(states).mean(axis=2)[..., :2]
        near = np.linalg.norm(centre - self.goal, axis=-1).min(axis=1) <= self.reach
        cost: Floats = np.where(near, -self.bonus, 0.0)
        return cost


@dataclass(frozen=True, slots=True)
class ValueAtEnd:
    """`weight` times the seconds to go from the pose at the end."""

    layout: StrutState
    field: ToGo
    weight: float

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        cost: Floats = self.weight * self.field.cost(planar_pose(self.layout.positions(states[:, -1])))
        return cost


@dataclass(frozen=True, slots=True)
class WavefrontAtEnd:
    """The wavefront's cost at the centre of mass at the end (paper section IV-C).

    In an obstacle, where the wavefront is infinite: the Euclidean distance plus all that the free cells can cost, so that a
    prediction that strays into a wall is bad but still a number.
    """

    layout: StrutState
    front: Wavefront
    inside: float

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        centre = self.layout.positions(states[:, -1]).mean(axis=1)[:, :2]
        cost = self.front.cost(centre)
        straight = self.inside + np.linalg.norm(centre - self.front.goal, axis=-1) / self.front.grid.cell
        bounded: Floats = np.where(np.isposinf(cost), straight, cost)
        return bounded


@njit(cache=True)  # type: ignore[untyped-decorator]
def spread_lowest(ceiling: Floats, reach: int) -> Floats:
    """The lowest ceiling (nx, ny) within `reach` cells to either side."""
    nx, ny = ceiling.shape
    first, second = ceiling.copy(), ceiling.copy()
    for i in range(nx):
        for j in range(ny):
            for k in range(max(0, i - reach), min(nx, i + reach + 1)):
                first[i, j] = min(first[i, j], ceiling[k, j])
    for i in range(nx):
        for j in range(ny):
            second[i, j] = first[i, j]
            for k in range(max(0, j - reach), min(ny, j + reach + 1)):
                second[i, j] = min(second[i, j], first[i, k])
    return second


class Ceiling:
    """What a robot too tall for what hangs nearby pays; nothing in the open.

    "reach" (reference measurement): weight x sum over caps of the mean height by which their upper side exceeds the ceiling less
    `gap`. "inverse" (paper section V-B's low-clearance term): sum over caps of gain / (clear - z) less that of caps at rest.
    """

    def __init__(self, layout: StrutState, terrain: Terrain, near_u: float, cap_radius_u: float) -> None:
        self.layout, self.terrain, self.radius = layout, terrain, cap_radius_u
        self._lowest = spread_lowest(np.ascontiguousarray(terrain.ceiling), max(1, round(near_u / terrain.cell)))
        self.weight, self.gap = 0.0, 0.0
        self.gain, self.clear = 0.0, 1.0
        self.any = bool((self._lowest < 0.5 * OPEN_SKY_U).any())

    def as_reach(self, weight: float, gap: float) -> Ceiling:
        """This ceiling with the first form of cost."""
        self.weight, self.gap = weight, gap
        return self

    def as_inverse(self, gain: float, clear: float) -> Ceiling:
        """This ceiling with the second form of cost."""
        self.gain, self.clear = gain, clear
        return self

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        if not self.any:
            return np.zeros(len(states))
        caps = self.layout.positions(states)
        finite = np.isfinite(caps)
        centre, _ = self.terrain.index(np.where(finite, caps, 0.0).mean(axis=2)[..., :2])
        lowest = self._lowest[centre[..., 0], centre[..., 1]]
        low = lowest < 0.5 * OPEN_SKY_U
        if not low.any():
            return np.zeros(len(states))
        over = np.maximum(caps[..., 2] + self.radius - (lowest - self.gap)[..., None], 0.0).sum(axis=-1)
        ground = self.terrain.height[centre[..., 0], centre[..., 1]]
        z = caps[..., 2] - ground[..., None]
        room = np.maximum(self.clear - z, 0.05)
        inverse = (self.gain / room - self.gain / self.clear).sum(axis=-1)
        per_step = np.where(low, self.weight * over + inverse, 0.0)
        cost: Floats = per_step.mean(axis=1)
        return cost
