"""The deterministic heart of a rolling strut robot: poses, reports, decisions, requests and ticks in; motor speeds out.

It knows no clock, no socket, no process and no file; whatever reaches it is recorded in the order it came.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from onboard.errors import EstimationError, SafetyError
from onboard.link.motor_spec import Motors
from onboard.messages import BoardReport, Floats, Plan, Setpoints, frozen
from onboard.navigation.conditions import Conditions, Inputs
from onboard.navigation.rescue import Rescue
from onboard.navigation.state import StateKeeper
from onboard.planning.driver import Driver
from onboard.planning.gait import GaitPlayer
from onboard.planning.navigator import Decision, Situation
from onboard.planning.planar import planar_pose
from onboard.planning.recovery import Recovery
from onboard.planning.settings import PlannerSettings
from onboard.ports import ActuatorSink, Recorder
from onboard.runtime.parts import LoopTotals, Outcome
from onboard.safety.motor_governor import MotorGovernor, MotorLimits
from onboard.safety.supervisor import Supervisor, Transition
from onboard.safety.table import Event, State
from onboard.telemetry import schemas
from onboard.three_bar_robot import CABLES, Safety, ThreeBar

ARM_AGAIN_S = 0.25  # while arming
RETRY_S = 0.1  # asking for a plan again when there was no state to plan from
STATE_EVERY = 5  # control ticks between recorded states


@dataclasses.dataclass(frozen=True, slots=True)
class _Supervised:
    """What the supervisor reads of the robot's file."""

    actuators: Motors
    safety: Safety


class NavigationCore:
    """One robot's state, driver, supervisor and governor, wired."""

    def __init__(
        self,
        spec: ThreeBar,
        settings: PlannerSettings,
        world: Floats,
        sink: ActuatorSink,
        recorder: Recorder,
        epoch_start: int,
        recovery: Recovery | None = None,
    ) -> None:
        self.spec, self.settings, self.world = spec, settings, world
        self.boards = tuple(board.id for board in spec.motors.boards)
        self._recorder = recorder
        self.state = StateKeeper(spec, settings)
        step_s = spec.plant.step_s
        player = GaitPlayer(spec.gait, spec.symmetry, step_s)
        self.driver = Driver(settings, self.state.tracker, player, step_s, 1e-3 * spec.drive.lead_ms)
        self.supervisor = Supervisor(_Supervised(spec.motors, spec.safety), epoch_start)
        travel, motors = spec.actuators, spec.motors
        ttl_s = 1e-3 * motors.command_ttl_ms
        limits = MotorLimits(CABLES, motors.max_slew_per_s, travel.rest_min_u, travel.rest_max_u, ttl_s)
        self.governor = MotorGovernor(limits, sink)
        self.conditions = Conditions(self.boards, spec.safety)
        self.rescue = Rescue(spec, world, self.driver, recovery)
        self.goal: Floats | None = None
        self.arrived = False
        self.command: Setpoints | None = None
        self.outcome = Outcome()
        self._reported: dict[str, BoardReport] = {}
        self._judged_s = self._armed_s = -np.inf
        self._played_s = -np.inf  # when there was last something to play, or no need to
        self._count = 0

    # --- inputs -----------------------------------------------------------------------------------------------------------

    def pose(self, t_s: float, caps_u: Floats, received_s: float) -> None:
        """Cap positions (C, 3) [u] as of `t_s`."""
        fields = {"t_s": t_s, "caps": caps_u.ravel().tolist(), "received_s": received_s}
        self._recorder.write(schemas.POSE, received_s, schemas.encode(fields))
        self.state.add_pose(t_s, caps_u)

    def decision(self, t_s: float, decision: Decision) -> None:
        """What the planner has answered, at `t_s`."""
        self._recorder.write(schemas.DECISION, t_s, schemas.encode({"t_s": t_s, **decision_fields(decision)}))
        if self.driving and not self.rescue.freeing:
            self.driver.accept(decision, t_s)

    def control_tick(self, t_s: float, skipped: int = 0) -> Setpoints | None:
        """One command at the scheduled time `t_s`, already on its way to the boards; None when none may be sent."""
        self._take_reports()
        self._tick("control", t_s, skipped)
        self.state.tick(t_s)
        if self.supervisor.state is State.ARMING and t_s - self._armed_s >= ARM_AGAIN_S:
            self._armed_s = t_s
            self.governor.arm(self.supervisor.epoch)
        self._look_whether_arrived()
        self.command = self.governor.issue(t_s, self._wanted(t_s), self.state.rest_u, self.supervisor.state)
        if self.command is not None:
            self._recorder.write(schemas.COMMAND, t_s, schemas.command(self.command))
        self._count += 1
        if self._count % STATE_EVERY == 0:
            self._record_state(t_s)
        return self.command

    def supervisor_tick(self, t_s: float, totals: LoopTotals) -> None:
        """Judge all conditions and carry out what follows."""
        self._take_reports()
        self._tick("supervisor", t_s, 0, **dataclasses.asdict(totals))
        self._judged_s = max(self._judged_s, t_s)
        degraded_s = self.supervisor.degraded_s(self._judged_s)
        idle_s = max(0.0, t_s - self._played_s) if self.going else 0.0
        inputs = Inputs(
            t_s,
            self.state.pose_s,
            idle_s,
            self._reported,
            self.supervisor.epoch,
            degraded_s,
            self.governor.not_finite,
            totals,
            self.rescue.trouble,
        )
        transition = self.supervisor.step(self._judged_s, self.conditions.assess(inputs), self.conditions.details)
        if transition is not None:
            self._follow(transition)
        for notice in self.supervisor.notices():
            self.outcome.notices.append(notice)
            self._recorder.write(schemas.LOG, t_s, schemas.encode({"t_s": t_s, "line": notice.text}))

    def request(self, t_s: float, event: Event, goal: Floats | None = None) -> Transition:
        """A person's request; raises SafetyError with the reason when it is refused, and nothing has changed then."""
        fields: dict[str, Any] = {"t_s": t_s, "request": event.value}
        if goal is not None:
            fields["goal"] = np.asarray(goal).tolist()
        self._recorder.write(schemas.REQUEST, t_s, schemas.encode(fields))
        if event is Event.TEACH:
            raise SafetyError(f"{self.spec.robot.name} cannot be led by hand")
        if event is Event.GO and (goal is None or goal.shape != (2,) or not np.isfinite(goal).all()):
            raise SafetyError("go: name a goal, x and y in u")
        self._judged_s = max(self._judged_s, t_s)
        transition = self.supervisor.request(self._judged_s, event)
        if event is Event.GO:
            self.goal, self.arrived = goal, False
            self.rescue.begin()
            self.driver.pending = None  # what is being played goes on until the first plan to the new goal
            self.driver.next_s = self._played_s = t_s
        self._follow(transition)
        return transition

    # --- asking for a plan ------------------------------------------------------------------------------------------------

    @property
    def going(self) -> bool:
        """Whether there is a way to go."""
        return self.goal is not None and not self.arrived

    @property
    def driving(self) -> bool:
        """Whether decisions count now: going, and active or about to be again."""
        return self.going and self.supervisor.state in (State.ACTIVE, State.DEGRADED)

    def due(self, t_s: float) -> Situation | None:
        """What a planner should be asked at `t_s`, if anything. The caller then tells `asked`."""
        if not self.driving or not self.driver.due(t_s):
            return None
        try:
            return self.driver.situation(t_s, self.world)
        except EstimationError:
            self.driver.asked(t_s, RETRY_S)
            return None

    def look(self, t_s: float) -> Situation | None:
        """Where the robot stands, for a planner that is to be warm before it is needed; only while nothing is driven."""
        if self.driving or t_s < self.driver.next_s:
            return None
        self.driver.asked(t_s)
        try:
            return self.driver.situation(t_s, self.world)
        except EstimationError:
            return None

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

    def distance_u(self) -> float | None:
        """From the estimated centre to the goal in plan [u]."""
        caps = self.state.caps_u
        return None if caps is None or self.goal is None else float(np.linalg.norm(caps.mean(axis=0)[:2] - self.goal))

    # --- inside -----------------------------------------------------------------------------------------------------------

    def _tick(self, loop: str, t_s: float, skipped: int, **more: Any) -> None:
        self._recorder.write(schemas.TICK, t_s, schemas.encode({"t_s": t_s, "loop": loop, "skipped": skipped, **more}))

    def _take_reports(self) -> None:
        for report in self.governor.reports():
            if self._reported.get(report.board) is not report:
                self._reported[report.board] = report
                self.supervisor.heed_epoch(report.epoch)
                self._recorder.write(schemas.REPORT, report.t_s, schemas.report(report))
                self.state.add_report(self.boards.index(report.board), report)

    def _wanted(self, t_s: float) -> Setpoints | None:
        rest_u, length_u = self.state.rest_u, self.state.length_u
        if self.supervisor.state is not State.ACTIVE or not self.going or rest_u is None or length_u is None:
            self.driver.rest(t_s)
            self.rescue.pause()
            if self.driver.playing or not self.driving:
                self._played_s = t_s
            return None
        if self.state.caps_u is not None and self.rescue.gives_up(t_s, self.state.caps_u):
            self._forget_goal()
            return None
        value = self.driver.command(t_s, length_u, rest_u)
        if self.driver.playing:
            self._played_s = t_s
        source = "gait" if self.driver.player.running else "plan" if self.driver.playing else "idle"
        return Setpoints(t_s, frozen(value), source)

    def _look_whether_arrived(self) -> None:
        distance_u = self.distance_u()
        if self.going and distance_u is not None and distance_u <= self.settings.mppi.goal_reach_u:
            self.arrived = True
            self.driver.stop()

    def _record_state(self, t_s: float) -> None:
        caps, rest_u = self.state.caps_u, self.state.rest_u
        if caps is None or self.state.pose_s is None:
            return
        x, y, axis = planar_pose(caps)
        fields: dict[str, Any] = {"t_s": t_s, "centre": [float(x), float(y), float(caps[:, 2].mean())], "axis_rad": float(axis)}
        fields |= {"distance": self.distance_u() or 0.0, "rest": [] if rest_u is None else rest_u.tolist()}
        fields["age_s"] = t_s - self.state.pose_s
        self._recorder.write(schemas.STATE, t_s, schemas.encode(fields))

    def _follow(self, transition: Transition) -> None:
        self.outcome.transitions.append(transition)
        fields = {"t_s": transition.t_s, "state": transition.target.value, "previous": transition.source.value}
        self._recorder.write(schemas.TRANSITION, transition.t_s, schemas.encode({**fields, "line": transition.text}))
        target = transition.target
        if target is State.ARMING:
            self.governor.arm(transition.epoch)
            self._armed_s = transition.t_s
        elif target in (State.SAFE, State.FAULT):
            self._forget_goal()
            self.governor.stop()
        elif target is State.DISARMED:
            self._forget_goal()
            self.governor.disarm()
        elif target is State.DEGRADED:
            self.driver.stop()

    def _forget_goal(self) -> None:
        self.goal, self.arrived = None, False
        self.driver.stop()


def decision_fields(decision: Decision) -> dict[str, Any]:
    """A decision as JSON fields, exact to the bit."""
    if isinstance(decision, Plan):
        return {
            "kind": "plan",
            "start_s": decision.start_s,
            "dt_s": decision.dt_s,
            "expires_s": decision.expires_s,
            "estimate_t_s": decision.estimate_t_s,
            "cost": None if np.isnan(decision.cost) else decision.cost,
            "value": decision.value.ravel().tolist(),
        }
    return {
        "kind": decision.name,
        "start_s": decision.start_s,
        "steps": [list(step) for step in decision.steps],
        "min_u": decision.min_u,
        "range_u": decision.range_u.tolist(),
    }
