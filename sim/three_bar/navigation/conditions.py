"""One idea: what stands between plant and planner: pose noise, delay, drop-outs, and the time a plan takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.planning.strut_state import StrutTracker
from sim.three_bar.plant import Plant


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a trial has to live with.

    noise_u: standard deviation of each cap coordinate (0.02 u = 2 mm). delay_s: age of a pose on arrival. loss: share of single
    poses that never come. gap_every_s, gap_s: mean time between longer silences, and how long one lasts. lead_s: a decision
    takes effect this long after the moment it was asked for.
    """

    noise_u: float = 0.02
    delay_s: float = 0.03
    loss: float = 0.02
    gap_every_s: float = 30.0
    gap_s: float = 0.3
    lead_s: float = 0.1

    @property
    def name(self) -> str:
        """How results call it."""
        return "ideal" if self == IDEAL else "usual" if self == Conditions() else "other"


IDEAL = Conditions(noise_u=0.0, delay_s=0.0, loss=0.0, gap_every_s=0.0, gap_s=0.0, lead_s=0.0)


class Sensing:
    """Feeds a tracker from a plant at every step."""

    def __init__(self, plant: Plant, tracker: StrutTracker, conditions: Conditions, rng: np.random.Generator) -> None:
        self.plant, self.tracker, self.conditions, self.rng = plant, tracker, conditions, rng
        self._under_way: deque[tuple[float, float, Floats]] = deque()
        self._silent_until_s = -1.0

    def tick(self, t_s: float) -> None:
        """Measure at `t_s` and deliver what has arrived by then."""
        c, caps = self.conditions, self.plant.caps()
        noise, lost, gap = self.rng.standard_normal(caps.shape), self.rng.random(), self.rng.random()
        if c.gap_every_s > 0.0 and gap < self.plant.step_s / c.gap_every_s:
            self._silent_until_s = t_s + c.gap_s
        if lost >= c.loss and t_s >= self._silent_until_s:
            self._under_way.append((t_s + c.delay_s, t_s, caps + c.noise_u * noise))
        while self._under_way and self._under_way[0][0] <= t_s + 1e-9:
            _, taken_s, measured = self._under_way.popleft()
            self.tracker.add_pose(taken_s, measured)
        self.tracker.add_motors(t_s, self.plant.rest_u, self.plant.speed_rad_s)
