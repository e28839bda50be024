"""One idea: how a vine's state is laid out for planning, and where its points lie.

State (N + 3,): N joint angles [rad] of a chain whose links are two simulated links long, the first one against straight ahead,
then length [m], base heading [rad] and rest curvature [1/m] of the side muscles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.vine_robot import VineRobot


@dataclass(frozen=True, slots=True)
class Layout:
    """N `links` of `link_m` [m] at most."""

    links: int
    link_m: float

    @property
    def size(self) -> int:
        """Length of a state."""
        return self.links + 3

    @property
    def longest_m(self) -> float:
        """Length with all links out [m]."""
        return self.links * self.link_m

    def straight(self, length_m: float, heading_rad: float = 0.0) -> Floats:
        """A straight vine at rest (N + 3,)."""
        state = np.zeros(self.size)
        state[0] = state[self.links + 1] = heading_rad
        state[self.links] = length_m
        return state

    def length(self, states: Floats) -> Floats:
        """Lengths (...) [m]."""
        length: Floats = states[..., self.links]
        return length

    def joints(self, states: Floats) -> tuple[Floats, Floats, Floats]:
        """(link starts (..., N, 2) [m], directions (..., N, 2), link lengths (..., N) [m])."""
        heading = np.cumsum(states[..., : self.links], axis=-1)
        part = np.clip(states[..., self.links, None] - self.link_m * np.arange(self.links), 0.0, self.link_m)
        direction = np.stack([np.cos(heading), np.sin(heading)], axis=-1)
        ends = np.cumsum(part[..., None] * direction, axis=-2)
        return ends - part[..., None] * direction, direction, part

    def tip(self, states: Floats) -> Floats:
        """Tips (..., 2) [m]."""
        heading = np.cumsum(states[..., : self.links], axis=-1)
        part = np.clip(states[..., self.links, None] - self.link_m * np.arange(self.links), 0.0, self.link_m)
        tip: Floats = np.stack([np.sum(part * np.cos(heading), axis=-1), np.sum(part * np.sin(heading), axis=-1)], axis=-1)
        return tip

    def tip_heading(self, states: Floats) -> Floats:
        """Headings (...) [rad] of the tips: angles of unborn links do not count."""
        born = states[..., self.links, None] > self.link_m * np.arange(self.links)
        heading: Floats = np.sum(np.where(born, states[..., : self.links], 0.0), axis=-1)
        return heading

    def points(self, state: Floats, at_m: Floats) -> Floats:
        """Points (P, 2) [m] of one state at arc lengths (P,) from the base."""
        start, direction, _ = self.joints(state)
        index = np.clip((at_m / self.link_m).astype(int), 0, self.links - 1)
        points: Floats = start[index] + (at_m - self.link_m * index)[:, None] * direction[index]
        return points


def layout_of(robot: VineRobot) -> Layout:
    """Two simulated links are one of the planner's."""
    return Layout(robot.body.links // 2, 2.0 * robot.body.link_m)
