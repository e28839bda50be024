"""Feeds a recording's inputs through a fresh core in the order they came, and compares what comes out with what was recorded."""

from __future__ import annotations

import tomllib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from onboard.calibration.file import decode
from onboard.errors import RecordingError, SafetyError
from onboard.messages import BoardReport, Setpoints
from onboard.robot import RobotSpec, build_spec
from onboard.runtime.core import Core, posture_from
from onboard.runtime.parts import LoopTotals
from onboard.safety.table import Event
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording

OUTPUTS = (schemas.ESTIMATE, schemas.COMMAND, schemas.TRANSITION)


class ReplaySink:
    """Stands where the boards were: gives the recorded reports, moves nothing."""

    def __init__(self) -> None:
        self._reports: dict[str, BoardReport] = {}

    def put(self, report: BoardReport) -> None:
        """The next report of a board."""
        self._reports[report.board] = report

    def reports(self) -> Sequence[BoardReport]:
        """The newest recorded report of every board."""
        return list(self._reports.values())

    def arm(self, epoch: int) -> None:
        """Nothing to arm."""

    def disarm(self) -> None:
        """Nothing to disarm."""

    def send(self, setpoints: Setpoints) -> None:
        """Nothing to move."""

    def stop(self) -> None:
        """Nothing to stop."""


class Outputs:
    """Takes what the replayed core writes, to be compared with what the file says."""

    def __init__(self, topics: Sequence[str] = OUTPUTS) -> None:
        self.waiting: dict[str, deque[dict[str, Any]]] = {topic: deque() for topic in topics}

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        if topic in self.waiting:
            self.waiting[topic].append(schemas.decode(payload))


@dataclass(slots=True)
class ReplayResult:
    """How a replay went: per topic the number of compared and of differing messages, and the first difference in words."""

    compared: dict[str, int] = field(default_factory=dict)
    different: dict[str, int] = field(default_factory=dict)
    first_difference: str | None = None
    truncated: str | None = None
    messages: int = 0

    @property
    def identical(self) -> bool:
        """True when something was compared and nothing differed."""
        return self.first_difference is None and sum(self.compared.values()) > 0


def recorded_spec(recording: Recording) -> RobotSpec:
    """The robot's file as it was when the recording was made."""
    text = recording.metadata.get("robot_toml")
    if text is None:
        raise RecordingError(f"{recording.path}: does not hold the robot's file")
    try:
        raw = tomllib.loads(text)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the robot's file in it is damaged: {error}") from error
    spec = build_spec(f"{recording.path} (robot's file)", raw)
    calibration = recording.metadata.get("calibration")
    if calibration is None:
        return spec
    found = decode(f"{recording.path} (calibration)", calibration.encode(), spec)
    return msgspec.structs.replace(spec, calibration=found)


def replay(
    recording: Recording, spec: RobotSpec, on_message: Callable[[str, dict[str, Any]], None] = lambda topic, fields: None
) -> ReplayResult:
    """Replay all of `recording` on `spec`; `on_message` sees every recorded message after it has been fed or compared."""
    sink, outputs = ReplaySink(), Outputs()
    core = Core(spec, sink, outputs, epoch_start(recording))
    return run_through(recording, outputs, lambda topic, fields: _feed(core, sink, topic, fields), on_message)


def epoch_start(recording: Recording) -> int:
    """Where numbering of arm epochs began; raises RecordingError for a recording that cannot be replayed from here."""
    if recording.part:
        raise RecordingError(
            f"{recording.path}: is part {recording.part} of a recording: only from its beginning can it be replayed"
        )
    try:
        return int(recording.metadata.get("epoch_start", "0"))
    except ValueError as error:
        raise RecordingError(f"{recording.path}: its epoch_start is no number") from error


def run_through(
    recording: Recording,
    outputs: Outputs,
    feed: Callable[[str, dict[str, Any]], None],
    on_message: Callable[[str, dict[str, Any]], None],
) -> ReplayResult:
    """Give every input to `feed` in order; compare what it makes of them, in `outputs`, with what was recorded."""
    result = ReplayResult(dict.fromkeys(outputs.waiting, 0), dict.fromkeys(outputs.waiting, 0))
    for topic, fields in recording:
        result.messages += 1
        if topic in outputs.waiting:
            _compare(topic, fields, outputs.waiting[topic], result)
        else:
            feed(topic, fields)
        on_message(topic, fields)
    result.truncated = recording.truncated
    for topic, waiting in outputs.waiting.items():
        if waiting and recording.truncated is None:
            _differ(result, topic, f"{len(waiting)} more than recorded")
    return result


def _feed(core: Core, sink: ReplaySink, topic: str, fields: dict[str, Any]) -> None:
    if topic == schemas.PACKET:
        core.packet(fields["strut"], fields["kind"], schemas.packet_payload(fields), fields["t_s"])
    elif topic == schemas.REPORT:
        sink.put(schemas.report_from(fields))
    elif topic == schemas.REQUEST:
        posture = posture_from(fields["posture"]) if "posture" in fields else None
        try:
            core.request(fields["t_s"], Event(fields["request"]), posture)
        except ValueError as error:
            raise RecordingError(f"a recorded request is none that prestress knows: {error}") from error
        except SafetyError:
            return  # it was refused then as well
    elif topic == schemas.TICK:
        _tick(core, fields)


def _tick(core: Core, fields: dict[str, Any]) -> None:
    t_s, loop = fields["t_s"], fields["loop"]
    if loop == "estimator":
        core.estimator_tick(t_s, fields["skipped"])
    elif loop == "control":
        core.control_tick(t_s, fields["skipped"])
    elif loop == "supervisor":
        totals = LoopTotals(fields["ticks"], fields["overruns"], fields["link_down"], fields["recorder_failed"])
        core.supervisor_tick(t_s, totals)


def _compare(topic: str, recorded: dict[str, Any], waiting: deque[dict[str, Any]], result: ReplayResult) -> None:
    result.compared[topic] += 1
    if not waiting:
        _differ(result, topic, f"at {recorded['t_s']:.4f} s: recorded, but the replay gave none")
        return
    computed = waiting.popleft()
    if computed != recorded:
        keys = [key for key in recorded if recorded.get(key) != computed.get(key)]
        _differ(result, topic, f"at {recorded['t_s']:.4f} s: {', '.join(keys)} differ")


def _differ(result: ReplayResult, topic: str, words: str) -> None:
    result.different[topic] += 1
    if result.first_difference is None:
        result.first_difference = f"{topic} {words}"
