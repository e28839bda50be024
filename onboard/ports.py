"""Protocols between the parts: what a sensor source, an estimator, a controller, a planner and a recorder promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onboard.messages import BoardReport, Floats, ImuBatch, Plan, PoseEstimate, Posture, Setpoints, StrutObservations


class OrientationSource(Protocol):
    """Fuses IMU batches into strut directions."""

    def add(self, batch: ImuBatch) -> None:
        """Take new samples of one strut; late, duplicate or non-finite samples are refused and counted."""

    def align_at_rest(self, t_s: float) -> bool:
        """Set headings against the rest pose if every strut lies as there and still; for a robot that stands disarmed."""

    def observe(self, t_s: float) -> StrutObservations:
        """Directions of all struts as of the tick at `t_s`."""


class Estimator(Protocol):
    """Turns strut observations into disc poses, one call per tick."""

    def update(self, observations: StrutObservations) -> PoseEstimate:
        """The estimate at `observations.t_s`; raises EstimationError only when no strut was ever seen."""

    def reset(self) -> None:
        """Back to the rest pose, as at start-up."""


class Controller(Protocol):
    """Turns an estimate and a goal into set-points for every actuator."""

    def update(self, estimate: PoseEstimate, measured: Floats, goal: Posture) -> Setpoints:
        """Set-points at `estimate.t_s`; `measured` (C,): the actuators' own readings; `goal`: lengths and pressures wanted."""

    def reset(self, measured: Floats) -> None:
        """Forget integrals and start without a jump from the `measured` actuator values (C,)."""


class ActuatorSink(Protocol):
    """The far side of the governor: sends set-points to boards. Only safety/governor.py may hold one."""

    def arm(self, epoch: int) -> None:
        """Ask every board to arm (or re-arm) under `epoch`, which all later commands carry; never blocks."""

    def disarm(self) -> None:
        """Ask every board to disarm; never blocks."""

    def send(self, setpoints: Setpoints) -> None:
        """Queue one command per board under the epoch of the last `arm`; never blocks."""

    def stop(self) -> None:
        """Ask every board for its safe state, now, whatever else is queued."""

    def reports(self) -> Sequence[BoardReport]:
        """The newest report of every board."""


class Dynamics(Protocol):
    """A batched model for planners."""

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        """states [M, T', nx] from state [nx], controls [M, T, nu] and world [K, P] (padded with a mask column)."""


class Planner(Protocol):
    """Plans ahead; asking for a plan and playing it are two calls."""

    def plan(self, estimate: PoseEstimate, goal: Floats, deadline_s: float) -> Plan:
        """A plan that starts after `estimate.t_s`; raises PlanningError when there is none."""


class Recorder(Protocol):
    """Takes bytes for a channel; never raises into the control loop."""

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        """Record `payload` under `topic` at monotonic time `t_s`."""
