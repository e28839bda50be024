"""The host's actuator sink against valve boards that run the real firmware, over serial lines that can be cut and disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("micropython_run", reason="virtual boards need the 'sim' extra")

from onboard.clock import WallClock
from onboard.errors import ConfigError
from onboard.link.serial_boards import SerialBoards
from onboard.link.wire_types import MessageType
from onboard.messages import Setpoints, frozen
from onboard.robot import RobotSpec
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet
from sim.faults.cable import Cable
from tests.link_support import NoWallClock, robot, until

BOARDS = 2
CHANNELS = 8 * BOARDS


def small_robot() -> RobotSpec:
    """The manipulator's first two valve boards."""
    spec = robot()
    assert spec.actuators is not None
    return msgspec.structs.replace(spec, actuators=msgspec.structs.replace(spec.actuators, boards=spec.actuators.boards[:BOARDS]))


class Rig:
    """Boards, cables and the sink."""

    def __init__(
        self, fleet: BoardFleet, cables: dict[str, Cable], sink: SerialBoards, tapped: list[tuple[str, str, int]]
    ) -> None:
        self.fleet, self.cables, self.sink, self.tapped = fleet, cables, sink, tapped
        self.clock = WallClock()

    def send(self, value_pa: float) -> None:
        self.sink.send(Setpoints(self.clock.now_s(), frozen(np.full(CHANNELS, value_pa)), "test"))

    async def hold(self, value_pa: float, seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            self.send(value_pa)
            await asyncio.sleep(0.02)

    def ready(self) -> bool:
        return all(link.ready for link in self.sink.links())

    def outputs(self) -> list[float]:
        return [pa for board in self.fleet.boards.values() for pa in board.valves.outputs()]

    def states(self) -> list[tuple[bool, bool]]:
        return [(report.armed, report.latched) for report in self.sink.reports()]


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardFleet]:
    root = tmp_path_factory.mktemp("valves")
    for folder in (root, *root.parents[:3]):
        if folder.name.startswith("pytest"):
            folder.chmod(0o755)
    configs = [
        BoardConfig(id=f"valve{k}", app="valve", channels=8, drift_ppm=40 * (-1) ** k, tick_offset_us=(1 << 30) - 9_000_000)
        for k in range(BOARDS)
    ]
    with BoardFleet(configs, root) as fleet:
        fleet.start()
        yield fleet


@asynccontextmanager
async def rig(boards: BoardFleet, tmp_path: Path) -> AsyncIterator[Rig]:
    """A fresh sink on cables to the module's boards, waiting until all are ready."""
    cables = {name: Cable(board.port, tmp_path / name) for name, board in boards.boards.items()}
    tapped: list[tuple[str, str, int]] = []
    ports = {name: str(cable.path) for name, cable in cables.items()}
    sink = SerialBoards(small_robot(), NoWallClock(), ports, lambda board, way, kind, *_: tapped.append((board, way, kind)))
    task = asyncio.create_task(sink.run())
    built = Rig(boards, cables, sink, tapped)
    try:
        await until(built.ready, 20.0)
        yield built
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        for cable in cables.values():
            if cable._ends:
                cable.unplug()


_epochs = iter(range(1, 1000))


def test_boards_arm_follow_and_report(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(boards, tmp_path) as arm:
            arm.sink.arm(epoch := next(_epochs))
            await arm.hold(300_000.0, 0.5)
            assert arm.states() == [(True, False)] * BOARDS
            assert {report.epoch for report in arm.sink.reports()} == {epoch}
            assert arm.outputs() == pytest.approx([300_000.0] * CHANNELS, abs=150.0)
            boards["valve0"].valves.write_pressures([250_000.0] * 8)
            await arm.hold(300_000.0, 0.3)
            assert arm.sink.reports()[0].measured == pytest.approx(np.full(8, 250_000.0), abs=200.0)
            assert abs(arm.sink.reports()[0].t_s - arm.clock.now_s()) < 0.2
            for kind, way in ((MessageType.COMMAND, "out"), (MessageType.ARM, "out"), (MessageType.TELEMETRY, "in")):
                assert {("valve0", way, kind), ("valve1", way, kind)} <= set(arm.tapped)
            arm.sink.disarm()
            await until(lambda: arm.states() == [(False, False)] * BOARDS)
            assert arm.outputs() == pytest.approx([200_000.0] * CHANNELS, abs=150.0)

    asyncio.run(scenario())


def test_silence_latches_and_only_a_new_epoch_arms_again(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(boards, tmp_path) as arm:
            arm.sink.arm(next(_epochs))
            await arm.hold(400_000.0, 0.5)
            await until(lambda: arm.states() == [(False, True)] * BOARDS, 5.0)
            assert arm.outputs() == pytest.approx([200_000.0] * CHANNELS, abs=150.0)
            await arm.hold(400_000.0, 0.3)
            assert arm.outputs() == pytest.approx([200_000.0] * CHANNELS, abs=150.0)
            arm.sink.arm(next(_epochs))
            await arm.hold(250_000.0, 0.4)
            assert arm.states() == [(True, False)] * BOARDS

    asyncio.run(scenario())


def test_bad_commands_are_sent_to_nobody(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(boards, tmp_path) as arm:
            arm.send(300_000.0)  # not armed
            arm.sink.arm(next(_epochs))
            await arm.hold(300_000.0, 0.4)
            now = arm.clock.now_s()
            one_nan = np.full(CHANNELS, 300_000.0)
            one_nan[5] = np.nan
            for value in (
                one_nan,
                np.full(CHANNELS, np.inf),
                np.full(CHANNELS, 99_000.0),
                np.full(CHANNELS, 600_100.0),
                np.ones(3),
            ):
                arm.sink.send(Setpoints(now, frozen(value), "test"))
            arm.sink.send(Setpoints(now - 0.2, frozen(np.full(CHANNELS, 500_000.0)), "test"))
            arm.sink.send(Setpoints(now + 60.0, frozen(np.full(CHANNELS, 500_000.0)), "test"))
            arm.sink.send(Setpoints(float("nan"), frozen(np.full(CHANNELS, 500_000.0)), "test"))
            await asyncio.sleep(0.05)
            assert arm.outputs() == pytest.approx([300_000.0] * CHANNELS, abs=150.0)
            assert dict(arm.sink.refused) == {"not_armed": 1, "not_finite": 3, "out_of_range": 2, "wrong_shape": 1, "expired": 2}

    asyncio.run(scenario())


def test_a_stop_puts_all_boards_in_their_safe_state(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(boards, tmp_path) as arm:
            arm.sink.arm(next(_epochs))
            await arm.hold(500_000.0, 0.6)
            arm.sink.stop()
            arm.send(500_000.0)
            await until(lambda: arm.states() == [(False, True)] * BOARDS, 2.0)
            assert arm.outputs() == pytest.approx([200_000.0] * CHANNELS, abs=150.0)

    asyncio.run(scenario())


@pytest.mark.long
def test_a_cable_pulled_in_the_middle_of_writing_is_found_again_and_the_board_is_safe(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(boards, tmp_path) as arm:
            arm.sink.arm(next(_epochs))
            await arm.hold(450_000.0, 0.5)
            arm.cables["valve0"].to_board = lambda data: data[: len(data) // 2]
            arm.send(450_000.0)
            arm.cables["valve0"].unplug()
            await arm.hold(450_000.0, 0.6)
            links = arm.sink.links()
            assert not links[0].is_open and links[0].problem and links[1].ready
            assert boards["valve0"].valves.outputs() == pytest.approx([200_000.0] * 8, abs=150.0)
            assert boards["valve1"].valves.outputs() == pytest.approx([450_000.0] * 8, abs=150.0)
            arm.cables["valve0"].to_board = lambda data: data
            arm.cables["valve0"].plug()
            await until(arm.ready, 10.0)
            await until(lambda: arm.states()[0] == (False, True), 2.0)  # still latched: nobody armed it again

    asyncio.run(scenario())


def test_a_disturbed_line_costs_frames_not_safety(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        rng = np.random.default_rng(5)

        def disturb(data: bytes) -> bytes:
            noisy = bytearray(data)
            for at in np.flatnonzero(rng.random(len(noisy)) < 0.004):
                noisy[at] ^= 1 << rng.integers(8)
            return bytes(noisy)

        async with rig(boards, tmp_path) as arm:
            arm.sink.arm(next(_epochs))
            await arm.hold(300_000.0, 0.3)
            for cable in arm.cables.values():
                cable.to_board = cable.to_host = disturb
            for _ in range(100):
                arm.send(350_000.0)
                await asyncio.sleep(0.02)
                assert all(199_000.0 <= pa <= 351_000.0 for pa in arm.outputs())
            for cable in arm.cables.values():
                cable.to_board = cable.to_host = lambda data: data
            await asyncio.sleep(1.2)
            assert sum(link.crc_errors for link in arm.sink.links()) > 0
            refused = [report.refused for report in arm.sink.reports()]
            assert any("crc" in reasons for reasons in refused)

    asyncio.run(scenario())


def test_a_board_that_restarts_comes_back_disarmed_and_is_set_up_again(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(boards, tmp_path) as arm:
            before = arm.sink.reports()[1].boot_id
            arm.sink.arm(next(_epochs))
            await arm.hold(300_000.0, 0.3)
            await asyncio.to_thread(boards["valve1"].restart)
            await until(lambda: not arm.sink.reports()[1].ready, 5.0)
            await until(lambda: arm.sink.reports()[1].boot_id != before, 15.0)
            while not arm.ready():  # its clock is not known yet: nobody may arm on what it reports
                assert not arm.sink.reports()[1].ready
                await asyncio.sleep(0.002)
            await until(lambda: arm.sink.reports()[1].ready, 1.0)
            assert arm.states()[1] == (False, False)
            assert boards["valve1"].valves.outputs() == pytest.approx([200_000.0] * 8, abs=150.0)

    asyncio.run(scenario())


def test_swapped_cables_are_called_by_that_and_move_nothing(boards: BoardFleet, tmp_path: Path) -> None:
    async def scenario() -> None:
        names = list(boards.boards)
        cables = {name: Cable(boards[other].port, tmp_path / name) for name, other in zip(names, reversed(names), strict=True)}
        sink = SerialBoards(small_robot(), WallClock(), {name: str(cable.path) for name, cable in cables.items()})
        task = asyncio.create_task(sink.run())
        await until(lambda: all("swapped" in link.problem for link in sink.links()), 10.0)
        sink.arm(next(_epochs))
        sink.send(Setpoints(WallClock().now_s(), frozen(np.full(CHANNELS, 300_000.0)), "test"))
        await asyncio.sleep(0.2)
        assert not any(link.ready for link in sink.links())
        assert all(pa < 201_000.0 for board in boards.boards.values() for pa in board.valves.outputs())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for cable in cables.values():
            cable.unplug()

    asyncio.run(scenario())


def test_missing_and_doubled_ports_are_configuration_errors() -> None:
    with pytest.raises(ConfigError, match="valve1"):
        SerialBoards(small_robot(), WallClock(), {"valve0": "/dev/ttyACM0"})
    with pytest.raises(ConfigError, match="two boards"):
        SerialBoards(small_robot(), WallClock(), {"valve0": "/dev/ttyACM0", "valve1": "/dev/ttyACM0"})
