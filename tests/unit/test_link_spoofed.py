"""A birth under another valid boot id, sent by a stranger, is told; no command follows it, and the real board is found again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onboard.clock import SimulatedClock
from onboard.link.serial_board import SerialBoard
from onboard.link.serial_frame import SerialFrame
from onboard.link.wire import encode_sync_response, encode_telemetry
from onboard.link.wire_types import (
    BoardFault,
    BoardKind,
    BoardState,
    ChannelType,
    LatchCause,
    MessageType,
    Refusal,
    SyncResponse,
    TelemetryFrame,
)
from onboard.messages import Setpoints
from onboard.resources import robot_file
from onboard.robot import load_robot
from tests.link_support import birth
from tests.unit.decode_support import feed, started
from tests.unit.test_motor_stream import Boards

REAL, STRANGER, EPOCH = 7, 99, 4
SPEC = load_robot(robot_file("manipulator"))


def test_a_struts_data_come_back_when_a_birth_that_nothing_follows_has_cut_them_off() -> None:
    decoder, board = started(boot_id=REAL)
    assert feed(decoder, board, 12.0) is not None
    decoder.packet(0, "state", birth(boot_id=STRANGER), 12.01)
    for k in range(60):
        assert feed(decoder, board, 12.05 + 0.025 * k) is None
    assert decoder.birth_wanted(0)
    assert "two boards" in decoder.problems()["strut00"]
    decoder.packet(0, "state", birth(boot_id=REAL), 13.6)
    assert not decoder.birth_wanted(0)
    assert feed(decoder, board, 13.7) is not None


def test_a_board_that_has_booted_and_speaks_is_not_asked_again_for_what_the_old_boot_still_sends() -> None:
    decoder, board = started(boot_id=REAL)
    feed(decoder, board, 12.0)
    decoder.packet(0, "state", birth(boot_id=STRANGER), 12.01)
    _, other = started(boot_id=STRANGER)
    decoder.packet(0, "imu", other.imu(12.02), 12.03)
    for k in range(60):
        feed(decoder, board, 12.05 + 0.025 * k)
    assert not decoder.birth_wanted(0)


def test_motor_commands_stop_at_a_strangers_birth_and_the_real_boards_lengths_survive_it() -> None:
    boards = Boards()
    boards.all_ready()
    boards.sink.arm(EPOCH)
    boards.telemetry(0, REAL, (1400, -2800), BoardState.ACTIVE, epoch=EPOCH)
    before = boards.sink.rest_u()
    boards.birth(0, STRANGER)
    boards.sent.clear()
    boards.sink.send(Setpoints(boards.clock.now_s(), np.zeros(6), "test"))
    assert [board for board, _, _ in boards.sent] == ["rod1", "rod2"]
    boards.telemetry(0, REAL, (1400, -2800), BoardState.ACTIVE, epoch=EPOCH)
    report = boards.sink.reports()[0]
    assert not report.ready and not report.armed and not boards.sink.ready
    assert "second board" in boards.sink.problems()["rod0"]
    boards.birth(0, REAL)
    boards.serve(0, REAL, (1400, -2800), BoardState.LATCHED)
    assert boards.sink.rest_u() == pytest.approx(before)
    assert boards.sink.ready and boards.sink.reports()[0].latched


class Valve:
    """The host's view of the first valve board, fed by hand; its port is never opened."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(100.0)
        self.sent: list[tuple[int, bytes]] = []
        board = SPEC.actuators.boards[0]
        self.channels = board.channels
        self.host = SerialBoard(board, "/nowhere", SPEC.actuators, self.clock, self._tap)
        self.sequence = 0

    def _tap(self, _board: str, direction: str, kind: int, payload: bytes, _t_s: float) -> None:
        if direction == "out":
            self.sent.append((kind, payload))

    def give(self, kind: MessageType, payload: bytes) -> None:
        self.host._frame(SerialFrame(kind, payload), self.clock.now_s())

    def birth(self, boot_id: int) -> None:
        table = {
            "v": 1,
            "online": True,
            "boot_id": boot_id,
            "name": self.host.board.id,
            "app": "valve",
            "firmware": "0.1.0",
            "channels": self.channels,
            "full_scale": 10_000,
            "unit_pa": 100.0,
        }
        self.give(MessageType.BIRTH, json.dumps(table).encode())

    def acknowledge(self, boot_id: int) -> None:
        ack = {"boot_id": boot_id, "generation": self.host._config.generation, "ok": True}
        self.give(MessageType.CONFIG_ACK, json.dumps(ack).encode())

    def synchronise(self, boot_id: int) -> None:
        for _ in range(10):
            now_s = self.clock.now_s()
            ticks = round(now_s * 1e6) & 0x3FFFFFFF
            self.give(
                MessageType.SYNC_RESPONSE, encode_sync_response(SyncResponse(round((now_s - 1e-3) * 1e9), boot_id, ticks, ticks))
            )
            self.clock.advance(0.11)

    def telemetry(self, boot_id: int) -> None:
        self.sequence += 1
        frame = TelemetryFrame(
            kind=BoardKind.VALVE,
            state=BoardState.ACTIVE,
            cause=LatchCause.NONE,
            config_generation=self.host._config.generation & 0xFF if self.host._config else 0,
            faults=BoardFault.NONE,
            boot_id=boot_id,
            epoch=EPOCH,
            sequence=self.sequence,
            ticks_us=round(self.clock.now_s() * 1e6) & 0x3FFFFFFF,
            last_command_sequence=40,
            refused=0,
            last_refusal=Refusal.NONE,
            channel_type=np.full(self.channels, ChannelType.PRESSURE, dtype=np.uint8),
            channel_index=np.arange(self.channels, dtype=np.uint8),
            channel_value=np.full(self.channels, 3500, dtype=np.int16),
        )
        self.give(MessageType.TELEMETRY, encode_telemetry(frame))

    def serve(self, boot_id: int) -> None:
        self.birth(boot_id)
        self.acknowledge(boot_id)
        self.synchronise(boot_id)
        self.telemetry(boot_id)

    def commanded(self) -> bool:
        """Whether a command goes out to the line now."""
        self.sent.clear()
        self.host.command(EPOCH, self.clock.now_s(), 100, np.full(self.channels, 3.5e5))
        return [kind for kind, _ in self.sent] == [MessageType.COMMAND]


def test_an_armed_valve_board_gets_no_command_under_a_strangers_boot_and_its_own_telemetry_wins_it_back() -> None:
    valve = Valve()
    valve.serve(REAL)
    assert valve.host.ready and valve.commanded()
    valve.birth(STRANGER)
    assert not valve.commanded()
    assert not valve.host.report.ready and valve.host.problem
    valve.acknowledge(REAL)  # what the real board answers to the configuration that the stranger's birth brought about
    assert not valve.host.ready and valve.host.counts["other_boot"] == 1
    valve.telemetry(REAL)
    assert valve.host.birth is None and valve.host.problem == "booted anew"
    assert not valve.commanded()
    valve.serve(REAL)
    assert valve.commanded()
    assert valve.host._sequence > 40  # beyond what the board has taken: it would refuse the same numbers again
