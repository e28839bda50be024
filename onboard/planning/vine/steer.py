"""One idea: steering a growing robot to a goal: a picture comes in, the state follows, a plan comes out, commands are asked for.

Every picture is old and every plan is ready late: the state is carried forward with the commands that were really given, to
the moment the plan begins. What has grown does not come back: growth stops when the tip is at the goal, and from then on plans
keep it there against the stress that is left in the body.
"""

from __future__ import annotations

from collections import deque
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
from onboard.planning.vine.shape import CentreLine, ShapeFit
from onboard.planning.vine.state import layout_of
from onboard.vine_robot import VineRobot

HISTORY = 600  # commands kept to carry a state forward
START_M = 1.5  # links that stand at the start
SIDEWAYS = 2.0  # tolerances beside the goal at which a tip that passes it still stops
CREEP = 0.4  # of the top growth rate while the tip is held at the goal
DIRECTION_POINTS = 4  # of a picture, from the tip back, that say where the tip points


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


class Steerer:
    """The whole onboard side. Same seed, same pictures, same commands.

    Commands are (growth [m/s], base heading [rad], curvature [1/m]); the actuators follow the last two at their slew rates.
    """

    def __init__(self, robot: VineRobot, field: Field, goal: Floats, seed: int = 0, threads: int = 1) -> None:
        self.robot, self.layout = robot, layout_of(robot)
        name, folder = robot.robot.name, robot.manifest_path
        whole = load_model_file(folder, name, robot.physics_hash, robot.model.sha256 or None)
        short = load_model_file(folder.with_name("predict.json"), name, robot.physics_hash)
        self.dynamics = VineDynamics(whole, self.layout, threads)
        self.predictor = VineDynamics(short, self.layout)
        self.dynamics.set_field(field)
        self.predictor.set_field(field)
        self.fit = ShapeFit(self.layout, max(robot.camera.noise_m, 1e-4))
        p = robot.planner
        self.way = WayLeft(field, goal, robot.body.radius_m, p.keep_off_m)
        self.cost = TipCost(self.layout, self.way, p.arrive_m)
        config = planner_config(robot, self.dynamics.steps, self.dynamics.step_s)
        self.mppi = Mppi(config, Bounds(robot.low, robot.high), self.dynamics, self.cost, seed)
        self.goal = frozen(goal)
        self.given: deque[tuple[float, Floats]] = deque(maxlen=HISTORY)
        self.state = self.layout.straight(START_M * robot.body.link_m)
        self.state_t_s: float | None = None
        self.plans: list[Plan] = []
        self.arrived = False
        self.refused = 0
        self.actual = np.zeros(2)  # base heading [rad] and curvature [1/m] as the slew limits let them follow
        aim = np.arctan2(goal[1], goal[0])
        first = self.mppi.bounds.clip(np.array([robot.high[0], aim, 0.0]))
        self.mppi.reset(np.tile(first, (config.knots, 1)))

    def see(self, line: CentreLine) -> None:
        """Take a picture, in order of time: the state at its time. One that cannot be used raises and changes nothing."""
        expected = self.state
        if self.state_t_s is not None:
            expected = self.carry(self.state, self.state_t_s, line.t_s)
        self.state, self.state_t_s = self.fit(expected, line), line.t_s

    def watch(self, line: CentreLine, now_s: float) -> bool:
        """Whether growth is to stop at `now_s`: the tip, moved on by what has grown since the picture, is at or past the goal.

        Once true it stays true. It is asked with every picture, also between plans.
        """
        back = line.points_m[max(0, len(line.points_m) - DIRECTION_POINTS)]
        along = line.points_m[-1] - back
        along = along / max(float(np.linalg.norm(along)), 1e-9)
        grown = 0.0
        until = now_s
        for begin, command in reversed(self.given):
            grown += command[0] * max(0.0, until - max(begin, line.t_s))
            until = begin
            if begin <= line.t_s:
                break
        to_goal = self.goal - (line.points_m[-1] + grown * along)
        distance = float(np.linalg.norm(to_goal))
        near, past = distance < 0.25 * self.robot.planner.arrive_m, float(to_goal @ along) <= 0.0
        if past and not near:  # what is left is sideways: base and muscles can still make that good, unless a wall is between
            near = float(self.way(self.goal - to_goal)) < SIDEWAYS * self.robot.planner.tolerance_m
        if near and not self.arrived:
            self.hold()
        return self.arrived

    def hold(self) -> None:
        """From now on plans only keep the tip at the goal; growth creeps at most, to make good what the body springs back."""
        self.arrived = True
        self.plans.clear()
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

    def command_at(self, t_s: float) -> Floats:
        """The command (3,) given at a past time, or the one a later time will get from the plan at hand."""
        if self.given and t_s < self.given[-1][0]:
            for begin, command in reversed(self.given):
                if begin <= t_s:
                    return command
            return self.given[0][1]
        return self._wanted(t_s)

    def _wanted(self, t_s: float) -> Floats:
        for plan in self.plans:  # the newest first; it may begin only later
            row = plan.sample(t_s)
            if row is not None:
                return row
        return self._still()  # no plan

    def _still(self) -> Floats:
        """No growth, and base and muscles where they are now, not where they were sent."""
        return frozen([0.0, *self.actual])

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
        self.plans = [plan, *self.plans[:1]]
        return plan

    def command(self, t_s: float) -> Floats:
        """The command (3,) for `t_s`, remembered as given."""
        if self.given:
            reach = self.robot.slew * max(0.0, t_s - self.given[-1][0])
            self.actual = self.actual + np.clip(self.given[-1][1][1:] - self.actual, -reach, reach)
        wanted = self._wanted(t_s)
        self.given.append((t_s, wanted))
        return wanted
