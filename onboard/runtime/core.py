"""The deterministic heart of the daemon: packets, reports, requests and ticks in; estimates, commands and transitions out.

It knows no clock, no socket and no file. Everything that reaches it is recorded in the order it came, so that a recording fed
to a fresh core gives the same estimates and commands bit for bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from onboard.control.teaching import Teacher
from onboard.errors import EstimationError, NotANumberError, SafetyError
from onboard.link.decode import Decoder
from onboard.link.slots import LatestSlots
from onboard.messages import BoardReport, EstimateFlag, Floats, PoseEstimate, Posture, Setpoints, frozen
from onboard.ports import ActuatorSink, Controller, Estimator, OrientationSource, Recorder
from onboard.robot import RobotSpec
from onboard.runtime.parts import LoopTotals, Outcome
from onboard.safety.governor import Governor
from onboard.safety.monitor import ConditionMonitor, Inputs
from onboard.safety.supervisor import Supervisor, Transition
from onboard.safety.table import Condition, Event, State
from onboard.telemetry import schemas

POOR = EstimateFlag.LOST | EstimateFlag.COASTING | EstimateFlag.UNCERTAIN  # estimates that no posture may come from
ARM_AGAIN_S = 0.25  # while arming
POSES_KEPT = 40  # half a second at 80 Hz: what a taught posture is the mean of


class Core:
    """One robot's estimator, controller, supervisor and governor, wired.

    epoch_start: see Supervisor. Reports come from `sink.reports()` at each control and supervisor tick.
    """

    def __init__(self, spec: RobotSpec, sink: ActuatorSink, recorder: Recorder, epoch_start: int = 0) -> None:
        self.spec = spec
        self._sink, self._recorder = sink, recorder
        self.decoder = Decoder(spec)
        self.slots = LatestSlots(len(spec.struts))
        self.orientation: OrientationSource = spec.orientation.build(spec)
        self.estimator: Estimator = spec.estimator.build(spec)
        self.supervisor = Supervisor(spec, epoch_start)
        self.monitor = ConditionMonitor(spec)
        self.controller: Controller | None = spec.controller.build(spec) if spec.actuators else None
        self.governor = Governor(spec, sink) if spec.actuators else None
        self._teacher = Teacher(spec) if spec.actuators else None
        self.estimate: PoseEstimate | None = None
        self.command: Setpoints | None = None
        self.goal: Posture | None = None
        self.outcome = Outcome()
        self.not_finite = 0
        self._judged_s = self._armed_s = float("-inf")
        self._recent: list[PoseEstimate] = []
        self._reported: dict[str, BoardReport] = {}

    # --- inputs -----------------------------------------------------------------------------------------------------------

    def packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        """A raw packet of a strut's board; wrong ones are counted by the decoder and change nothing."""
        self._recorder.write(schemas.PACKET, received_s, schemas.packet(strut, kind, payload, received_s))
        batch = self.decoder.packet(strut, kind, payload, received_s)
        if batch is not None:
            self.slots.put(batch)

    def estimator_tick(self, t_s: float, skipped: int = 0) -> PoseEstimate | None:
        """One estimate at the scheduled time `t_s`; None while no strut was ever seen."""
        self._tick("estimator", t_s, skipped)
        for batch in self.slots.take():
            self.orientation.add(batch)
        if self.governor is not None and self.supervisor.state is State.DISARMED:
            self.orientation.align_at_rest(t_s)
        try:
            estimate = self.estimator.update(self.orientation.observe(t_s))
        except EstimationError:
            return None
        self.estimate = estimate
        self._recent = [*self._recent[1 - POSES_KEPT :], estimate]
        self._recorder.write(schemas.ESTIMATE, t_s, schemas.estimate(estimate))
        return estimate

    def control_tick(self, t_s: float, skipped: int = 0) -> Setpoints | None:
        """One command at the scheduled time `t_s`, already on its way to the boards; None when none may be sent."""
        if self.governor is None or self.controller is None:
            return None
        self._take_reports()
        self._tick("control", t_s, skipped)
        if self.supervisor.state is State.ARMING and t_s - self._armed_s >= ARM_AGAIN_S:
            self._armed_s = t_s
            self.governor.arm_again(self.supervisor.epoch)
        self.command = self.governor.issue(t_s, self._wanted(t_s), self.supervisor.state)
        if self.command is not None:
            self._recorder.write(schemas.COMMAND, t_s, schemas.command(self.command))
        return self.command

    def supervisor_tick(self, t_s: float, totals: LoopTotals) -> None:
        """Judge all conditions and carry out what follows."""
        self._take_reports()
        self._tick("supervisor", t_s, 0, **dataclasses.asdict(totals))
        inputs = Inputs(
            t_s=t_s,
            estimate=self.estimate,
            reports=tuple(self._reported.values()),
            epoch=self.supervisor.epoch,
            degraded_s=self.supervisor.degraded_s(max(self._judged_s, t_s)),
            problems=self.decoder.problems(),
            issued_pa=self.governor.issued if self.governor else None,
            not_finite=self.governor.not_finite if self.governor else False,
            ticks=totals.ticks,
            overruns=totals.overruns,
            packets_refused=self.decoder.refused_total,
            link_down=totals.link_down,
            recorder_failed=totals.recorder_failed,
        )
        # A request comes at the time that it is; the tick after it may have been due a little earlier.
        self._judged_s = max(self._judged_s, t_s)
        transition = self.supervisor.step(self._judged_s, self.monitor.assess(inputs), self.monitor.details)
        if transition is not None:
            self._follow(transition)
        for notice in self.supervisor.notices():
            self.outcome.notices.append(notice)
            self._recorder.write(schemas.LOG, t_s, schemas.encode({"t_s": t_s, "line": notice.text}))

    def request(self, t_s: float, event: Event, posture: Posture | None = None) -> Transition:
        """A person's request; raises SafetyError with the reason when it is refused, and nothing has changed then."""
        fields: dict[str, Any] = {"t_s": t_s, "request": event.value}
        if posture is not None:
            fields["posture"] = posture_fields(posture)
        self._recorder.write(schemas.REQUEST, t_s, schemas.encode(fields))
        if self.governor is None and event in (Event.ARM, Event.GO, Event.TEACH):
            raise SafetyError(f"{event.value}: {self.spec.name} has no actuators")
        if event is Event.GO:
            if posture is None:
                raise SafetyError("go: name a posture")
            self._check_posture(posture)
        self._judged_s = max(self._judged_s, t_s)
        transition = self.supervisor.request(self._judged_s, event)
        if event is Event.GO:
            self.goal = posture
        self._follow(transition)
        return transition

    # --- outputs ----------------------------------------------------------------------------------------------------------

    def capture(self, name: str, wall_ns: int) -> Posture:
        """The posture the arm is in: mean estimate of the last half second, and the pressures that hold it."""
        if self.estimate is None or not self._recent:
            raise SafetyError("there is no pose estimate to record yet")
        if EstimateFlag(self.estimate.flags) & POOR or self.supervisor.conditions & Condition.ESTIMATE_OLD:
            raise SafetyError(f"posture {name} is not recorded: the pose estimate is too poor or too old; see prestress status")
        posture = self._here(name, wall_ns)
        if not (np.isfinite(posture.cable_length_m).all() and np.isfinite(posture.pressure_pa).all()):
            raise SafetyError("the posture cannot be recorded: an actuator board has not reported its pressures")
        return posture

    def _here(self, name: str, wall_ns: int) -> Posture:
        lengths = np.mean([estimate.cable_length_m for estimate in self._recent], axis=0)
        tip = np.mean([estimate.tip_m for estimate in self._recent], axis=0)
        pressure = self.governor.issued if self.governor else None
        if pressure is None:
            pressure = self.measured()
        return Posture(name, frozen(lengths), frozen(pressure), frozen(tip), wall_ns)

    def measured(self) -> Floats:
        """Measured pressures (C,) [Pa] by the newest recorded reports; NaN where a board has not reported."""
        boards = self.spec.actuators.boards if self.spec.actuators else []
        out = np.full(sum(board.channels for board in boards), np.nan)
        for board in boards:
            report = self._reported.get(board.id)
            if report is not None and len(report.measured) == board.channels:
                out[board.first : board.first + board.channels] = report.measured
        return out

    def reports(self) -> Mapping[str, BoardReport]:
        """The newest report of every actuator board."""
        return self._reported

    def record_to(self, recorder: Recorder) -> None:
        """Write everything from now on to another recorder."""
        self._recorder = recorder

    def take_outcome(self) -> Outcome:
        """Transitions and notices since the last call."""
        out, self.outcome = self.outcome, Outcome()
        return out

    # --- inside -----------------------------------------------------------------------------------------------------------

    def _tick(self, loop: str, t_s: float, skipped: int, **more: Any) -> None:
        self._recorder.write(schemas.TICK, t_s, schemas.encode({"t_s": t_s, "loop": loop, "skipped": skipped, **more}))

    def _take_reports(self) -> None:
        for report in self._sink.reports():
            if self._reported.get(report.board) is not report:
                self._reported[report.board] = report
                self.supervisor.heed_epoch(report.epoch)
                self._recorder.write(schemas.REPORT, report.t_s, schemas.report(report))

    def _wanted(self, t_s: float) -> Setpoints | None:
        estimate, measured = self.estimate, self.measured()
        if estimate is None or self.controller is None or self._teacher is None:
            return None
        state = self.supervisor.state
        try:
            if state is State.TEACHING:
                return self._teacher.update(t_s, estimate, measured)
            if state is State.ACTIVE and self.goal is not None:
                return self.controller.update(estimate, measured, self.goal)
        except NotANumberError:
            self.not_finite += 1  # the governor repeats the last good command; the monitor sees the estimate itself
        return None

    def _follow(self, transition: Transition) -> None:
        self.outcome.transitions.append(transition)
        fields = {
            "t_s": transition.t_s,
            "state": transition.target.value,
            "previous": transition.source.value,
            "line": transition.text,
        }
        self._recorder.write(schemas.TRANSITION, transition.t_s, schemas.encode(fields))
        if self.governor is None or self.controller is None or self._teacher is None:
            return
        source, target = transition.source, transition.target
        if target is State.ARMING:
            self.governor.arm(transition.epoch, self.measured())
            self._armed_s = transition.t_s
        elif target in (State.SAFE, State.FAULT):
            self.goal = None
            self.governor.stop()
        elif target is State.DISARMED:
            self.goal = None
            self.governor.disarm()
        elif target is State.TEACHING:
            self._teacher.start(self._held())
        elif target is State.ACTIVE and source is not State.ACTIVE:
            self.controller.reset(self._held())
            if source is State.ARMING:
                self.goal = self._here("here", 0)

    def _held(self) -> Floats:
        """What the valves were last told (C,) [Pa], or what they measure."""
        issued = self.governor.issued if self.governor else None
        return self.measured() if issued is None else issued

    def _check_posture(self, posture: Posture) -> None:
        cables, channels = self.spec.structure.cable_count, len(self.spec.structure.cylinders)
        if posture.cable_length_m.shape != (cables,) or posture.pressure_pa.shape != (channels,):
            raise SafetyError(f"go: posture {posture.name!r} does not fit this robot ({cables} cables, {channels} valves)")
        if not (np.isfinite(posture.cable_length_m).all() and np.isfinite(posture.pressure_pa).all()):
            raise SafetyError(f"go: posture {posture.name!r} holds a value that is not a number")


def posture_fields(posture: Posture) -> dict[str, Any]:
    """A posture as JSON fields."""
    return {
        "name": posture.name,
        "cable_length_m": posture.cable_length_m.tolist(),
        "pressure_pa": posture.pressure_pa.tolist(),
        "tip_m": posture.tip_m.tolist(),
        "taught_wall_ns": posture.taught_wall_ns,
    }


def posture_from(fields: Mapping[str, Any]) -> Posture:
    """The inverse of `posture_fields`."""
    return Posture(
        str(fields["name"]),
        frozen(fields["cable_length_m"]),
        frozen(fields["pressure_pa"]),
        frozen(fields["tip_m"]),
        int(fields["taught_wall_ns"]),
    )
