"""The host's view of one actuator board: greeting, identity, configuration, clock, commands out, reports in."""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from onboard.clock import Clock
from onboard.errors import NotANumberError, WireError
from onboard.link.board_json import (
    ActuatorChannel,
    ActuatorConfig,
    Birth,
    decode_birth,
    decode_config_ack,
    decode_health,
    encode_config,
)
from onboard.link.board_time import BoardTime
from onboard.link.serial_frame import SerialFrame
from onboard.link.serial_line import SerialLine
from onboard.link.wire import (
    decode_sync_response,
    decode_telemetry,
    encode_command,
    encode_sync_request,
    to_counts,
)
from onboard.link.wire_types import BoardKind, BoardState, ChannelType, MessageType, TelemetryFrame
from onboard.messages import BoardReport, Floats, frozen
from onboard.robot import ActuatorBoard, Valves

RETRY_S = 0.25  # opening a port that is not there
GREET_S = 0.5  # asking a silent board who it is
CONFIGURE_S = 1.0  # repeating a configuration that is not acknowledged
FIRMWARE = (0, 1)  # oldest firmware that this host works with
KINDS = {"valve": BoardKind.VALVE}

Tap = Callable[[str, str, int, bytes, float], None]


def actuator_config(valves: Valves, channels: int, unit_pa: float) -> ActuatorConfig:
    """What a board must keep to by itself, in its own counts. The generation is a digest of the rest, never 0."""
    count = [round(value / unit_pa) for value in (valves.safe_pressure_pa, valves.min_pressure_pa, valves.max_pressure_pa)]
    limit = ActuatorChannel(count[0], count[1], count[2], max(1, round(valves.max_slew_pa_per_s / unit_pa)))
    config = ActuatorConfig(
        generation=1,
        deadline_ms=valves.deadline_ms,
        channels=[limit] * channels,
        follow_tolerance=round(valves.max_tracking_error_pa / unit_pa),
        follow_ms=valves.tracking_timeout_ms,
    )
    digest = binascii.crc_hqx(encode_config(config), 0xFFFF) or 1
    return msgspec.structs.replace(config, generation=digest)


class SerialBoard:
    """One board at one port. `poll` does what is due; commands go out only to a board that is `ready`.

    problem: what keeps it from being ready, for people; empty when nothing does. counts: refusals and losses seen from here.
    """

    def __init__(self, board: ActuatorBoard, path: str, valves: Valves, clock: Clock, tap: Tap | None) -> None:
        self.board = board
        self.line = SerialLine(path, clock, self._frame, self._lost)
        self.problem = "not opened yet"
        self.report: BoardReport | None = None
        self.birth: Birth | None = None
        self.time = BoardTime()
        self.counts: Counter[str] = Counter()
        self.opened = 0
        self._valves, self._clock, self._tap = valves, clock, tap
        self._config: ActuatorConfig | None = None
        self._acknowledged = False
        self._state: TelemetryFrame | None = None
        self._refused: dict[str, int] = {}
        self._sequence = 0
        self._retry_s = self._greet_s = self._configure_s = -np.inf

    @property
    def ready(self) -> bool:
        """Right board, configured, clock known, reporting: it may be armed and commanded."""
        return self.birth is not None and self._acknowledged and self.time.synchronised and self._state is not None

    def poll(self, now_s: float) -> None:
        """Open, greet, configure: whatever is due at `now_s`."""
        if not self.line.is_open:
            if now_s - self._retry_s < RETRY_S:
                return
            self._retry_s = now_s
            problem = self.line.open()
            if problem:
                self.problem = problem
                return
            self.opened += 1
            self._greet_s = -np.inf
            self.problem = "says nothing yet"
        self.line.check(now_s)
        if self.birth is None and now_s - self._greet_s >= GREET_S:
            self._greet_s = now_s
            self._send(MessageType.HELLO, b"", "hello")
        if self._config is not None and not self._acknowledged and now_s - self._configure_s >= CONFIGURE_S:
            self._configure_s = now_s
            self._send(MessageType.CONFIG, encode_config(self._config), "config")

    def ask_clock(self, now_s: float) -> None:
        """Send a clock request, if anybody is there to answer."""
        if self.birth is not None:
            self._send(MessageType.SYNC_REQUEST, encode_sync_request(round(now_s * 1e9)), "sync")

    def arm(self, epoch: int, now_s: float) -> bool:
        """Disarm (which ends a latch), then arm under `epoch`, unless that is done; False when the board is not ready."""
        if not self.ready:
            self.counts["not_ready"] += 1
            return False
        assert self._state is not None
        if self._state.state is BoardState.ACTIVE and self._state.epoch == epoch:
            return True
        if self._state.state is not BoardState.DISARMED:
            self.disarm(now_s)
        return self._order(MessageType.ARM, epoch, now_s)

    def disarm(self, now_s: float) -> bool:
        """Disarm under the board's own epoch; False when the board is not ready."""
        if not self.ready or self._state is None:
            self.counts["not_ready"] += 1
            return False
        return self._order(MessageType.DISARM, self._state.epoch, now_s)

    def stop(self) -> bool:
        """Safe state, now: ahead of everything, whatever the board's state; False when there is no line."""
        boot_id = 0 if self.birth is None else self.birth.boot_id
        body = encode_command(boot_id, 0, 0, 0, 0)
        self._tell_tap("out", MessageType.STOP, body)
        return self.line.send_first(MessageType.STOP, body)

    def command(self, epoch: int, issued_s: float, ttl_ms: int, value_pa: Floats) -> bool:
        """Send set-points (channels,) [Pa] decided at `issued_s`; False and counted when the board is not ready."""
        if not self.ready or self.birth is None:
            self.counts["not_ready"] += 1
            return False
        self._sequence += 1
        counts = to_counts(value_pa, self.birth.unit_pa)
        ticks = self.time.sync.to_ticks(issued_s)
        body = encode_command(self.birth.boot_id, epoch, self._sequence, ticks, ttl_ms, counts)
        return self._send(MessageType.COMMAND, body, "command")

    def _order(self, kind: MessageType, epoch: int, now_s: float) -> bool:
        assert self.birth is not None
        self._sequence += 1
        ticks = self.time.sync.to_ticks(now_s)
        return self._send(kind, encode_command(self.birth.boot_id, epoch, self._sequence, ticks, self._valves.command_ttl_ms))

    def _send(self, kind: MessageType, payload: bytes, only: str = "") -> bool:
        self._tell_tap("out", kind, payload)
        return self.line.send(kind, payload, only)

    def _tell_tap(self, direction: str, kind: int, payload: bytes) -> None:
        if self._tap is not None:
            self._tap(self.board.id, direction, kind, payload, self._clock.now_s())

    def _lost(self, reason: str) -> None:
        self.counts["lost_line"] += 1
        self._forget(reason)

    def _forget(self, problem: str) -> None:
        self.problem = problem
        self.birth = self._config = self._state = None
        self._acknowledged = False
        self._greet_s = -np.inf
        self.time.restart()
        if self.report is not None:  # until a new one comes, nobody shall arm on the word of the old
            self.report = replace(self.report, ready=False)

    def _frame(self, frame: SerialFrame, received_s: float) -> None:
        if self._tap is not None:
            self._tap(self.board.id, "in", frame.kind, frame.payload, received_s)
        try:
            self._take(frame.kind, frame.payload, received_s)
        except (WireError, NotANumberError) as error:
            self.counts["malformed"] += 1
            self.problem = str(error)

    def _take(self, kind: int, payload: bytes, received_s: float) -> None:
        if kind == MessageType.TELEMETRY:
            self._telemetry(decode_telemetry(payload), received_s)
        elif kind == MessageType.BIRTH:
            self._born(decode_birth(payload))
        elif kind == MessageType.SYNC_RESPONSE:
            response = decode_sync_response(payload)
            if self.birth is None or response.boot_id != self.birth.boot_id:
                self.counts["other_boot"] += 1
            elif not self.time.sync.add(response, received_s):
                self.counts["slow_sync"] += 1
        elif kind == MessageType.CONFIG_ACK:
            self._configured(payload)
        elif kind == MessageType.HEALTH:
            self._refused = dict(decode_health(payload).refused)
        elif kind != MessageType.LOG:
            self.counts["unknown_type"] += 1

    def _born(self, birth: Birth) -> None:
        problem = self._unfit(birth)
        if problem:
            self._forget(problem)
            self._greet_s = self._clock.now_s()
            self.counts["unfit"] += 1
            return
        if self.birth is None or birth.boot_id != self.birth.boot_id:
            self._forget("")
            self._sequence = 0
        self.birth = birth
        if self._config is None:
            self._config = actuator_config(self._valves, self.board.channels, birth.unit_pa)
            self._configure_s = -np.inf
            self.problem = "not configured yet"

    def _unfit(self, birth: Birth) -> str:
        """Why this is not the board that belongs here, or an empty string."""
        if birth.name != self.board.id:
            return f"{self.line.path} leads to a board named {birth.name!a}, not to {self.board.id}: are two cables swapped?"
        if birth.app != self._valves.type:
            return f"{birth.name} runs {birth.app!a} firmware, not that of a {self._valves.type} board"
        if birth.channels != self.board.channels:
            return f"{birth.name} has {birth.channels} channels, the robot's file says {self.board.channels}"
        try:
            version = tuple(int(part) for part in birth.firmware.split(".")[:2])
        except ValueError:
            version = ()
        if version < FIRMWARE:
            return f"{birth.name} has firmware {birth.firmware!a}; at least {FIRMWARE[0]}.{FIRMWARE[1]} is needed: flash it anew"
        if not 0.0 < birth.unit_pa <= 1e4 or birth.full_scale * birth.unit_pa < self._valves.max_pressure_pa:
            return f"{birth.name} makes {birth.full_scale} counts of {birth.unit_pa:g} Pa: not enough for the robot's maximum"
        return ""

    def _configured(self, payload: bytes) -> None:
        ack = decode_config_ack(payload)
        if self._config is None or self.birth is None or ack.boot_id != self.birth.boot_id:
            self.counts["other_boot"] += 1
        elif ack.ok and ack.generation == self._config.generation:
            self._acknowledged, self.problem = True, ""
        else:
            self.problem = f"{self.board.id} refuses its configuration: {ack.error or 'another generation'}"

    def _telemetry(self, frame: TelemetryFrame, received_s: float) -> None:
        if self.birth is None or frame.boot_id != self.birth.boot_id:
            self.counts["other_boot"] += 1
            if self.birth is not None:  # rebooted, and its birth was lost on the line
                self._forget("booted anew")
            return
        pressures = frame.values(ChannelType.PRESSURE)
        if frame.kind is not KINDS[self._valves.type] or len(pressures) != self.board.channels:
            raise WireError(f"{self.board.id}: telemetry of a {frame.kind.name} board with {len(pressures)} pressures")
        if self._acknowledged and self._config and frame.config_generation != self._config.generation & 0xFF:
            self._acknowledged, self.problem = False, "lost its configuration"
        ticks = self.time.sync.unwrap(frame.ticks_us, received_s)
        self._state = frame
        self._sequence = max(self._sequence, frame.last_command_sequence)
        self.report = BoardReport(
            board=self.board.id,
            t_s=min(self.time.host_s(ticks, received_s), received_s),
            boot_id=frame.boot_id,
            epoch=frame.epoch,
            armed=frame.state is BoardState.ACTIVE,
            latched=frame.state is BoardState.LATCHED,
            stop_input=bool(frame.faults & 2),
            fault=int(frame.faults),
            last_sequence=frame.last_command_sequence,
            measured=frozen(pressures * self.birth.unit_pa),
            refused=self._refused,
            ready=self.ready,
        )
