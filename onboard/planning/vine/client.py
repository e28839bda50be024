"""One idea: the control loop's end of a growing robot's planner process."""

from __future__ import annotations

import msgspec
import numpy as np

from onboard.clock import Clock
from onboard.messages import Floats, Plan
from onboard.planning.owned_process import OwnedProcess
from onboard.planning.vine.play import Player
from onboard.planning.vine.process import PlannerData, Reply, Request
from onboard.planning.vine.shape import CentreLine

LOOK_BACK_S = 1.5  # commands that go along: longer than a picture is old and a plan is ahead


class GrowthPlanner(OwnedProcess):
    """`poll` belongs in every tick."""

    def __init__(self, data: PlannerData, clock: Clock) -> None:
        self.goal = (float(data.task.goal[0]), float(data.task.goal[1]))
        super().__init__("onboard.planning.vine.process", data, clock)

    def set_goal(self, goal: Floats) -> None:
        """Another goal from the next request on; answers to older requests no longer count."""
        self.goal = (float(goal[0]), float(goal[1]))
        self._answered = self._number

    def ask(self, player: Player, line: CentreLine, now_s: float, start_s: float, growing: bool) -> bool:
        """A plan that begins at `start_s`, from the newest picture and what was commanded since."""
        if not self.running:
            return False
        self._number += 1
        given = [[t_s, *value] for t_s, value in player.given if t_s >= line.t_s - LOOK_BACK_S]
        request = Request(
            self._number,
            now_s,
            start_s,
            line.t_s,
            np.ascontiguousarray(line.points_m).tobytes(),
            line.heading_rad,
            line.curvature_1_m,
            np.array(given, dtype=np.float64).tobytes(),
            (float(player.actual[0]), float(player.actual[1])),
            self.goal,
            growing,
            player.arrived,
        )
        return self.put(msgspec.msgpack.encode(request))

    def poll(self, arrived: bool) -> Plan | None:
        """A plan that has come in since the last call and still counts: not one that was asked for on the way, once `arrived`."""
        raw = self.take()
        if raw is None:
            return None
        reply = msgspec.msgpack.decode(raw, type=Reply)
        if reply.number <= self._answered or reply.goal != self.goal:
            return None
        self.answered(reply.number, reply.problem, reply.seconds)
        return reply.plan() if reply.arrived == arrived else None
