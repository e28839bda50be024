"""One idea: the planner in a process of its own: the newest situation in, a time-stamped decision out, through shared memory.

Standard input carries the navigator's data once, then one byte a request: it wakes the planner and, when it ends, ends it.
Whatever goes wrong with one request is answered as text; the process lives on with the goal and the model it had.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
import numpy as np

from onboard.clock import WallClock
from onboard.errors import PrestressError
from onboard.messages import Floats, Plan, frozen
from onboard.planning.assembly import NavigatorData, build, load_dynamics
from onboard.planning.exchange import Slot
from onboard.planning.model_swap import ModelSwap, Probe
from onboard.planning.navigator import Decision, GaitOrder, Navigator, Situation


class Request(msgspec.Struct, frozen=True):
    """A situation as bytes of float64, with goal and model as they should be."""

    number: int
    t_s: float
    now_s: float
    start_s: float
    state: bytes
    lead_in: bytes
    goal: tuple[float, float]
    model: str
    model_number: int = 0


class Reply(msgspec.Struct, frozen=True):
    """The decision for a request: a plan's values as bytes, or a gait. problem: why there is none. model: what made it.

    model_number: the installation in use. refused_number: the last one that was refused, model_problem says why.
    """

    number: int
    goal: tuple[float, float]
    model: str
    problem: str = ""
    model_problem: str = ""
    model_number: int = -1
    refused_number: int = -1
    start_s: float = 0.0
    dt_s: float = 0.0
    expires_s: float = 0.0
    estimate_t_s: float = 0.0
    cost: float = 0.0
    value: bytes = b""
    gait: str = ""
    steps: list[list[float]] = []
    min_u: float = 0.0
    range_u: list[float] = []
    seconds: float = 0.0


def encode_situation(situation: Situation, number: int, goal: Floats, model: str, model_number: int) -> bytes:
    """A request as it goes through the slot."""
    request = Request(
        number,
        situation.t_s,
        situation.now_s,
        situation.start_s,
        np.ascontiguousarray(situation.state).tobytes(),
        np.ascontiguousarray(situation.lead_in).tobytes(),
        (float(goal[0]), float(goal[1])),
        model,
        model_number,
    )
    return msgspec.msgpack.encode(request)


def decision_of(reply: Reply, cables: int) -> Decision | None:
    """The decision in a reply; None when it carries a problem."""
    if reply.problem:
        return None
    if reply.gait:
        steps = tuple(tuple(step) for step in reply.steps)
        return GaitOrder(reply.gait, steps, reply.min_u, np.array(reply.range_u), reply.start_s)
    value = np.frombuffer(reply.value).reshape(-1, cables)
    return Plan(reply.start_s, reply.dt_s, frozen(value), reply.expires_s, reply.estimate_t_s, reply.cost)


class Worker:
    """Answers requests one after the other."""

    def __init__(self, data: NavigatorData) -> None:
        self.data, self.clock = data, WallClock()
        self.world = np.array(data.world)
        self.navigator: Navigator | None = None
        self.goal: tuple[float, float] | None = None
        self.swap = ModelSwap(lambda path: load_dynamics(self.data, path))

    def answer(self, request: Request) -> Reply:
        """A reply, whatever happens."""
        began_s = self.clock.now_s()
        try:
            navigator = self._navigator(request)
            if request.goal != self.goal:
                navigator.set_goal(np.array(request.goal))
                self.goal = request.goal
            lead_in = np.frombuffer(request.lead_in).reshape(-1, self.data.layout.cables)
            state = np.frombuffer(request.state)
            decision = navigator.decide(Situation(request.t_s, state, lead_in, request.now_s, request.start_s, self.world))
        except PrestressError as error:
            return Reply(request.number, request.goal, self.swap.manifest, str(error), **self._models())
        seconds = self.clock.now_s() - began_s
        common = {**self._models(), "start_s": decision.start_s, "seconds": seconds}
        if isinstance(decision, GaitOrder):
            return Reply(
                request.number,
                request.goal,
                self.swap.manifest,
                gait=decision.name,
                steps=[list(step) for step in decision.steps],
                min_u=decision.min_u,
                range_u=list(map(float, decision.range_u)),
                **common,
            )
        return Reply(
            request.number,
            request.goal,
            self.swap.manifest,
            dt_s=decision.dt_s,
            expires_s=decision.expires_s,
            estimate_t_s=decision.estimate_t_s,
            cost=float(decision.cost),
            value=np.ascontiguousarray(decision.value).tobytes(),
            **common,
        )

    def _models(self) -> dict[str, Any]:
        swap = self.swap
        return {"model_problem": swap.problem, "model_number": swap.number, "refused_number": swap.refused}

    def _navigator(self, request: Request) -> Navigator:
        """The navigator with the model that is wanted, or with the one before it while that one is not ready or refused."""
        if self.navigator is None:
            dynamics = self.swap.first(request.model_number, request.model, self._probe(request)) if request.model else None
            self.navigator = build(self.data, dynamics)
        elif request.model and (lead_in := getattr(self.navigator, "lead_in", None)) is not None:
            dynamics = self.swap.next(request.model_number, request.model, self._probe(request))
            if dynamics is not None:
                lead_in.dynamics = dynamics
        return self.navigator

    def _probe(self, request: Request) -> Probe:
        mppi = self.data.settings.mppi
        steps = round(mppi.horizon_s / self.data.step_s)
        rng = np.random.default_rng(0)
        controls = rng.uniform(-1.0, 1.0, (mppi.samples, 1, self.data.layout.cables)).repeat(steps, axis=1)
        return Probe(np.frombuffer(request.state), controls, self.world)


def main() -> int:
    """python -m onboard.planning.process REQUEST_FD REPLY_FD: until standard input ends."""
    from onboard.runtime.realtime import enter_batch

    enter_batch()
    requests, replies = Slot(int(sys.argv[1])), Slot(int(sys.argv[2]))
    with os.fdopen(os.dup(0), "rb", buffering=0) as source:
        head = source.readline()
        size = int(head) if head.strip().isdigit() else 0  # nothing at all: the loop ended before it could say anything
        data = b""
        while len(data) < size:
            part = source.read(size - len(data))
            if not part:
                return 1
            data += part
        worker = Worker(msgspec.msgpack.decode(data, type=NavigatorData))
        while source.read(4096):
            raw = requests.read()
            if raw is not None:
                reply = worker.answer(msgspec.msgpack.decode(raw, type=Request))
                replies.write(msgspec.msgpack.encode(reply))
    return 0


if __name__ == "__main__":
    sys.exit(main())
