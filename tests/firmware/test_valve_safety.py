"""Statements about a valve board: it starts safe and moves only for the right host, within limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from onboard.link.board_json import ActuatorChannel, ActuatorConfig, encode_config
from onboard.link.wire_types import (
    BoardFault,
    BoardState,
    ChannelType,
    LatchCause,
    MessageType,
    Refusal,
)
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from tests.firmware.conftest import wait_until
from tests.firmware.host_ends import ValveHost
from tests.firmware.valve_support import (
    CONFIG,
    DEADLINE_MS,
    HIGH,
    LOW,
    SAFE,
    all_near,
    arm,
    board,
    configure,
    hold,
    host,
    refusals,
)

__all__ = ["board", "host"]


def test_without_configuration_it_stays_disarmed_at_minimum_and_says_so(board: VirtualBoard) -> None:
    with ValveHost(board) as host:
        report = host.fresh()
        assert report.state is BoardState.DISARMED
        assert report.faults & BoardFault.UNCONFIGURED
        assert refusals(host, lambda: host.arm(1)).last_refusal is Refusal.UNCONFIGURED
        assert host.births[-1].config_generation == 0
    assert board.valves.output_writes() > 0
    assert board.valves.outputs() == [0.0] * 8


def test_configuration_is_kept_and_every_boot_starts_safe_and_disarmed(board: VirtualBoard, host: ValveHost) -> None:
    wait_until(lambda: all_near(board, SAFE), 1.0, "safe set-points once configured")
    arm(host)
    assert all_near(board, 4000)
    host.close()
    board.restart()
    wait_until(lambda: all_near(board, SAFE), what="safe set-points after power-on")
    with ValveHost(board) as again:
        report = again.fresh()
        assert report.state is BoardState.DISARMED
        assert report.epoch == 0
        assert again.births[-1].reset_cause == "power_on"
        assert again.births[-1].config_generation == 7
        assert again.births[-1].latched == ""


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"deadline_ms": 5}, "deadline_ms"),
        ({"deadline_ms": True}, "deadline_ms"),
        ({"deadline_ms": "150"}, "deadline_ms"),
        ({"generation": 0}, "generation"),
        ({"channels": []}, "channels"),
        ({"channels": [{"safe": 7000, "min": 0, "max": 6000, "slew": 1}] * 8}, "safe"),
        ({"channels": [{"safe": 1, "min": 0, "max": 6001, "slew": 1}] * 8}, "max"),
        ({"channels": [{"safe": 1, "min": 0, "max": 2, "slew": 0}] * 8}, "slew"),
        ({"channels": [{"safe": 1, "min": 0, "max": 2, "slew": 1.5}] * 8}, "slew"),
        ({"extra": 1}, "extra"),
    ],
)
def test_wrong_configuration_is_refused_by_name(change: dict[str, object], word: str, config_host: ValveHost) -> None:
    table = json.loads(encode_config(CONFIG)) | change
    config_host.acks.clear()
    config_host.send(MessageType.CONFIG, json.dumps(table).encode())
    config_host.until(lambda: bool(config_host.acks), "acknowledgement")
    assert not config_host.acks[-1].ok
    assert word in config_host.acks[-1].error
    assert config_host.fresh().config_generation == 7


@pytest.fixture(scope="module")
def config_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValveHost]:
    """One configured board for all wrong configurations: none of them may change it."""
    made = VirtualBoard(BoardConfig("valve0", app="valve"), tmp_path_factory.mktemp("boards"))
    made.start()
    with ValveHost(made) as end:
        configure(end)
        yield end
    made.close()


def test_configuration_is_refused_while_armed(host: ValveHost) -> None:
    arm(host)
    host.acks.clear()
    host.send(MessageType.CONFIG, encode_config(CONFIG))
    hold(host, 1, [4000] * 8, 0.1)
    assert [ack.ok for ack in host.acks] == [False]
    assert "armed" in host.acks[-1].error


def test_commands_are_clamped_and_slewed_on_the_board(board: VirtualBoard) -> None:
    slow = ActuatorConfig(3, DEADLINE_MS, [ActuatorChannel(SAFE, LOW, HIGH, 5000)] * 8)
    with ValveHost(board) as host:
        configure(host, slow)
        host.arm(1)
        host.telemetry.clear()
        hold(host, 1, [32767] * 8, 0.4)
        first, last = host.telemetry[0], host.telemetry[-1]
        path = [int(frame.values(ChannelType.SETPOINT)[0]) for frame in host.telemetry]
        elapsed_s = (last.ticks_us - first.ticks_us) / 1e6
        assert path == sorted(path)
        assert path[-1] - path[0] == pytest.approx(5000 * elapsed_s, abs=150)
        hold(host, 1, [32767] * 8, 0.8)
        assert host.telemetry[-1].values(ChannelType.SETPOINT).tolist() == [HIGH] * 8
        hold(host, 1, [-32768] * 8, 1.3)
        assert host.telemetry[-1].values(ChannelType.SETPOINT).tolist() == [LOW] * 8


def test_silence_puts_out_the_safe_set_points_and_latches(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    wait_until(lambda: all_near(board, SAFE), 5.0, "safe set-points after silence")
    host.pump(0.1)
    latched = [frame for frame in host.telemetry if frame.state is BoardState.LATCHED]
    active = [frame for frame in host.telemetry if frame.state is BoardState.ACTIVE]
    assert latched[0].cause is LatchCause.SILENCE
    assert (latched[0].ticks_us - active[-1].ticks_us) / 1000 <= DEADLINE_MS + 40  # one telemetry period and ticks
    hold(host, 1, [4000] * 8, 0.2)
    assert host.telemetry[-1].state is BoardState.LATCHED
    assert all_near(board, SAFE)


def test_a_command_expires_with_its_ttl_even_before_the_deadline(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    host.command(1, [4000] * 8, ttl_ms=60)
    host.until(lambda: host.telemetry[-1].state is BoardState.LATCHED, "latch")
    assert host.telemetry[-1].cause is LatchCause.EXPIRED
    assert all_near(board, SAFE)


def test_leaving_the_latch_is_deliberate_and_an_epoch_arms_once(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    host.until(lambda: host.telemetry[-1].state is BoardState.LATCHED, "latch")
    assert refusals(host, lambda: host.arm(2)).last_refusal is Refusal.STATE  # not without disarm
    host.disarm(1)
    host.until(lambda: host.telemetry[-1].state is BoardState.DISARMED, "disarmed")
    assert refusals(host, lambda: host.arm(1)).last_refusal is Refusal.EPOCH  # used already
    assert refusals(host, lambda: host.command(1, [4000] * 8)).last_refusal is Refusal.STATE
    arm(host, 2, 3000)
    assert all_near(board, 3000)


def test_commands_that_are_not_for_now_or_not_for_this_board_are_refused(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    good = lambda: host.message(1, [5000] * 8)  # noqa: E731
    cases: dict[Refusal, Callable[[], bytes]] = {
        Refusal.VERSION: lambda: bytes([2]) + good()[1:],
        Refusal.LENGTH: lambda: good()[:-1],
        Refusal.FLAGS: lambda: good()[:2] + b"\x01\x00" + good()[4:],
        Refusal.BOOT_ID: lambda: host.message(1, [5000] * 8, boot_id=host.boot_id ^ 1),
        Refusal.EPOCH: lambda: host.message(2, [5000] * 8),
        Refusal.SEQUENCE: lambda: host.message(1, [5000] * 8, sequence=1),
        Refusal.AGE: lambda: host.message(1, [5000] * 8, issued=host.ticks() - 300_000, ttl_ms=200),
        Refusal.FUTURE: lambda: host.message(1, [5000] * 8, issued=host.ticks() + 1_000_000),
        Refusal.COUNT: lambda: host.message(1, [5000] * 7),
    }
    for expected, make in cases.items():
        before = hold(host, 1, [4000] * 8, 0.05).refused
        host.send(MessageType.COMMAND, make())
        last = hold(host, 1, [4000] * 8, 0.1)
        assert (last.refused, last.last_refusal) == (before + 1, expected)
        assert last.state is BoardState.ACTIVE
        assert last.values(ChannelType.SETPOINT).tolist() == [4000] * 8
    host.until(lambda: bool(host.healths) and "count" in host.healths[-1].refused, "health")
    assert {name: host.healths[-1].refused[name] for name in ("boot_id", "age", "future")} == {
        "boot_id": 1,
        "age": 1,
        "future": 1,
    }


def test_the_hard_wired_stop_works_without_any_message(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    board.valves.press_stop(True)
    last = hold(host, 1, [4000] * 8, 0.2)
    assert (last.state, last.cause) == (BoardState.LATCHED, LatchCause.STOP_INPUT)
    assert last.faults & BoardFault.STOP_INPUT
    assert all_near(board, SAFE)
    assert refusals(host, lambda: host.disarm(1)).last_refusal is Refusal.STATE  # still pressed
    board.valves.press_stop(False)
    host.until(lambda: not host.telemetry[-1].faults & BoardFault.STOP_INPUT, "released")
    assert host.telemetry[-1].state is BoardState.LATCHED
    host.disarm(1)
    arm(host, 2)


def test_a_stop_message_is_never_refused(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    host.send(MessageType.STOP, b"")
    host.until(lambda: host.telemetry[-1].state is BoardState.LATCHED, "latch")
    assert host.telemetry[-1].cause is LatchCause.STOP_MESSAGE
    assert all_near(board, SAFE)
