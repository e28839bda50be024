"""One idea: the controller `value`: sampled plans judged by seconds to go, which knows the heading; it turns without primitives.

Half of the samples vary the present plan, half are coloured saturated noise; the best one is kept (averaging opposite gaits
cancels them). Slack cables cost. Where nothing gets better for a while, the robot rests and kicks (reference measurement).
"""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats, Plan, frozen
from onboard.planning.costs import SlackCables, StrutState, Sum
from onboard.planning.mppi import Mppi, MppiConfig
from onboard.planning.navigation_costs import Arrival, Ceiling, ToGo, ValueAtEnd
from onboard.planning.navigator import Decision, GaitOrder, LeadIn, Situation, pose_at_start
from onboard.planning.sampling import Bounds, Coloured, Gaussian, Mixture
from onboard.planning.settings import PlannerSettings
from onboard.planning.terrain import Terrain
from onboard.planning.value import ValueField
from onboard.planning.wavefront_seconds import WavefrontSeconds
from onboard.ports import Dynamics


class ValueNavigator:
    """See the module. `escapes` counts how often the robot had to be freed. knows_heading: False for the wavefront as cost."""

    def __init__(
        self,
        settings: PlannerSettings,
        layout: StrutState,
        pairs: Floats,
        cap_radius_u: float,
        dynamics: Dynamics,
        terrain: Terrain,
        step_s: float,
        seed: int,
        knows_heading: bool = True,
    ) -> None:
        self.settings, self.layout, self.pairs = settings, layout, pairs
        self.field: ToGo = (
            ValueField(terrain, settings.terrain, settings.value) if knows_heading else WavefrontSeconds(terrain, settings.value)
        )
        mppi = settings.mppi
        self.ceiling = Ceiling(layout, terrain, mppi.ceiling_near_u, cap_radius_u).as_reach(
            mppi.ceiling_weight, mppi.ceiling_gap_u
        )
        self.lead_in = LeadIn(dynamics, np.zeros((0, layout.cables)))
        sampler = Mixture(
            ((0.5, Gaussian(mppi.warm_sigma)), (0.5, Coloured(mppi.fresh_sigma, mppi.fresh_rho, around_plan=False)))
        )
        config = MppiConfig(
            horizon_steps=round(mppi.horizon_s / step_s),
            step_s=step_s,
            knots=round(mppi.horizon_s / mppi.block_s),
            samples=mppi.samples,
            choice="best",
            sampler=sampler,
        )
        bounds = Bounds(-np.ones(layout.cables), np.ones(layout.cables))
        self.mppi = Mppi(config, bounds, self.lead_in, Sum(()), seed)
        self.rng = np.random.default_rng([seed, 1])
        self.escapes = 0
        self._best, self._best_s, self._kick = np.inf, 0.0, False
        self._asked_s = -np.inf

    def set_goal(self, goal: Floats) -> None:
        """Solve the cost to go anew; the present plan is forgotten. Raises as ValueField.set_goal."""
        self.field.set_goal(goal)
        mppi = self.settings.mppi
        self.mppi.cost = Sum(
            (
                ValueAtEnd(self.layout, self.field, mppi.value_weight),
                Arrival(self.layout, np.array(goal, dtype=float), mppi.goal_reach_u, mppi.goal_bonus),
                SlackCables(self.layout, self.pairs, mppi.cable_offset_u, mppi.slack_weight, mppi.slack_allowed_u),
                self.ceiling,
            )
        )
        self.mppi.reset()
        self._best = np.inf

    def decide(self, situation: Situation) -> Decision:
        """A plan; or the way out of a place where nothing got better."""
        cost = self.settings.mppi.value_weight * float(self.field.cost(pose_at_start(self.layout, situation)))
        escape = self.settings.escape
        paused = situation.start_s - self._asked_s > self.settings.mppi.horizon_s  # it was not driving: nothing is stuck
        self._asked_s = situation.start_s
        if self._kick:
            self._kick, self._best, self._best_s = False, cost, situation.start_s
            return self._kicked(situation)
        if paused:
            self._best = np.inf
            self.mppi.reset()
        if cost < self._best - escape.gain or not np.isfinite(self._best):
            self._best, self._best_s = cost, situation.start_s
        elif situation.start_s - self._best_s > escape.patience_s:
            self.escapes += 1
            self._kick = True
            self.mppi.reset()
            return GaitOrder("rest", (), escape.rest_min_u, np.full(self.layout.cables, escape.rest_range_u), situation.start_s)
        self.lead_in.lead_in = situation.lead_in
        return self.mppi.plan(situation.state, situation.now_s, situation.world, situation.start_s)

    def _kicked(self, situation: Situation) -> Plan:
        """Motors at random ends of their range, in blocks."""
        config, mppi = self.mppi.config, self.settings.mppi
        steps = round(self.settings.escape.kick_s / config.step_s)
        block = round(mppi.block_s / config.step_s)
        rows = self.rng.choice([-1.0, 1.0], (-(-steps // block), self.layout.cables)).repeat(block, axis=0)[:steps]
        end_s = situation.start_s + steps * config.step_s
        return Plan(situation.start_s, config.step_s, frozen(rows), end_s, situation.t_s, np.nan)
