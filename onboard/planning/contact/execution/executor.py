"""Carries plans out tick by tick: watches seals, poses and drift, corrects each step, and asks for a new plan when it must."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np

from onboard.errors import NotANumberError, PlanningError
from onboard.planning.contact.execution.aim import Aimer, measured_body
from onboard.planning.contact.execution.estimate import ChainEstimate
from onboard.planning.contact.execution.ports import Flags, Floats, PosePort, WormSink
from onboard.planning.contact.execution.pressures import PressureLaw, chamber_pressures, gravity_sag
from onboard.planning.contact.execution.step import Phase, StepRun, Want, state_gap
from onboard.planning.contact.plan import Plan, State
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.worm import WormSpec
from onboard.safety.pad_governor import PadGovernor

LOST_TICKS = 2  # reports in a row without a seal before it counts as lost
RESEAL_TIMES = 3.0  # a lost seal gets this many seal times to come back


class Mode(Enum):
    """What the executor is doing."""

    PLANNING = "planning"
    STEPPING = "stepping"
    RESEALING = "resealing"
    ARRIVED = "arrived"
    HOLDING = "holding"


class Replanner(Protocol):
    """A planner beside the executor. A dead one never answers."""

    def request(self, t_s: float, state: State, spoiled: list[Floats]) -> None:
        """Asks for a plan from a state, away from places (3,) where no seal came about."""

    def poll(self, t_s: float) -> Plan | PlanningError | None:
        """The answer to the last request, once there is one."""


@dataclass
class Record:
    """What happened, for reports. replans: by reason. planning_s: processor time of each answer."""

    steps: int = 0
    corrections: int = 0
    replans: Counter[str] = field(default_factory=Counter)
    seals_lost: int = 0
    not_finite: int = 0
    reason: str = ""


class Executor:
    """One run towards one goal, (3,) [m]. Call `tick` at `execution.rate_hz`; it never waits.

    The worm starts attached as `start` says. Ends ARRIVED (head within the goal radius) or HOLDING with a reason in
    `record`; in both nothing is let go any more.
    """

    def __init__(
        self, spec: WormSpec, scene: Scene, start: State, goal: Floats, poses: PosePort, sink: WormSink, planner: Replanner
    ) -> None:
        if spec.execution is None:
            raise PlanningError(f"{spec.file} has no [execution]: {spec.robot.name} can be planned for, not run")
        self._spec, self._numbers, self._goal, self._planner = spec, spec.execution, goal, planner
        self._poses, self._sink = poses, sink
        self._aimer, self._body = Aimer(spec, scene), measured_body(spec)
        self.estimate = ChainEstimate(start, spec.execution.smoothing_s)
        self.law = PressureLaw(spec)
        self._expected = start.shape.copy()  # what chambers with their lag should have made of the wish by now
        n = len(start.shape)
        self.held: Flags = start.attached.astype(bool)
        self.want = Want(start.shape.copy(), start.attached.copy(), self.held.copy(), np.zeros(n, dtype=bool))
        self.governor = PadGovernor(spec.execution, sink, chamber_pressures(spec, start.shape), self.held)
        self.mode, self.record = Mode.PLANNING, Record()
        self.plan: Plan | None = None
        self.run: StepRun | None = None
        self._index, self._missing, self._asked_s = 0, 0, -1.0
        self._spoiled: list[Floats] = []
        self._last_s: float | None = None
        self._since_s = 0.0
        self._dead_ends, self._why = 0, ""

    def stop(self) -> None:
        """Emergency stop: nothing moves, nothing lets go, until someone deliberately starts a new run."""
        self.governor.stop()
        self._hold("stopped")

    def tick(self, t_s: float) -> None:
        """One control tick at t_s."""
        dt_s = 0.0 if self._last_s is None else min(max(t_s - self._last_s, 0.0), 2.0 / self._numbers.rate_hz)
        self._last_s = t_s
        fresh = self._sense(t_s, dt_s)
        report = self._sink.report()
        sealed = self.governor.sealed(t_s)
        vacuum = np.zeros(len(sealed)) if report is None else report.vacuum_pa
        if self.mode not in (Mode.ARRIVED, Mode.HOLDING) and fresh:
            self._watch(t_s, sealed)
            if self.mode is Mode.PLANNING:
                self._planning(t_s)
            elif self.mode is Mode.STEPPING:
                self._stepping(t_s, dt_s, sealed, vacuum)
            elif self.mode is Mode.RESEALING:
                self._resealing(t_s, sealed)
        self._command(t_s, dt_s if fresh else 0.0)

    def _sense(self, t_s: float, dt_s: float) -> bool:
        """Takes the newest poses in; False while they are too old to act upon."""
        reading = self._poses.newest()
        if reading is not None:
            try:
                self.estimate.update(reading)
            except NotANumberError:
                self.record.not_finite += 1
        age_s = np.inf if self.estimate.t_s is None else t_s - self.estimate.t_s
        if age_s > self._numbers.pose_lost_s and self.estimate.t_s is not None:
            self._hold("link poses are lost")
        fresh = bool(age_s <= self._numbers.pose_ttl_s)
        if not fresh and self.run is not None:
            self.run.pause(dt_s)
        return fresh

    def _watch(self, t_s: float, sealed: Flags) -> None:
        """Seals of pads that should hold."""
        if self.mode is Mode.RESEALING:
            return
        letting_go = self.run.step.released if self.run is not None and self.run.phase is Phase.RELEASE else -1
        lost = self.held & ~sealed
        if letting_go >= 0:
            lost[letting_go] = False
        self._missing = self._missing + 1 if lost.any() else 0
        if self._missing >= LOST_TICKS:
            self.record.seals_lost += 1
            self._regrip(t_s, "seal lost")

    def _regrip(self, t_s: float, why: str) -> None:
        self._missing, self.run, self.mode, self._since_s, self._why = 0, None, Mode.RESEALING, t_s, why
        self.want.shape = self.estimate.shape.copy()

    def _resealing(self, t_s: float, sealed: Flags) -> None:
        """Every pad that lies on a surface tries to hold; then a new plan from what came of it."""
        numbers, pads = self._numbers, self._spec.pads
        for i, frame in enumerate(self.estimate.frames):
            if self.held[i] or not sealed.any() or self._aimer.landed(frame, pads.distance_tolerance_m, pads.angle_tolerance_deg):
                self.want.suction[i] = True
        self.want.active[:] = False
        back = bool(np.all(sealed[self.want.suction])) and t_s - self._since_s > numbers.steady_s
        if back or t_s - self._since_s > RESEAL_TIMES * numbers.seal_s:
            if sealed.any():
                self.want.suction = sealed.copy()
                self.held = sealed.copy()
                self._ask(t_s, self._why)
            elif t_s - self._since_s > 10.0 * numbers.seal_s:
                self._hold("no pad seals")

    def _planning(self, t_s: float) -> None:
        if self._asked_s < 0.0:
            self._request(t_s)
            return
        answer = self._planner.poll(t_s)
        if answer is None:
            if t_s - self._asked_s > self._numbers.planner_s:
                self._hold("the planner does not answer")
            return
        self._asked_s = -1.0
        if isinstance(answer, PlanningError) or not (answer.steps or answer.complete):
            why = str(answer) if isinstance(answer, PlanningError) else answer.reason
            self._dead_ends += 1
            if self._dead_ends > self._numbers.corrections:
                self._hold(f"no plan is left: {why}")
            else:  # with more pads on the surface there is more to plan with
                self._regrip(t_s, "no plan")
            return
        self._dead_ends = 0
        self.plan, self._index = answer, 0
        self.mode = Mode.STEPPING

    def _stepping(self, t_s: float, dt_s: float, sealed: Flags, vacuum: Floats) -> None:
        assert self.plan is not None
        if self.run is None:
            self._next(t_s)
            return
        self.run.tick(t_s, dt_s, self.estimate, sealed, vacuum)
        step = self.run.step
        if step.released >= 0 and self.run.phase not in (Phase.PREPARE, Phase.RELEASE) and not self.want.suction[step.released]:
            self.held[step.released] = False
        if self.run.phase is Phase.DONE:
            if step.attached >= 0:
                self.held[step.attached] = True
            self.want.holding = self.held.astype(np.uint8)
            self.record.steps += 1
            self.record.corrections += self.run.corrections
            self.run, self._index = None, self._index + 1
        elif self.run.phase is Phase.FAILED:
            if self.run.spoiled is not None:
                self._spoiled.append(self.run.spoiled)
            self.record.corrections += self.run.corrections
            self._ask(t_s, self.run.reason)

    def _next(self, t_s: float) -> None:
        """Starts the next step unless the goal is reached, the plan is used up, or the worm is elsewhere than planned."""
        assert self.plan is not None
        if np.linalg.norm(self.estimate.frames[-1, :, 3] - self._goal) <= self._spec.search.goal_radius_m:
            self.mode = Mode.ARRIVED
            return
        if self._index >= len(self.plan.steps):
            self._ask(t_s, "plan ended before the goal")
            return
        planned = self.plan.states[self._index]
        away, turned = state_gap(planned, self.estimate.frames, self.held)
        if not np.array_equal(planned.attached.astype(bool), self.held):
            self._ask(t_s, "pads differ from the plan")
        elif away > self._numbers.drift_m or turned > np.deg2rad(self._numbers.drift_deg):
            self._ask(t_s, "drift")
        else:
            self.run = StepRun(self._spec, self._body, self._aimer, self.plan.steps[self._index], self.held, self.want)

    def _ask(self, t_s: float, reason: str) -> None:
        self.record.replans[reason] += 1
        if sum(self.record.replans.values()) > self._numbers.replans:
            self._hold(f"planned anew {self._numbers.replans} times; last: {reason}")
            return
        self.run, self.mode, self._asked_s, self._since_s = None, Mode.PLANNING, -1.0, t_s
        self.want.holding = self.held.astype(np.uint8)

    def _request(self, t_s: float) -> None:
        if t_s - self._since_s < self._numbers.steady_s:
            return
        state = self.estimate.state(self._body, self.held.astype(np.uint8))
        self._planner.request(t_s, state, self._spoiled)
        self._asked_s = t_s

    def _hold(self, reason: str) -> None:
        if self.mode is not Mode.HOLDING:
            self.mode, self.record.reason, self.run = Mode.HOLDING, reason, None

    def _command(self, t_s: float, dt_s: float) -> None:
        if self.mode is Mode.HOLDING:
            self.governor.issue(t_s, None, None)
            return
        sag = gravity_sag(self._spec, self.estimate.frames, self.want.shape, self.want.holding)
        base = chamber_pressures(self._spec, self.want.shape, sag)
        total = base + self.law.correction
        room = np.all((total > 0.0) & (total < self._numbers.supply), axis=1) | ~self.want.active
        self._expected += (self.want.shape - self._expected) * min(1.0, dt_s / self._numbers.response_s)
        correction = self.law.update(dt_s, self._expected, self.estimate.shape, self.want.active, room)
        self.governor.issue(t_s, base + correction, self.want.suction)
