"""The deterministic heart of a growing robot: pictures, reports, plans, requests and ticks in; line pressures out.

It knows no clock, no socket, no process and no file; whatever reaches it is recorded in the order it came.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from onboard.errors import SafetyError
from onboard.messages import BoardReport, Floats, Plan, Setpoints, frozen
from onboard.navigation.conditions import Conditions, Inputs
from onboard.planning.vine.play import CREEP, Player
from onboard.planning.vine.shape import CentreLine
from onboard.ports import ActuatorSink, Recorder
from onboard.runtime.parts import LoopTotals, Outcome
from onboard.safety.growth_governor import GrowthGovernor
from onboard.safety.supervisor import Supervisor, Transition
from onboard.safety.table import Event, State
from onboard.telemetry import schemas
from onboard.vine_robot import VineRobot

ARM_AGAIN_S = 0.25  # while arming
UNLIMITED = 1e12  # slew of what the board alone limits
TRUSTED_S = 0.8  # from a plan's start: a planner that falls behind stops growth, which cannot be taken back
STATE_EVERY = 5  # control ticks between recorded states
REPORTS = 100  # of the board, kept to say what base and muscles were when a picture was taken: 2 s


class GrowthCore:
    """One robot's player, supervisor and governor, wired."""

    def __init__(self, spec: VineRobot, player: Player, sink: ActuatorSink, recorder: Recorder, epoch_start: int) -> None:
        self.spec, self.player, self._recorder = spec, player, recorder
        self.supervisor = Supervisor(spec, epoch_start)
        start = np.array([0.0, spec.actuators.pressure.set_pa, 0.0, 0.0])
        slew = np.array([UNLIMITED, UNLIMITED, *spec.slew])
        ttl_s = 1e-3 * spec.actuators.command_ttl_ms
        self.governor = GrowthGovernor(spec.line_map, start, slew, ttl_s, sink)
        self.conditions = Conditions((spec.lines.board,), spec.safety)
        self._creep_m_s = CREEP * spec.actuators.growth.max_m_s
        self.line: CentreLine | None = None
        self.going = False
        self.command: Setpoints | None = None
        self.outcome = Outcome()
        self.plans = self.late = 0
        self._planned_s = (np.inf, -np.inf)  # the first and the newest plan that counted
        self._reported: dict[str, BoardReport] = {}
        self._had: deque[tuple[float, float, float]] = deque(maxlen=REPORTS)
        self._judged_s = self._armed_s = self._played_s = self._asked_s = -np.inf
        self._count = 0

    # --- inputs -----------------------------------------------------------------------------------------------------------

    def picture(self, t_s: float, points_m: Floats, received_s: float) -> None:
        """Points (P, 3) [m] from base to tip as of `t_s`."""
        fields = {"t_s": t_s, "caps": points_m.ravel().tolist(), "received_s": received_s}
        self._recorder.write(schemas.POSE, received_s, schemas.encode(fields))
        if not np.isfinite(points_m).all() or (self.line is not None and t_s <= self.line.t_s):
            return
        heading, curvature = self._had_at(t_s)
        self.line = CentreLine(t_s, frozen(points_m[:, :2]), heading, curvature)
        if self.growing and not self.player.arrived and self.player.watch(self.line, received_s):
            self._asked_s = -np.inf  # a plan that only holds the tip is wanted at once

    def plan(self, t_s: float, plan: Plan) -> None:
        """What the planner has answered, at `t_s`."""
        fields = {"t_s": t_s, "kind": "plan", "start_s": plan.start_s, "dt_s": plan.dt_s, "expires_s": plan.expires_s}
        fields |= {"cost": None if np.isnan(plan.cost) else plan.cost, "value": plan.value.ravel().tolist()}
        self._recorder.write(schemas.DECISION, t_s, schemas.encode(fields))
        if self.growing:
            self.plans += 1
            self._planned_s = (min(self._planned_s[0], t_s), t_s)
            self.late += t_s > plan.start_s
            self.player.accept(dataclasses.replace(plan, expires_s=min(plan.expires_s, plan.start_s + TRUSTED_S)))

    def control_tick(self, t_s: float, skipped: int = 0) -> Setpoints | None:
        """One command at the scheduled time `t_s`, already on its way to the board; None when none may be sent."""
        self._take_reports()
        self._tick("control", t_s, skipped)
        if self.supervisor.state is State.ARMING and t_s - self._armed_s >= ARM_AGAIN_S:
            self._armed_s = t_s
            self.governor.arm(self.supervisor.epoch)
        playing = self.going and self.governor.free and self.supervisor.state is State.ACTIVE
        value = self.player.command(t_s, playing)
        growth = min(value[0], self._creep_m_s) if self.player.arrived else value[0]
        if not self.growing or self.player.wanted(t_s) is not None:
            self._played_s = t_s
        wanted = Setpoints(t_s, frozen([growth, self.spec.actuators.pressure.set_pa, *value[1:]]), "plan" if playing else "hold")
        self.command = self.governor.issue(t_s, wanted, self.supervisor.state)
        if self.command is not None:
            self._recorder.write(schemas.COMMAND, t_s, schemas.command(self.command))
            self.player.actual = self.command.value[2:].copy()
        self._count += 1
        if self._count % STATE_EVERY == 0 and self.line is not None:
            tip = self.line.points_m[-1].tolist()
            fields = {"t_s": t_s, "centre": tip, "distance": self.distance_m() or 0.0, "age_s": t_s - self.line.t_s}
            self._recorder.write(schemas.STATE, t_s, schemas.encode(fields))
        return self.command

    def supervisor_tick(self, t_s: float, totals: LoopTotals) -> None:
        """Judge all conditions and carry out what follows."""
        self._take_reports()
        self._tick("supervisor", t_s, 0, **dataclasses.asdict(totals))
        self._judged_s = max(self._judged_s, t_s)
        seen_s = None if self.line is None else self.line.t_s
        idle_s = max(0.0, t_s - self._played_s) if self.growing else 0.0
        degraded_s = self.supervisor.degraded_s(self._judged_s)
        not_finite = self.governor.not_finite
        inputs = Inputs(t_s, seen_s, idle_s, self._reported, self.supervisor.epoch, degraded_s, not_finite, totals)
        transition = self.supervisor.step(self._judged_s, self.conditions.assess(inputs), self.conditions.details)
        if transition is not None:
            self._follow(transition)
        for notice in self.supervisor.notices():
            self.outcome.notices.append(notice)
            self._recorder.write(schemas.LOG, t_s, schemas.encode({"t_s": t_s, "line": notice.text}))

    def request(self, t_s: float, event: Event) -> Transition:
        """A person's request; raises SafetyError with the reason when it is refused, and nothing has changed then."""
        self._recorder.write(schemas.REQUEST, t_s, schemas.encode({"t_s": t_s, "request": event.value}))
        if event is Event.TEACH:
            raise SafetyError(f"{self.spec.name} cannot be led by hand")
        self._judged_s = max(self._judged_s, t_s)
        transition = self.supervisor.request(self._judged_s, event)
        if event is Event.GO:
            self.going = True
            self._asked_s, self._played_s = -np.inf, t_s
        self._follow(transition)
        return transition

    # --- asking for a plan ------------------------------------------------------------------------------------------------

    @property
    def growing(self) -> bool:
        """Whether plans are played: on the way, or holding at the goal, and active or about to be again."""
        return self.going and self.supervisor.state in (State.ACTIVE, State.DEGRADED)

    def due(self, t_s: float) -> bool:
        """Whether a planner is to be asked at `t_s`, which then counts as asked; a tick early, so that the rate is kept."""
        period_s = 1.0 / self.spec.planner.rate_hz - 1.0 / self.spec.rates.control_hz
        if self.line is None or t_s - self._asked_s < period_s - 1e-6:
            return False
        self._asked_s = t_s
        return True

    @property
    def plans_per_s(self) -> float:
        """Rate at which plans have come since the first that counted [1/s]."""
        first_s, last_s = self._planned_s
        return (self.plans - 1) / (last_s - first_s) if last_s > first_s else 0.0

    # --- outputs ----------------------------------------------------------------------------------------------------------

    def reports(self) -> Mapping[str, BoardReport]:
        """The newest report of every board."""
        return self._reported

    def record_to(self, recorder: Recorder) -> None:
        """Write everything from now on to another recorder."""
        self._recorder = recorder

    def take_outcome(self) -> Outcome:
        """Transitions and notices since the last call."""
        out, self.outcome = self.outcome, Outcome()
        return out

    def distance_m(self) -> float | None:
        """From the tip as it was seen last to the goal [m]."""
        return None if self.line is None else float(np.linalg.norm(self.line.points_m[-1] - self.player.goal))

    # --- inside -----------------------------------------------------------------------------------------------------------

    def _tick(self, loop: str, t_s: float, skipped: int, **more: Any) -> None:
        self._recorder.write(schemas.TICK, t_s, schemas.encode({"t_s": t_s, "loop": loop, "skipped": skipped, **more}))

    def _take_reports(self) -> None:
        for report in self.governor.reports():
            if self._reported.get(report.board) is not report:
                self._reported[report.board] = report
                self.supervisor.heed_epoch(report.epoch)
                self._recorder.write(schemas.REPORT, report.t_s, schemas.report(report))
                measured = self.governor.measured()
                if measured is not None and self.governor.free:
                    values, _ = self.spec.line_map.from_pa(measured)
                    self._had.append((report.t_s, float(values[2]), float(values[3])))

    def _had_at(self, t_s: float) -> tuple[float, float]:
        """Base heading [rad] and curvature [1/m] at `t_s`: as measured, or as held."""
        if not self._had:
            held = self.governor.issued
            return float(held[2]), float(held[3])
        t, heading, curvature = np.array(self._had).T
        return float(np.interp(t_s, t, heading)), float(np.interp(t_s, t, curvature))

    def _follow(self, transition: Transition) -> None:
        self.outcome.transitions.append(transition)
        fields = {"t_s": transition.t_s, "state": transition.target.value, "previous": transition.source.value}
        self._recorder.write(schemas.TRANSITION, transition.t_s, schemas.encode({**fields, "line": transition.text}))
        target = transition.target
        if target is State.ARMING:
            self.governor.arm(transition.epoch)
            self._armed_s = transition.t_s
        elif target in (State.SAFE, State.FAULT, State.DISARMED):
            self.going = False
            self.player.plans.clear()
            (self.governor.disarm if target is State.DISARMED else self.governor.stop)()
