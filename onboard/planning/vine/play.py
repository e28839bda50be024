"""One idea: playing plans of a growing robot: the newest that has begun counts, and growth stops when the tip is at the goal.

What has grown does not come back, so every picture is asked whether to stop, also between plans.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from onboard.messages import Floats, Plan, frozen
from onboard.planning.vine.cost import WayLeft
from onboard.planning.vine.shape import CentreLine
from onboard.vine_robot import VineRobot

HISTORY = 600  # commands kept to carry a state forward
SIDEWAYS = 2.0  # tolerances beside the goal at which a tip that passes it still stops
CREEP = 0.4  # of the top growth rate while the tip is held at the goal
DIRECTION_POINTS = 4  # of a picture, from the tip back, that say where the tip points


class Player:
    """Commands (growth [m/s], base heading [rad], curvature [1/m]) from plans; the actuators follow the last two at slew rates.

    way: the way left to `goal` (2,) [m]. given: commands that were really given, with their times.
    """

    def __init__(self, robot: VineRobot, way: WayLeft, goal: Floats) -> None:
        self.robot, self.way, self.goal = robot, way, frozen(goal)
        self.given: deque[tuple[float, Floats]] = deque(maxlen=HISTORY)
        self.plans: list[Plan] = []
        self.arrived = False
        self.actual = np.zeros(2)  # base heading [rad] and curvature [1/m] as the slew limits let them follow

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

    def aim(self, goal: Floats, way: WayLeft) -> None:
        """Another goal, or the same one anew."""
        self.goal, self.way, self.arrived = frozen(goal), way, False
        self.plans.clear()

    def hold(self) -> None:
        """From now on the tip is only kept at the goal: plans made before do not count."""
        self.arrived = True
        self.plans.clear()

    def accept(self, plan: Plan) -> None:
        """A new plan; the one before plays until it begins."""
        self.plans = [plan, *self.plans[:1]]

    def command_at(self, t_s: float) -> Floats:
        """The command (3,) given at a past time, or the one a later time will get from the plan at hand."""
        if self.given and t_s < self.given[-1][0]:
            for begin, command in reversed(self.given):
                if begin <= t_s:
                    return command
            return self.given[0][1]
        wanted = self.wanted(t_s)
        return self.still() if wanted is None else wanted

    def wanted(self, t_s: float) -> Floats | None:
        """What the plans want at `t_s`; None without one."""
        for plan in self.plans:  # the newest first; it may begin only later
            row = plan.sample(t_s)
            if row is not None:
                return row
        return None

    def still(self) -> Floats:
        """No growth, and base and muscles where they are now, not where they were sent."""
        return frozen([0.0, *self.actual])

    def command(self, t_s: float, playing: bool = True) -> Floats:
        """The command (3,) for `t_s`, remembered as given; holding still when not `playing`."""
        if self.given:
            reach = self.robot.slew * max(0.0, t_s - self.given[-1][0])
            self.actual = self.actual + np.clip(self.given[-1][1][1:] - self.actual, -reach, reach)
        wanted = self.wanted(t_s) if playing else None
        command = self.still() if wanted is None else wanted
        self.given.append((t_s, command))
        return command
