"""The host's view of one motor board: configuration of its boot, counts to rest lengths, orders and commands as bytes."""

from __future__ import annotations

import binascii
from collections import Counter
from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from onboard.errors import WireError
from onboard.link.board_json import ActuatorChannel, Birth, ConfigAck
from onboard.link.board_time import BoardTime
from onboard.link.motor_spec import COUNTS_LIMIT, FULL_SCALE, MotorRobot
from onboard.link.wire import encode_command, to_counts
from onboard.link.wire_types import BoardKind, BoardState, ChannelType, TelemetryFrame
from onboard.messages import BoardReport, Floats, frozen

CONFIGURE_S = 0.5  # repeating a configuration that is not acknowledged
END_COUNTS = 3
BOOTS = 8  # whose counts are remembered
SEQUENCE_HALF = 1 << 31
SEQUENCE_MASK = (1 << 32) - 1


class MotorConfig(msgspec.Struct, frozen=True):
    """What a motor board is told after each boot (`motor/cfg`). travel: least and greatest count of every motor."""

    generation: Annotated[int, Meta(ge=1, le=65535)]
    boot_id: int
    deadline_ms: int
    channels: list[ActuatorChannel]
    travel: list[tuple[int, int]]
    full_counts_s: int
    full_duty: int  # thousandths
    current_ma: int
    overcurrent_ms: int
    stall_ms: int


def motor_config(robot: MotorRobot, boot_id: int, zero_u: Floats) -> MotorConfig:
    """The configuration for a boot whose count 0 is the rest length zero_u (n,). The generation is a digest, never 0."""
    motors, law, unit = robot.motors, robot.law, robot.rest_u_per_count
    limit = ActuatorChannel(0, -FULL_SCALE, FULL_SCALE, max(1, round(motors.max_slew_per_s * FULL_SCALE)))

    def inside(wound_u: float, towards_zero: int) -> int:
        """Counts at an end of the travel, a little short of it: a count that is never reached would end in a stall."""
        return int(np.clip(round(wound_u / unit) + towards_zero * END_COUNTS, -COUNTS_LIMIT, COUNTS_LIMIT))

    config = MotorConfig(
        generation=1,
        boot_id=boot_id,
        deadline_ms=motors.deadline_ms,
        channels=[limit] * len(zero_u),
        travel=[(inside(zero - law.rest_max_u, 1), inside(zero - law.rest_min_u, -1)) for zero in zero_u.tolist()],
        full_counts_s=robot.full_counts_s,
        full_duty=round(motors.duty_at_full * 1000),
        current_ma=round(motors.current_limit_a * 1000),
        overcurrent_ms=motors.overcurrent_ms,
        stall_ms=motors.stall_ms,
    )
    digest = binascii.crc_hqx(msgspec.json.encode(config), 0xFFFF)
    return msgspec.structs.replace(config, generation=digest if digest & 0xFF else digest | 1)


class MotorStream:
    """One board. Commands go out only while it is `ready`. problem: what keeps it from that, for people.

    rest_u, speed_rad_s, current_a (n,): newest readings, NaN before the first. heard_s: host time of the newest telemetry.
    """

    def __init__(self, robot: MotorRobot, index: int, time: BoardTime) -> None:
        self.entry = robot.motors.boards[index]
        self.time = time
        self.problem = "not heard yet"
        self.report: BoardReport | None = None
        self.counts: Counter[str] = Counter()
        self.heard_s = -np.inf
        n = len(self.entry.motors)
        self.rest_u, self.speed_rad_s, self.current_a = (np.full(n, np.nan) for _ in range(3))
        self._robot = robot
        self._zero_u = np.full(n, robot.law.rest_start_u)  # rest length at count 0 of the present boot
        self._zeros: dict[int, Floats] = {}  # the same of the newest boots: a boot id that comes back counts on from its own
        self._birth: Birth | None = None
        self._config: MotorConfig | None = None
        self._acknowledged = False
        self._state: TelemetryFrame | None = None
        self._sequence = 0
        self._configure_s = -np.inf
        self._refused: dict[str, int] = {}

    @property
    def ready(self) -> bool:
        """The right board, configured, clock known, reporting: it may be armed and commanded."""
        return self._birth is not None and self._acknowledged and self.time.synchronised and self._state is not None

    def born(self, birth: Birth) -> None:
        """A birth or last will on its topics. A new boot is disarmed and counts from 0; its cables are where they were."""
        if not birth.online:
            if self._birth is not None and birth.boot_id == self._birth.boot_id:
                self._forget("offline")
            return
        problem = self._unfit(birth)
        if problem:
            self._forget(problem)
            self.counts["unfit"] += 1
            return
        if self._config is None or birth.boot_id != self._config.boot_id:
            if birth.boot_id in self._zeros:
                self._zero_u = self._zeros[birth.boot_id]
            elif not np.isnan(self.rest_u).any():
                self._zero_u = self.rest_u.copy()  # shorted motors hold their spools
            self._zeros[birth.boot_id] = self._zero_u
            if len(self._zeros) > BOOTS:
                del self._zeros[next(iter(self._zeros))]
            self._forget("not configured yet")
            self._config = motor_config(self._robot, birth.boot_id, self._zero_u)
            self._sequence = 0
        self._birth = birth

    def _unfit(self, birth: Birth) -> str:
        if birth.name != self.entry.id:
            return f"a board that calls itself {birth.name!a} writes on the topics of {self.entry.id}"
        if birth.app != "motor":
            return f"{birth.name} runs {birth.app!a} firmware, not that of a motor board"
        if birth.channels != len(self.entry.motors):
            return f"{birth.name} has {birth.channels} motors, the robot's file says {len(self.entry.motors)}"
        if birth.full_scale != FULL_SCALE:
            return f"{birth.name} takes {birth.full_scale} for full speed, not {FULL_SCALE}: flash it anew"
        return ""

    def configuration(self, now_s: float) -> bytes | None:
        """What to publish on `motor/cfg` at `now_s`, None when nothing is due."""
        if self._birth is None or self._config is None or self._acknowledged or now_s - self._configure_s < CONFIGURE_S:
            return None
        self._configure_s = now_s
        return msgspec.json.encode(self._config)

    def configured(self, ack: ConfigAck) -> None:
        """The board's answer to its configuration."""
        if self._config is None or ack.boot_id != self._config.boot_id:
            self.counts["other_boot"] += 1
        elif ack.ok and ack.generation == self._config.generation:
            self._acknowledged, self.problem = True, ""
        else:
            self.problem = f"{self.entry.id} refuses its configuration: {ack.error or 'another generation'}"

    def refusals(self, refused: dict[str, int]) -> None:
        """Refusals by name, from the board's health."""
        self._refused = refused

    def telemetry(self, frame: TelemetryFrame, received_s: float) -> None:
        """Take telemetry of the present boot; WireError for another kind of board."""
        if self._birth is None or frame.boot_id != self._birth.boot_id:
            self.counts["other_boot"] += 1
            if self._birth is not None and not self.ready:
                self.problem = f"{self.entry.id}: telemetry and birth come from two boots: a second board of that name?"
            return
        last = self._state
        if last is not None and ((frame.sequence - last.sequence + SEQUENCE_HALF) & SEQUENCE_MASK) <= SEQUENCE_HALF:
            self.counts["duplicate"] += 1
            return
        n = len(self.entry.motors)
        kinds = (ChannelType.ENCODER, ChannelType.SPEED, ChannelType.CURRENT)
        positions, speeds, currents = (frame.values(kind) for kind in kinds)
        if frame.kind is not BoardKind.MOTOR or not len(positions) == len(speeds) == len(currents) == n:
            raise WireError(f"{self.entry.id}: telemetry of a {frame.kind.name} board with {len(positions)} encoders, not {n}")
        if self._acknowledged and self._config and frame.config_generation != self._config.generation & 0xFF:
            self._acknowledged, self.problem = False, "lost its configuration"
        self._state = frame
        self._sequence = max(self._sequence, frame.last_command_sequence)
        self.rest_u = self._zero_u - positions * self._robot.rest_u_per_count
        self.speed_rad_s = speeds * self._robot.rad_per_count
        self.current_a = currents / 1000.0
        ticks = self.time.sync.unwrap(frame.ticks_us, received_s)
        t_s = self.time.sync.to_host_s(ticks) if self.time.synchronised else received_s
        self.heard_s = min(t_s, received_s)
        self.report = BoardReport(
            board=self.entry.id,
            t_s=self.heard_s,
            boot_id=frame.boot_id,
            epoch=frame.epoch,
            armed=frame.state is BoardState.ACTIVE,
            latched=frame.state is BoardState.LATCHED,
            stop_input=bool(frame.faults & 2),
            fault=int(frame.faults),
            last_sequence=frame.last_command_sequence,
            measured=frozen(self.rest_u),
            refused=self._refused,
            ready=self.ready,
        )

    def arm(self, epoch: int, now_s: float) -> list[tuple[str, bytes]]:
        """(leaf, payload) of what arms it under `epoch`, a disarm first where that ends a latch; empty when done or not ready."""
        if not self.ready or self._state is None:
            self.counts["not_ready"] += 1
            return []
        if self._state.state is BoardState.ACTIVE and self._state.epoch == epoch:
            return []
        first = [] if self._state.state is BoardState.DISARMED else self.disarm(now_s)
        return [*first, ("arm", self._order(epoch, now_s))]

    def disarm(self, now_s: float) -> list[tuple[str, bytes]]:
        """(leaf, payload) of a disarm under the board's own epoch."""
        if not self.ready or self._state is None:
            self.counts["not_ready"] += 1
            return []
        return [("disarm", self._order(self._state.epoch, now_s))]

    def stop(self) -> bytes:
        """A stop: valid whatever the board's state."""
        return encode_command(0 if self._birth is None else self._birth.boot_id, 0, 0, 0, 0)

    def command(self, epoch: int, issued_s: float, share: Floats) -> bytes | None:
        """A command of shares of full speed (n,), decided at `issued_s`; None and counted while not ready."""
        if not self.ready or self._birth is None:
            self.counts["not_ready"] += 1
            return None
        counts = to_counts(share, 1.0 / FULL_SCALE)
        self._sequence += 1
        ticks = self.time.sync.to_ticks(issued_s)
        return encode_command(self._birth.boot_id, epoch, self._sequence, ticks, self._robot.motors.command_ttl_ms, counts)

    def _order(self, epoch: int, now_s: float) -> bytes:
        assert self._birth is not None
        self._sequence += 1
        ticks = self.time.sync.to_ticks(now_s)
        return encode_command(self._birth.boot_id, epoch, self._sequence, ticks, self._robot.motors.command_ttl_ms)

    def _forget(self, problem: str) -> None:
        self.problem = problem
        self._birth = self._config = self._state = None
        self._acknowledged = False
        self._configure_s = -np.inf
        if self.report is not None:  # until a new one comes, nobody shall arm on the word of the old
            self.report = replace(self.report, ready=False, armed=False)
