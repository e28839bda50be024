"""One idea: the planner of a growing robot in a process of its own: newest picture and commands given in, a plan out.

Through shared memory and one byte a request, as onboard/planning/process.py. Whatever goes wrong with one request is answered
as text; the process lives on.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path

import msgspec
import numpy as np

from onboard.clock import WallClock
from onboard.errors import PrestressError
from onboard.growing.task import GrowthTask
from onboard.messages import Plan, frozen
from onboard.planning.exchange import Slot
from onboard.planning.vine.play import HISTORY
from onboard.planning.vine.shape import CentreLine
from onboard.planning.vine.steer import Steerer
from onboard.vine_robot import load_vine

CONTROLS = 3
THREADS = min(2, len(os.sched_getaffinity(0)))  # rollouts come in two tiles


class PlannerData(msgspec.Struct, frozen=True):
    """What the process is made of: the robot's file, the task, the planner's seed."""

    robot: str
    task: GrowthTask
    seed: int


class Request(msgspec.Struct, frozen=True):
    """A picture (points (P, 2) as bytes), commands given (K, 4): time and values, base and muscles now, and when to begin.

    growing: plans are played; arrived: the tip is only to be kept at the goal.
    """

    number: int
    now_s: float
    start_s: float
    taken_s: float
    points: bytes
    heading_rad: float
    curvature_1_m: float
    given: bytes
    actual: tuple[float, float]
    goal: tuple[float, float]
    growing: bool
    arrived: bool


class Reply(msgspec.Struct, frozen=True):
    """A plan, or why there is none; goal and arrived as they were asked."""

    number: int
    goal: tuple[float, float]
    arrived: bool
    problem: str = ""
    start_s: float = 0.0
    dt_s: float = 0.0
    expires_s: float = 0.0
    estimate_t_s: float = 0.0
    cost: float = 0.0
    value: bytes = b""
    seconds: float = 0.0

    def plan(self) -> Plan | None:
        """The plan; None when there is a problem."""
        if self.problem:
            return None
        value = frozen(np.frombuffer(self.value).reshape(-1, CONTROLS))
        return Plan(self.start_s, self.dt_s, value, self.expires_s, self.estimate_t_s, self.cost)


class Worker:
    """Answers requests one after the other."""

    def __init__(self, data: PlannerData) -> None:
        self.data, self.clock = data, WallClock()
        self.robot = load_vine(Path(data.robot))
        self.field = data.task.field(self.robot)
        self.steerer: Steerer | None = None
        self._growing = False

    def answer(self, request: Request) -> Reply:
        """A reply, whatever happens."""
        began_s = self.clock.now_s()
        try:
            plan = self._plan(request)
        except PrestressError as error:
            return Reply(request.number, request.goal, request.arrived, str(error), seconds=self.clock.now_s() - began_s)
        if plan is None:
            return Reply(
                request.number, request.goal, request.arrived, "no rollout was usable", seconds=self.clock.now_s() - began_s
            )
        return Reply(
            request.number,
            request.goal,
            request.arrived,
            start_s=plan.start_s,
            dt_s=plan.dt_s,
            expires_s=plan.expires_s,
            estimate_t_s=plan.estimate_t_s,
            cost=float(plan.cost),
            value=np.ascontiguousarray(plan.value).tobytes(),
            seconds=self.clock.now_s() - began_s,
        )

    def _plan(self, request: Request) -> Plan | None:
        steerer = self._steerer(request)
        given = np.frombuffer(request.given).reshape(-1, 1 + CONTROLS)
        steerer.given = deque(((float(row[0]), frozen(row[1:])) for row in given), maxlen=HISTORY)
        steerer.actual = np.array(request.actual)
        if request.arrived and not steerer.arrived:
            steerer.hold()
        elif request.growing and not self._growing:
            steerer.begin()
        self._growing = request.growing
        line = CentreLine(
            request.taken_s, np.frombuffer(request.points).reshape(-1, 2), request.heading_rad, request.curvature_1_m
        )
        if steerer.state_t_s is None or line.t_s > steerer.state_t_s:
            steerer.see(line)
        plan = steerer.plan(request.now_s, request.start_s)
        if not request.growing:
            steerer.plans.clear()  # nobody plays it
        return plan

    def _steerer(self, request: Request) -> Steerer:
        old = self.steerer
        if old is None or tuple(old.goal) != request.goal or (old.arrived and not request.arrived):
            goal = np.array(request.goal)
            self.steerer = Steerer(self.robot, self.field, goal, self.data.seed, THREADS)
            if old is not None:
                self.steerer.state, self.steerer.state_t_s = old.state, old.state_t_s
            return self.steerer
        return old


def main() -> int:
    """python -m onboard.planning.vine.process REQUEST_FD REPLY_FD: until standard input ends."""
    from onboard.runtime.realtime import enter_batch

    enter_batch()
    requests, replies = Slot(int(sys.argv[1])), Slot(int(sys.argv[2]))
    with os.fdopen(os.dup(0), "rb", buffering=0) as source:
        head = source.readline()
        size = int(head) if head.strip().isdigit() else 0
        data = b""
        while len(data) < size:
            part = source.read(size - len(data))
            if not part:
                return 1
            data += part
        worker = Worker(msgspec.msgpack.decode(data, type=PlannerData))
        while source.read(4096):
            raw = requests.read()
            if raw is not None:
                replies.write(msgspec.msgpack.encode(worker.answer(msgspec.msgpack.decode(raw, type=Request))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
