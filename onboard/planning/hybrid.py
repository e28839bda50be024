"""One idea: the paper's controllers: MPPI over the wavefront's cost, alone or in turns with turning primitives (algorithm 1)."""

from __future__ import annotations

import numpy as np

from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.planning.costs import SlackCables, StrutState, Sum
from onboard.planning.mppi import Mppi, MppiConfig
from onboard.planning.navigation_costs import Arrival, Ceiling, WavefrontAtEnd
from onboard.planning.navigator import Decision, GaitOrder, LeadIn, Situation, pose_at_start
from onboard.planning.planar import wrap
from onboard.planning.sampling import Bounds, Uniform
from onboard.planning.settings import PlannerSettings
from onboard.planning.terrain import Terrain
from onboard.planning.wavefront import Wavefront
from onboard.ports import Dynamics


class WavefrontNavigator:
    """`mppi` of the paper; with `turns` = {"cw": order, "ccw": order} its `hybrid`.

    Samples are uniform and independent of the last plan, and the best one is kept, as in the authors' program; slack cables cost
    what they cost the controller `value`, so that the two can be compared.
    """

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
        turns: dict[str, GaitOrder] | None = None,
    ) -> None:
        self.settings, self.layout, self.pairs, self.terrain = settings, layout, pairs, terrain
        self.turns = turns
        self.front: Wavefront | None = None
        mppi, hybrid = settings.mppi, settings.hybrid
        self.ceiling = Ceiling(layout, terrain, mppi.ceiling_near_u, cap_radius_u)
        self.ceiling.as_inverse(hybrid.ceiling_gain, hybrid.ceiling_clear_u)
        self.lead_in = LeadIn(dynamics, np.zeros((0, layout.cables)))
        config = MppiConfig(
            horizon_steps=round(mppi.horizon_s / step_s),
            step_s=step_s,
            knots=round(mppi.horizon_s / mppi.block_s),
            samples=mppi.samples,
            choice="best",
            temperature=mppi.temperature,
            sampler=Uniform(),
            warm_start=False,
        )
        self.mppi = Mppi(config, Bounds(-np.ones(layout.cables), np.ones(layout.cables)), self.lead_in, Sum(()), seed)
        self.turned = 0

    def set_goal(self, goal: Floats) -> None:
        """Grow the cost anew. Raises PlanningError or NotANumberError; the old goal then stays."""
        front = Wavefront(self.terrain.grid(goal))
        front.set_goal(goal)
        self.front = front
        mppi, hybrid = self.settings.mppi, self.settings.hybrid
        # Costs are in cells here: a slack cable costs as much of the way as it does in seconds for `value` at 0.5 u/s.
        slack = mppi.slack_weight / mppi.value_weight * 0.5 / self.terrain.cell
        self.mppi.cost = Sum(
            (
                WavefrontAtEnd(self.layout, front, inside=2.0 * sum(front.grid.clearance.shape)),
                Arrival(self.layout, np.array(goal, dtype=float), hybrid.goal_reach_u, hybrid.goal_bonus),
                SlackCables(self.layout, self.pairs, mppi.cable_offset_u, slack, mppi.slack_allowed_u),
                self.ceiling,
            )
        )
        self.mppi.reset()

    def decide(self, situation: Situation) -> Decision:
        """Algorithm 1: a turn when neither rolling direction lies near the way, else MPPI. Raises PlanningError with no goal."""
        if self.front is None:
            raise PlanningError("there is no goal yet")
        pose = pose_at_start(self.layout, situation)
        if self.turns is not None:
            turn = self.turn_for(pose)
            if turn is not None:
                self.turned += 1
                order = self.turns[turn]
                return GaitOrder(order.name, order.steps, order.min_u, order.range_u, situation.start_s)
        self.lead_in.lead_in = situation.lead_in
        return self.mppi.plan(situation.state, situation.now_s, situation.world, situation.start_s)

    def turn_for(self, pose: Floats) -> str | None:
        """The turning primitive for a planar pose (3,), None where MPPI should go on."""
        front, hybrid = self.front, self.settings.hybrid
        if front is None:
            raise PlanningError("there is no goal yet")
        if np.linalg.norm(front.goal - pose[:2]) < hybrid.near_goal_u:
            return None
        way = self.way_from(pose[:2])
        if way is None:
            return None
        reverse = float(np.degrees(wrap(pose[2] - 0.5 * np.pi - way)))  # the roll gait runs against the heading
        if abs(reverse) <= hybrid.align_deg or 180.0 - abs(reverse) <= hybrid.align_deg:
            return None
        return "cw" if hybrid.align_deg < reverse < hybrid.flip_deg else "ccw"

    def way_from(self, centre: Floats) -> float | None:
        """Direction [rad] from the centre of mass (2,) to the cheapest cell close by; None in the cheapest one itself."""
        front = self.front
        if front is None:
            raise PlanningError("there is no goal yet")
        look, cell = self.settings.hybrid.look_cells, front.grid.cell
        span = np.arange(-look, look + 1) * cell
        offsets = np.stack(np.meshgrid(span, span, indexing="ij"), axis=-1).reshape(-1, 2)
        offsets = offsets[np.linalg.norm(offsets, axis=-1) <= look * cell + 1e-9]
        best = offsets[int(np.argmin(front.cost(centre + offsets)))]
        return None if not best.any() else float(np.arctan2(best[1], best[0]))
