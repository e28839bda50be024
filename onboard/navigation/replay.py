"""One idea: a rolling robot's recording through a fresh heart: poses, reports, decisions, requests and ticks in; the same out."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onboard.errors import RecordingError, SafetyError
from onboard.messages import Plan, frozen
from onboard.navigation.core import NavigationCore
from onboard.navigation.mission import mission_from, recovery_of
from onboard.planning.navigator import Decision, GaitOrder
from onboard.runtime.parts import LoopTotals
from onboard.runtime.replay import Outputs, ReplayResult, ReplaySink, epoch_start, run_through
from onboard.safety.table import Event
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording
from onboard.three_bar_robot import CABLES, CAPS, ThreeBar, read_robot

OUTPUTS = (schemas.COMMAND, schemas.TRANSITION, schemas.STATE)


def recorded_robot(recording: Recording) -> ThreeBar:
    """The robot's file as it was. Raises RecordingError, or ConfigError for a file of another kind."""
    text = recording.metadata.get("robot_toml", "")
    try:
        raw = tomllib.loads(text)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the robot's file in it is damaged: {error}") from error
    return read_robot(Path(f"{recording.path} (robot's file)"), raw)


class _Feeder:
    """Gives recorded inputs to a heart that is made when the mission comes."""

    def __init__(self, spec: ThreeBar, outputs: Outputs, epoch_start: int) -> None:
        self.spec, self.outputs, self.epoch_start = spec, outputs, epoch_start
        self.sink = ReplaySink()
        self.core: NavigationCore | None = None

    def feed(self, topic: str, fields: dict[str, Any]) -> None:
        if topic == schemas.MISSION:
            data = mission_from(fields["data"])
            world = np.array(data.world)
            self.core = NavigationCore(
                self.spec, data.settings, world, self.sink, self.outputs, self.epoch_start, recovery_of(data)
            )
            return
        if topic not in (schemas.POSE, schemas.DECISION, schemas.REPORT, schemas.REQUEST, schemas.TICK):
            return
        if self.core is None:
            raise RecordingError("the recording does not begin with its mission: a daemon before this version wrote it")
        try:
            self._input(self.core, topic, fields)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(f"a message on {topic} cannot be used: {error}") from error

    def _input(self, core: NavigationCore, topic: str, fields: dict[str, Any]) -> None:
        t_s = fields["t_s"]
        if topic == schemas.POSE:
            core.pose(t_s, np.array(fields["caps"], dtype=float).reshape(CAPS, 3), fields["received_s"])
        elif topic == schemas.DECISION:
            core.decision(t_s, decision_from(fields))
        elif topic == schemas.REPORT:
            self.sink.put(schemas.report_from(fields))
        elif topic == schemas.REQUEST:
            goal = np.array(fields["goal"], dtype=float) if "goal" in fields else None
            try:
                core.request(t_s, Event(fields["request"]), goal)
            except SafetyError:
                return  # it was refused then as well
        elif fields["loop"] == "control":
            core.control_tick(t_s, fields["skipped"])
        elif fields["loop"] == "supervisor":
            totals = LoopTotals(fields["ticks"], fields["overruns"], fields["link_down"], fields["recorder_failed"])
            core.supervisor_tick(t_s, totals)


def decision_from(fields: dict[str, Any]) -> Decision:
    """A recorded decision, exact to the bit. Raises ValueError for another shape."""
    if fields["kind"] == "plan":
        value = frozen(np.array(fields["value"], dtype=float).reshape(-1, CABLES))
        cost = math.nan if fields["cost"] is None else float(fields["cost"])
        return Plan(fields["start_s"], fields["dt_s"], value, fields["expires_s"], fields["estimate_t_s"], cost)
    steps = tuple(tuple(float(v) for v in step) for step in fields["steps"])
    return GaitOrder(fields["kind"], steps, float(fields["min_u"]), np.array(fields["range_u"], dtype=float), fields["start_s"])


def replay(recording: Recording, spec: ThreeBar, on_message: Callable[[str, dict[str, Any]], None]) -> ReplayResult:
    """Replay all of `recording` on `spec`; `on_message` sees every recorded message after it has been fed or compared."""
    outputs = Outputs(OUTPUTS)
    feeder = _Feeder(spec, outputs, epoch_start(recording))
    return run_through(recording, outputs, feeder.feed, on_message)
