"""What a valve board does when host, line, processor or converters fail: it goes safe by itself and says why."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onboard.link.serial_frame import encode_frame
from onboard.link.wire_types import (
    BoardFault,
    BoardState,
    ChannelType,
    LatchCause,
    MessageType,
)
from sim.boards.launcher import VirtualBoard
from sim.boards.registers import FAULT_NO_ANSWER
from tests.firmware.conftest import wait_until
from tests.firmware.host_ends import ValveHost
from tests.firmware.valve_support import (
    SAFE,
    all_near,
    arm,
    board,
    hold,
    host,
)

__all__ = ["board", "host"]


def test_when_the_host_process_is_killed_the_board_goes_safe_by_itself(board: VirtualBoard, host: ValveHost) -> None:
    host.close()
    streamer = subprocess.Popen(
        [sys.executable, "-m", "tests.firmware.streaming_host", board.port],
        cwd=Path(__file__).parents[2],
    )
    try:
        wait_until(lambda: all_near(board, 4000), 15.0, "streaming host moves the valves")
    finally:
        streamer.send_signal(signal.SIGKILL)
        streamer.wait()
    wait_until(lambda: all_near(board, SAFE), 5.0, "safe after the host died")
    with ValveHost(board) as again:
        report = again.fresh()
        assert (report.state, report.cause) == (BoardState.LATCHED, LatchCause.SILENCE)


def test_noise_and_damaged_frames_cost_only_themselves(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    damaged = bytearray(encode_frame(MessageType.COMMAND, host.message(1, [5000] * 8)))
    damaged[20] ^= 0x10
    for noise in (bytes(range(256)) * 3, b"hello\r\n", bytes(damaged), b"\x05abc", bytes([7]) * 3000):
        host.line.write(noise)
        last = hold(host, 1, [4000] * 8, 0.1)
        assert last.state is BoardState.ACTIVE
        assert last.values(ChannelType.SETPOINT).tolist() == [4000] * 8
    end_s = time.monotonic() + 2.0
    while time.monotonic() < end_s and not (host.healths and host.healths[-1].oversized):
        hold(host, 1, [4000] * 8, 0.05)
    assert host.healths[-1].crc_errors >= 3
    assert host.healths[-1].oversized == 1


def test_unplugged_in_the_middle_of_a_write(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    host.line.write(encode_frame(MessageType.COMMAND, host.message(1, [5000] * 8))[:15])
    host.close()
    wait_until(lambda: all_near(board, SAFE), 5.0, "safe after unplugging")
    with ValveHost(board) as again:
        assert again.fresh().state is BoardState.LATCHED
        again.message(0)  # keeps sequences growing past those of the first host
        again._sequence = again.fresh().last_command_sequence
        again.disarm(again.epoch)
        arm(again, 2)


def test_a_watchdog_reset_comes_back_latched_with_its_cause(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    first = host.boot_id
    host.close()
    board.freeze()  # the outputs keep their last value until the watchdog bites: that is why there is one
    wait_until(lambda: board.resets == 1, 15.0, "watchdog reset")
    wait_until(lambda: all_near(board, SAFE), 5.0, "safe after the reset")
    with ValveHost(board) as again:
        birth, report = again.births[-1], again.fresh()
        assert (birth.reset_cause, birth.latched) == ("watchdog", "watchdog")
        assert birth.boot_id != first
        assert (report.state, report.cause) == (BoardState.LATCHED, LatchCause.WATCHDOG)
        again.disarm(0)
        arm(again)


def test_an_application_that_crashes_comes_back_latched_and_says_why(board: VirtualBoard, host: ValveHost) -> None:
    host.close()
    board.stop()
    source = board.jail / "valve" / "converters.py"
    whole = source.read_text()
    source.write_text(whole.replace("        raw = bytearray(2)\n", "        raise ValueError('planted')\n"))
    board.start()
    wait_until(lambda: board.resets >= 1, 10.0, "reset after a crash")
    source.write_text(whole)
    with ValveHost(board) as again:
        assert again.births[-1].crash == "ValueError: planted"
        assert again.births[-1].latched == "crash"
        assert again.fresh().cause is LatchCause.CRASH


def test_converters_that_do_not_answer_latch_the_board(board: VirtualBoard, host: ValveHost) -> None:
    arm(host)
    board.registers.set_faults(FAULT_NO_ANSWER)
    host.command(1, [4100] * 8)
    host.until(lambda: host.telemetry[-1].state is BoardState.LATCHED, "latch")
    assert host.telemetry[-1].cause is LatchCause.OUTPUT_FAULT
    assert host.telemetry[-1].faults & BoardFault.OUTPUT
    board.registers.set_faults(0)
    host.until(lambda: not host.telemetry[-1].faults & BoardFault.OUTPUT, "outputs are back")
    assert all_near(board, SAFE)


def test_measured_pressures_come_back_and_one_that_does_not_follow_is_named(board: VirtualBoard, host: ValveHost) -> None:
    board.valves.write_pressures([200_000.0] * 8)
    host.pump(0.1)
    assert host.fresh().values(ChannelType.PRESSURE) == pytest.approx([SAFE] * 8, abs=2)
    assert not host.telemetry[-1].faults & BoardFault.NOT_FOLLOWING
    board.valves.write_pressures([200_000.0] * 3 + [350_000.0] + [200_000.0] * 4)
    host.until(lambda: bool(host.telemetry[-1].faults & BoardFault.NOT_FOLLOWING), "not following")
    host.until(lambda: bool(host.healths) and host.healths[-1].not_following == [3], "the channel's number")
    board.valves.write_pressures([200_000.0] * 8)
    host.until(lambda: not host.telemetry[-1].faults & BoardFault.NOT_FOLLOWING, "follows again")
