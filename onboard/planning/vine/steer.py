"""One idea: steering a growing robot to a goal: a picture comes in, the state follows, a plan comes out, commands are asked for.

Every picture is old and every plan is ready late: the state is carried forward with the commands that were really given, to
the moment the plan begins. What has grown does not come back: growth stops when the tip is at the goal, and from then on plans
keep it there against the stress that is left in the body.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard.errors import PlanningError
from onboard.messages import Floats, Plan, frozen
from onboard.models.manifest import load_model_file
from onboard.planning.mppi import Mppi, MppiConfig
from onboard.planning.sampling import Bounds, Coloured, Mixture
from onboard.planning.vine.cost import TipCost, WayLeft
from onboard.planning.vine.dynamics import VineDynamics
from onboard.planning.vine.field import Field
from onboard.planning.vine.play import CREEP, Player
from onboard.planning.vine.shape import CentreLine, ShapeFit
from onboard.planning.vine.state import layout_of
from onboard.vine_robot import VineRobot

START_M = 1.5  # links that stand at the start


def planner_config(robot: VineRobot, steps: int, step_s: float) -> MppiConfig:
    """MPPI as the robot's file has it: noise around the plan, and a share of fresh ideas."""
    p = robot.planner
    sampler = Mixture(((0.7, Coloured(p.sigma, 0.7)), (0.3, Coloured(1.0, 0.8, around_plan=False))))
    return MppiConfig(
        horizon_steps=steps,
        step_s=step_s,
        knots=p.knots,
        samples=p.samples,
        iterations=p.iterations,
        temperature=p.temperature_m,
        interpolation="linear",
        sampler=sampler,
    )


class Steerer(Player):
    """The whole onboard side. Same seed, same pictures, same commands."""

    def __init__(self, robot: VineRobot, field: Field, goal: Floats, seed: int = 0, threads: int = 1) -> None:
        p = robot.planner
        super().__init__(robot, WayLeft(field, goal, robot.body.radius_m, p.keep_off_m), goal)
        self.layout = layout_of(robot)
        name, folder = robot.robot.name, robot.manifest_path
        whole = load_model_file(folder, name, robot.physics_hash, robot.model.sha256 or None)
        short = load_model_file(folder.with_name("predict.json"), name, robot.physics_hash)
        self.dynamics = VineDynamics(whole, self.layout, threads)
        self.predictor = VineDynamics(short, self.layout)
        self.dynamics.set_field(field)
        self.predictor.set_field(field)
        self.fit = ShapeFit(self.layout, max(robot.camera.noise_m, 1e-4))
        self.cost = TipCost(self.layout, self.way, p.arrive_m)
        config = planner_config(robot, self.dynamics.steps, self.dynamics.step_s)
        self.mppi = Mppi(config, Bounds(robot.low, robot.high), self.dynamics, self.cost, seed)
        self.state = self.layout.straight(START_M * robot.body.link_m)
        self.state_t_s: float | None = None
        self.refused = 0
        self.begin()

    def begin(self) -> None:
        """The first guess of a plan: full growth towards the goal; plans made before do not count."""
        self.plans.clear()
        aim = np.arctan2(self.goal[1], self.goal[0])
        first = self.mppi.bounds.clip(np.array([self.robot.high[0], aim, 0.0]))
        self.mppi.reset(np.tile(first, (self.mppi.config.knots, 1)))

    def see(self, line: CentreLine) -> None:
        """Take a picture, in order of time: the state at its time. One that cannot be used raises and changes nothing."""
        expected = self.state
        if self.state_t_s is not None:
            expected = self.carry(self.state, self.state_t_s, line.t_s)
        self.state, self.state_t_s = self.fit(expected, line), line.t_s

    def hold(self) -> None:
        """From now on plans only keep the tip at the goal; growth creeps at most, to make good what the body springs back."""
        super().hold()
        high = self.robot.high.copy()
        high[0] = min(high[0], CREEP * self.robot.high[0])
        self.mppi.set_bounds(Bounds(self.robot.low, high))
        self.mppi.reset(np.tile([0.0, *self.actual], (self.mppi.config.knots, 1)))
        self.cost.slow, self.cost.turn = 1.0, 0.0

    def carry(self, state: Floats, from_s: float, to_s: float) -> Floats:
        """`state` carried from one time to another under the commands given, to the nearest whole step of the model."""
        left = round((to_s - from_s) / self.predictor.step_s)
        time_s = from_s
        while left > 0:
            many = min(left, self.predictor.steps)
            middle = time_s + self.predictor.step_s * (np.arange(self.predictor.steps) + 0.5)
            controls = np.stack([self.command_at(t) for t in middle])
            state = self.predictor.rollout(state, controls[None])[0, many - 1]
            time_s += many * self.predictor.step_s
            left -= many
        return state

    def plan(self, now_s: float, start_s: float) -> Plan | None:
        """A plan that begins at `start_s`, when it is expected to be ready; None (the old one plays on) when there is none."""
        if self.state_t_s is None:
            raise PlanningError("no picture of the vine yet")
        state = self.carry(self.state, self.state_t_s, start_s)
        self.mppi.set_config(replace(self.mppi.config, tail=frozen(self.mppi.mean[-1])))
        try:
            plan = self.mppi.plan(state, now_s, start_s=start_s)
        except PlanningError:
            self.refused += 1
            return None
        self.accept(plan)
        return plan
