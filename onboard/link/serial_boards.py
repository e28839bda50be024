"""All actuator boards of a robot behind one sink: set-points split per board, epochs, stop, reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onboard.clock import Clock, wait_s
from onboard.errors import ConfigError, LinkError
from onboard.link.clock_sync import SyncSchedule
from onboard.link.serial_board import SerialBoard, Tap
from onboard.messages import BoardReport, Setpoints
from onboard.robot import Link, Valves

POLL_S = 0.02
FAST_SYNC_S = 0.05


class ValveRobot(Protocol):
    """What must be known of a robot, whatever its kind."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def actuators(self) -> Valves | None: ...
    @property
    def link(self) -> Link: ...


@dataclass(frozen=True, slots=True)
class BoardLink:
    """State of the line to one board. problem: what a person should know, or empty."""

    board: str
    path: str
    is_open: bool
    ready: bool
    problem: str
    synchronised: bool
    drift_ppm: float
    round_trip_ms: float
    crc_errors: int
    opened: int
    counts: dict[str, int]


class SerialBoards:
    """ports.ActuatorSink over serial lines. ports: board id to device path, for every board of the robot's file.

    Nothing blocks. A command that is not finite, out of the robot file's range, of the wrong shape or too old is not sent to
    any board and counted in `refused`; the boards go to their safe state by themselves when none follows in time.
    tap(board, "in" or "out", message type, payload, t_s) sees every good frame.
    """

    def __init__(self, spec: ValveRobot, clock: Clock, ports: Mapping[str, str], tap: Tap | None = None) -> None:
        if spec.actuators is None:
            raise LinkError(f"{spec.name} has no actuator boards")
        missing = [board.id for board in spec.actuators.boards if not ports.get(board.id)]
        if missing:
            raise ConfigError(spec.file, "actuators.boards", f"no serial port is given for {', '.join(missing)}")
        doubled = [path for path, uses in Counter(ports[board.id] for board in spec.actuators.boards).items() if uses > 1]
        if doubled:
            raise ConfigError(spec.file, "actuators.boards", f"give the serial port {doubled[0]} to two boards")
        self._valves, self._clock = spec.actuators, clock
        self._boards = [SerialBoard(board, ports[board.id], spec.actuators, clock, tap) for board in spec.actuators.boards]
        self._channels = sum(board.channels for board in spec.actuators.boards)
        self._sync_period_s = spec.link.sync_period_ms / 1000.0
        self._schedule = SyncSchedule(len(self._boards), self._sync_period_s)
        self._epoch: int | None = None
        self.refused: Counter[str] = Counter()

    async def run(self) -> None:
        """Keep all lines open, boards configured and clocks known until cancelled; then close the lines."""
        try:
            while True:
                now_s = self._clock.now_s()
                for board in self._boards:
                    board.poll(now_s)
                for index in self._schedule.due(now_s, self._interval_s):
                    self._boards[index].ask_clock(self._clock.now_s())
                await wait_s(POLL_S)
        finally:
            for board in self._boards:
                board.line.close()

    def _interval_s(self, index: int) -> float:
        board = self._boards[index]
        waiting = board.birth is not None and not board.time.synchronised
        return min(FAST_SYNC_S, self._sync_period_s) if waiting else self._sync_period_s

    def arm(self, epoch: int) -> None:
        """Ask every ready board to arm under `epoch`; which did so, their reports say."""
        self._epoch = epoch
        for board in self._boards:
            board.arm(epoch, self._clock.now_s())

    def disarm(self) -> None:
        """Ask every board to disarm; no command is sent before the next arm."""
        self._epoch = None
        for board in self._boards:
            board.disarm(self._clock.now_s())

    def send(self, setpoints: Setpoints) -> None:
        """One command per board; see the class about what is refused."""
        reason = self._unfit(setpoints)
        if reason:
            self.refused[reason] += 1
            return
        assert self._epoch is not None
        for board in self._boards:
            first, channels = board.board.first, board.board.channels
            part = setpoints.value[first : first + channels]
            board.command(self._epoch, setpoints.t_s, self._valves.command_ttl_ms, part)

    def _unfit(self, setpoints: Setpoints) -> str:
        value, age_s = setpoints.value, self._clock.now_s() - setpoints.t_s
        if self._epoch is None:
            return "not_armed"
        if value.shape != (self._channels,):
            return "wrong_shape"
        if not np.isfinite(value).all() or not np.isfinite(age_s):
            return "not_finite"
        if np.any(value < self._valves.min_pressure_pa - 0.5) or np.any(value > self._valves.max_pressure_pa + 0.5):
            return "out_of_range"
        if not -0.005 <= age_s <= self._valves.command_ttl_ms / 1000.0:
            return "expired"
        return ""

    def stop(self) -> None:
        """Every board to its safe state, now, ahead of whatever is queued; no command is sent before the next arm."""
        self._epoch = None
        for board in self._boards:
            board.stop()

    def reports(self) -> list[BoardReport]:
        """The newest report of every board that has ever reported; the same object until a newer one comes."""
        return [board.report for board in self._boards if board.report is not None]

    def links(self) -> list[BoardLink]:
        """State of every line, in the order of the robot's file."""
        return [
            BoardLink(
                board.board.id,
                board.line.path,
                board.line.is_open,
                board.ready,
                board.problem,
                board.time.synchronised,
                board.time.sync.drift_ppm,
                board.time.sync.round_trip_s * 1e3,
                board.line.reader.crc_errors,
                board.opened,
                {**board.counts, "dropped": board.line.dropped, "replaced": board.line.replaced},
            )
            for board in self._boards
        ]
