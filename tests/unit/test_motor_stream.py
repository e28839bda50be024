"""Statements about the host's side of motor boards: rest lengths over boots, and commands that never leave."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from onboard.clock import SimulatedClock
from onboard.errors import ConfigError
from onboard.link.endpoint import Endpoint
from onboard.link.motor_boards import MotorBoards
from onboard.link.wire import decode_command, encode_sync_response, encode_telemetry
from onboard.link.wire_types import (
    BoardFault,
    BoardKind,
    BoardState,
    ChannelType,
    LatchCause,
    Refusal,
    SyncResponse,
    TelemetryFrame,
)
from onboard.messages import Setpoints
from onboard.three_bar_robot import ThreeBar, load_robot, motor_robot, physics_hash

ROBOT = motor_robot(load_robot())


class Boards:
    """The sink, and three boards that answer by hand on a simulated clock; a board's ticks are host microseconds."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(100.0)
        self.sent: list[tuple[str, str, bytes]] = []
        self.sink = MotorBoards(ROBOT, Endpoint("127.0.0.1", 1), self.clock, tap=self._tap)
        self.sink.session.connected = True
        self.sequence = 0

    def _tap(self, board: str, direction: str, leaf: str, payload: bytes, _: float) -> None:
        if direction == "out":
            self.sent.append((board, leaf, payload))

    def ticks(self) -> int:
        return round(self.clock.now_s() * 1e6) & 0x3FFFFFFF

    def give(self, board: int, leaf: str, payload: bytes) -> None:
        self.sink.packet(board, leaf, payload, self.clock.now_s())

    def birth(self, board: int, boot_id: int, **changes: object) -> None:
        table = {
            "v": 1,
            "online": True,
            "boot_id": boot_id,
            "name": ROBOT.struts[board],
            "app": "motor",
            "firmware": "0.1.0",
            "sensor": "lsm6dsox",
            "accel_scale": 0.122e-3 * 9.80665,
            "gyro_scale": float(np.radians(17.5e-3)),
            "channels": 2,
            "full_scale": 10_000,
        }
        self.give(board, "state", json.dumps(table | changes).encode())

    def serve(self, board: int, boot_id: int, counts: tuple[int, int] = (0, 0), state: BoardState = BoardState.DISARMED) -> None:
        """Configured, its clock known, telemetry sent."""
        stream = self.sink._streams[board]
        payload = stream.configuration(self.clock.now_s())
        if payload is not None:
            generation = json.loads(payload)["generation"]
            self.give(board, "motor/ack", json.dumps({"boot_id": boot_id, "generation": generation, "ok": True}).encode())
        for _ in range(10):
            now_s = self.clock.now_s()
            answer = SyncResponse(round((now_s - 0.001) * 1e9), boot_id, self.ticks(), self.ticks())
            self.give(board, "sync/rsp", encode_sync_response(answer))
            self.clock.advance(0.11)
        self.telemetry(board, boot_id, counts, state)

    def telemetry(
        self, board: int, boot_id: int, counts: tuple[int, int], state: BoardState = BoardState.DISARMED, **changes: object
    ) -> None:
        self.sequence += 1
        config = self.sink._streams[board]._config
        frame = TelemetryFrame(
            kind=BoardKind.MOTOR,
            state=state,
            cause=LatchCause.NONE,
            config_generation=config.generation & 0xFF if config else 0,
            faults=BoardFault.NONE,
            boot_id=boot_id,
            epoch=0,
            sequence=self.sequence,
            ticks_us=self.ticks(),
            last_command_sequence=0,
            refused=0,
            last_refusal=Refusal.NONE,
            channel_type=np.repeat([ChannelType.ENCODER, ChannelType.SPEED, ChannelType.CURRENT], 2).astype(np.uint8),
            channel_index=np.tile([0, 1], 3).astype(np.uint8),
            channel_value=np.array([*counts, 0, 4107, 0, 500], dtype=np.int16),
        )
        self.give(board, "tlm", encode_telemetry(replace(frame, **changes)))  # type: ignore[arg-type]

    def all_ready(self) -> None:
        for board in range(3):
            self.birth(board, 7 + board)
            self.serve(board, 7 + board)
        assert self.sink.ready, self.sink.problems()
        self.sent.clear()


@pytest.fixture
def boards() -> Boards:
    return Boards()


def test_motors_stay_out_of_what_models_depend_on() -> None:
    assert physics_hash() == "fbac3e9b2de91f4e620ab9f42416c54930f345baf9fd526b570faedea52db338"


def test_a_board_that_winds_another_rods_cable_is_refused() -> None:
    raw = msgspec.to_builtins(load_robot())
    raw["motors"]["boards"][0]["motors"], raw["motors"]["boards"][1]["motors"] = [4, 3], [2, 1]
    with pytest.raises(ConfigError, match="do not sit on one rod"):
        motor_robot(msgspec.convert(raw, ThreeBar))


def test_counts_become_rest_lengths_of_the_right_cables(boards: Boards) -> None:
    boards.all_ready()
    boards.telemetry(0, 7, (1400, -2800))  # rod0 drives motors 4 and 2; 1400 counts are a turn
    turn_u = 2 * np.pi * 0.035
    assert boards.sink.rest_u() == pytest.approx([1.5, 1.5, 1.5 + 2 * turn_u, 1.5, 1.5 - turn_u, 1.5])
    assert boards.sink.speed_rad_s()[2] == pytest.approx(18.43, rel=1e-3)
    assert boards.sink.current_a()[2] == 0.5


def test_after_a_reboot_cables_go_on_where_they_were_and_travel_is_counted_from_there(boards: Boards) -> None:
    boards.all_ready()
    boards.telemetry(0, 7, (1400, 0))
    before = boards.sink.rest_u()
    boards.birth(0, 99)
    assert not boards.sink.ready
    assert not boards.sink.reports()[0].ready
    payload = boards.sink._streams[0].configuration(boards.clock.now_s())
    assert payload is not None
    told = json.loads(payload)
    assert told["boot_id"] == 99
    unit = ROBOT.rest_u_per_count
    least, greatest = (count * unit for count in told["travel"][0])
    assert before[4] - 0.4 - 5 * unit < greatest < before[4] - 0.4
    assert before[4] - 2.7 < least < before[4] - 2.7 + 5 * unit
    boards.clock.advance(1.0)
    boards.serve(0, 99, (0, 0))
    assert boards.sink.rest_u() == pytest.approx(before)
    assert boards.sink.ready


def test_telemetry_of_an_earlier_boot_or_repeated_changes_nothing(boards: Boards) -> None:
    boards.all_ready()
    boards.telemetry(0, 6, (5000, 5000))
    boards.telemetry(0, 7, (100, 100))
    before = boards.sink.rest_u()
    boards.telemetry(0, 7, (9000, 9000), sequence=boards.sequence)
    assert boards.sink.rest_u() == pytest.approx(before)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([0.1, 0.2, np.nan, 0.0, 0.0, 0.0], "not_finite"),
        ([0.1, 0.2, np.inf, 0.0, 0.0, 0.0], "not_finite"),
        ([1.01, 0, 0, 0, 0, 0], "out_of_range"),
        ([0.0] * 5, "wrong_shape"),
    ],
)
def test_a_bad_command_reaches_no_board(boards: Boards, value: list[float], reason: str) -> None:
    boards.all_ready()
    boards.sink.arm(1)
    boards.sent.clear()
    boards.sink.send(Setpoints(boards.clock.now_s(), np.array(value), "test"))
    assert boards.sent == []
    assert boards.sink.refused[reason] == 1


def test_an_old_command_reaches_no_board(boards: Boards) -> None:
    boards.all_ready()
    boards.sink.arm(1)
    boards.sent.clear()
    too_old_s = ROBOT.motors.command_ttl_ms / 1000.0 + 0.01
    boards.sink.send(Setpoints(boards.clock.now_s() - too_old_s, np.zeros(6), "test"))
    assert boards.sent == []
    assert boards.sink.refused["expired"] == 1


def test_each_board_gets_its_own_motors_in_its_own_order(boards: Boards) -> None:
    boards.all_ready()
    boards.sink.arm(5)
    assert [leaf for _, leaf, _ in boards.sent] == ["arm"] * 3
    boards.sent.clear()
    boards.sink.send(Setpoints(boards.clock.now_s(), np.array([0.0, 0.1, 0.2, 0.3, 0.4, -1.0]), "test"))
    frames = {board: decode_command(payload) for board, _, payload in boards.sent}
    assert {board: frame.setpoints.tolist() for board, frame in frames.items()} == {
        "rod0": [4000, 2000],
        "rod1": [3000, 1000],
        "rod2": [-10000, 0],
    }
    assert {frame.epoch for frame in frames.values()} == {5}
    assert [frame.boot_id for frame in frames.values()] == [7, 8, 9]
    boards.sent.clear()
    boards.sink.stop()
    boards.sink.send(Setpoints(boards.clock.now_s(), np.zeros(6), "test"))
    assert [leaf for _, leaf, _ in boards.sent] == ["stop"] * 3
    assert boards.sink.refused["not_armed"] == 1


def test_a_board_that_was_reset_gets_no_command_before_it_is_configured_anew(boards: Boards) -> None:
    boards.all_ready()
    boards.sink.arm(1)
    boards.birth(1, 50)
    boards.sent.clear()
    boards.sink.send(Setpoints(boards.clock.now_s(), np.zeros(6), "test"))
    assert [board for board, _, _ in boards.sent] == ["rod0", "rod2"]


@pytest.mark.parametrize(
    ("change", "word"),
    [({"app": "strut"}, "firmware"), ({"channels": 1}, "motors"), ({"full_scale": 6000}, "flash"), ({"name": "rod1"}, "calls")],
)
def test_a_wrong_board_is_named(boards: Boards, change: dict[str, object], word: str) -> None:
    boards.birth(0, 7, **change)
    assert word in boards.sink.problems()["rod0"]
    assert not boards.sink.ready


def test_a_latched_board_is_disarmed_before_it_is_armed_anew(boards: Boards) -> None:
    boards.all_ready()
    boards.telemetry(2, 9, (0, 0), BoardState.LATCHED, faults=BoardFault.STALL, cause=LatchCause.STALL)
    assert boards.sink.reports()[2].latched
    assert boards.sink.reports()[2].fault & BoardFault.STALL
    boards.sink.arm(3)
    assert [leaf for board, leaf, _ in boards.sent if board == "rod2"] == ["disarm", "arm"]
    numbers = [decode_command(payload).sequence for board, _, payload in boards.sent if board == "rod2"]
    assert numbers == sorted(set(numbers))
