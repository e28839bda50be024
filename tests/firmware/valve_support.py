"""A configured valve board and its host, and what tests of them say over and over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from onboard.link.board_json import ActuatorChannel, ActuatorConfig, encode_config
from onboard.link.wire_types import (
    BoardState,
    ChannelType,
    MessageType,
    TelemetryFrame,
)
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from tests.firmware.host_ends import ValveHost

SAFE, LOW, HIGH = 2000, 1000, 6000  # counts of 100 Pa: the manipulator's numbers
DEADLINE_MS = 400  # generous: the tests' own host must keep it on a busy machine
CONVERTER_PA = 150.0  # one step of the 12-bit converters
CONFIG = ActuatorConfig(
    generation=7,
    deadline_ms=DEADLINE_MS,
    channels=[ActuatorChannel(SAFE, LOW, HIGH, 100_000)] * 8,
    follow_tolerance=600,
    follow_ms=300,
)

Make = Callable[..., VirtualBoard]


@pytest.fixture
def board(boards: Make) -> VirtualBoard:
    made = boards(BoardConfig("valve0", app="valve"))
    made.start()
    return made


@pytest.fixture
def host(board: VirtualBoard) -> Iterator[ValveHost]:
    """A host that has configured the board."""
    with ValveHost(board) as end:
        configure(end)
        yield end


def configure(host: ValveHost, config: ActuatorConfig = CONFIG) -> None:
    host.send(MessageType.CONFIG, encode_config(config))
    host.until(lambda: bool(host.acks), "acknowledgement")
    assert host.acks[-1].ok, host.acks[-1].error


def hold(host: ValveHost, epoch: int, setpoints: list[int], seconds: float) -> TelemetryFrame:
    """Send a command every 10 ms, as a control loop does; returns the last telemetry."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        host.command(epoch, setpoints)
        host.pump(0.01)
    return host.telemetry[-1]


def arm(host: ValveHost, epoch: int = 1, counts: int = 4000) -> None:
    """Armed, with all outputs at `counts`."""
    host.arm(epoch)
    last = hold(host, epoch, [counts] * 8, 0.2)
    assert last.state is BoardState.ACTIVE
    assert last.values(ChannelType.SETPOINT).tolist() == [counts] * 8


def all_near(board: VirtualBoard, counts: int) -> bool:
    """The converters hold this set-point on every channel."""
    return all(abs(value - 100 * counts) < CONVERTER_PA for value in board.valves.outputs())


def refusals(host: ValveHost, act: Callable[[], None]) -> TelemetryFrame:
    """Telemetry after `act`, which must have been refused exactly once."""
    before = host.fresh().refused
    act()
    host.until(lambda: host.telemetry[-1].refused != before, "a refusal")
    assert host.telemetry[-1].refused == before + 1
    return host.telemetry[-1]
