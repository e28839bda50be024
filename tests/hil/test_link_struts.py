"""Session and decoder against struts that run the real firmware, through the embedded broker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("micropython_run", reason="virtual boards need the 'sim' extra")

from onboard.clock import WallClock
from onboard.link.board_json import StrutConfig
from onboard.link.broker import EmbeddedBroker
from onboard.link.decode import Decoder
from onboard.link.session import Session
from onboard.messages import ImuBatch
from onboard.robot import RobotSpec
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet, VirtualBoard
from tests.link_support import robot, until

STRUTS = 2
RATE_HZ = 104.0


def patient_robot() -> RobotSpec:
    """The manipulator, but old data are let through: these tests must not depend on how busy the machine is."""
    spec = robot()
    return msgspec.structs.replace(spec, imu=msgspec.structs.replace(spec.imu, max_age_ms=20_000))


def config(name: str, port: int, **more: object) -> BoardConfig:
    return BoardConfig(id=name, prefix=robot().link.prefix, broker_port=port, tick_offset_us=(1 << 30) - 8_000_000, **more)  # type: ignore[arg-type]


class Chain:
    """Boards, broker, session and decoder, with sensors that lie still and turn slowly."""

    def __init__(self, broker: EmbeddedBroker, fleet: BoardFleet) -> None:
        self.broker, self.fleet = broker, fleet
        spec, clock = patient_robot(), WallClock()
        self.decoder = Decoder(spec)
        self.batches: dict[int, list[ImuBatch]] = {strut: [] for strut in range(STRUTS)}
        self.session = Session(spec, broker.endpoint, clock, self._packet, self.decoder)
        self.extra: list[VirtualBoard] = []
        self.lose: Callable[[int, str, bytes], bool] = lambda *_: False

    def _packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        if self.lose(strut, kind, payload):
            return
        batch = self.decoder.packet(strut, kind, payload, received_s)
        if batch is not None:
            self.batches[strut].append(batch)

    async def sense(self) -> None:
        """Samples into all boards' registers, for ever."""
        counter, start = 0, asyncio.get_running_loop().time()
        while True:
            counter += 1
            for board in [*self.fleet.boards.values(), *self.extra]:
                board.imu.write_physical(counter, (0.0, 0.0, 9.80665), (0.1, 0.0, -0.2), 30.0)
            await asyncio.sleep(max(0.0, start + counter / RATE_HZ - asyncio.get_running_loop().time()))

    def fresh(self, count: int = 30) -> bool:
        """Whether every strut has given `count` batches since `forget`."""
        return all(len(batches) >= count for batches in self.batches.values())

    def forget(self) -> None:
        for batches in self.batches.values():
            batches.clear()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(robot().link.prefix, 0) as running:
        yield running


@asynccontextmanager
async def chain(broker: EmbeddedBroker, tmp_path: Path) -> AsyncIterator[Chain]:
    """A running chain, all boards heard and their clocks known."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.name.startswith("pytest") or folder == tmp_path:
            folder.chmod(0o755)
    configs = [config(f"strut{k:02d}", broker.port, drift_ppm=(-1) ** k * 200) for k in range(STRUTS)]
    fleet = BoardFleet(configs, tmp_path / "boards")
    built = Chain(broker, fleet)
    fleet.start()
    tasks = [asyncio.create_task(built.session.run()), asyncio.create_task(built.sense())]
    try:
        await until(lambda: built.fresh() and all(built.decoder.synchronised(k) for k in range(STRUTS)), 40.0)
        yield built
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for board in built.extra:
            board.close()
        fleet.close()


def test_samples_arrive_whole_in_si_units_and_in_host_time(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            link.forget()
            await until(lambda: link.fresh(300), 40.0)  # across the wrap of the boards' ticks
            for strut in range(STRUTS):
                status, batches = link.decoder.status(strut), link.batches[strut]
                assert status.online and status.boots == 1 and not status.problem
                assert status.lost <= 0.1 * status.samples
                force = np.concatenate([batch.acceleration_m_s2 for batch in batches])
                rate = np.concatenate([batch.rate_rad_s for batch in batches])
                assert force == pytest.approx(np.tile([0.0, 0.0, 9.80665], (len(force), 1)), abs=1e-3)
                assert rate == pytest.approx(np.tile([0.1, 0.0, -0.2], (len(rate), 1)), abs=3e-4)
                assert batches[-1].temperature_c == pytest.approx(30.0, abs=0.1)
                t_s = np.concatenate([batch.t_s for batch in batches])
                # A clock that was learned on a busy machine may be put right by a step, once or twice; otherwise time goes on.
                assert np.count_nonzero(np.diff(t_s) <= 0.0) <= 3
                assert np.median(np.diff(t_s)) == pytest.approx(1.0 / RATE_HZ, rel=0.1)
                age_s = [batch.received_s - batch.t_s[-1] for batch in batches]
                assert min(age_s) > -0.021
                assert status.health is not None and status.health.samples > 0

    asyncio.run(scenario())


def test_a_board_that_reboots_is_heard_again_under_its_new_boot(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            before = link.decoder.status(0).birth
            await asyncio.to_thread(link.fleet["strut00"].stop)
            await until(lambda: not link.decoder.status(0).online, 20.0)  # the last will
            link.forget()
            await asyncio.to_thread(link.fleet["strut00"].start)
            await until(lambda: link.fresh(20) and link.decoder.synchronised(0), 40.0)
            after = link.decoder.status(0)
            assert before is not None and after.birth is not None and after.birth.boot_id != before.boot_id
            assert after.boots == 2 and after.online and not after.two_boards
            assert link.batches[0][0].boot_id == after.birth.boot_id

    asyncio.run(scenario())


def test_boards_and_session_find_a_broker_that_was_killed_again(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            boots = [link.decoder.status(k).boots for k in range(STRUTS)]
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGKILL)
            await asyncio.to_thread(broker.stop)
            await until(lambda: not link.session.connected, 10.0)
            with EmbeddedBroker(robot().link.prefix, broker.port):
                await until(lambda: link.session.connected, 20.0)
                before = {strut: len(batches) for strut, batches in link.batches.items()}
                await until(lambda: all(len(link.batches[k]) > before[k] + 20 for k in range(STRUTS)), 40.0)
                assert [link.decoder.status(k).boots for k in range(STRUTS)] == boots
                for strut in range(STRUTS):
                    status, batches = link.decoder.status(strut), link.batches[strut]
                    span = batches[-1].sequence + len(batches[-1].t_s) - batches[0].sequence
                    assert span == sum(len(batch.t_s) for batch in batches) + status.lost  # none has vanished uncounted

    asyncio.run(scenario())


def test_a_configuration_changes_batches_and_ranges_and_never_the_physics(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            link.session.configure(0, StrutConfig(generation=5, batch=4, accel_range_g=8, gyro_range_dps=1000))
            await until(lambda: link.decoder.status(0).ack is not None, 20.0)
            link.forget()
            await until(lambda: link.fresh(30), 40.0)
            status = link.decoder.status(0)
            assert status.ack is not None and status.ack.ok and status.ack.generation == 5
            assert status.birth is not None and status.birth.config_generation == 5
            assert status.birth.accel_scale == pytest.approx(0.244e-3 * 9.80665, rel=1e-4)
            late = link.batches[0][15:]
            assert all(len(batch.t_s) >= 4 for batch in late)
            force = np.concatenate([batch.acceleration_m_s2[:, 2] for batch in late])
            assert force == pytest.approx(np.full(len(force), 9.80665), abs=3e-3)

    asyncio.run(scenario())


def test_a_configuration_that_is_refused_is_said_and_changes_nothing(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            link.session.configure(1, StrutConfig(generation=6, accel_range_g=3))
            await until(lambda: link.decoder.status(1).ack is not None, 20.0)
            status = link.decoder.status(1)
            assert status.ack is not None and not status.ack.ok and "accel_range_g" in status.problem
            link.forget()
            await until(lambda: link.fresh(10), 20.0)

    asyncio.run(scenario())


def test_a_birth_that_got_lost_after_a_change_of_configuration_is_asked_for_and_comes(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            lost: list[bytes] = []
            link.lose = lambda strut, kind, payload: (strut, kind) == (0, "state") and not lost and not lost.append(payload)
            link.session.configure(0, StrutConfig(generation=5, batch=4))  # other ranges would bring a second birth
            await until(lambda: bool(lost) and link.decoder.birth_wanted(0), 20.0)
            link.forget()
            await until(lambda: link.fresh(10), 20.0)
            status = link.decoder.status(0)
            assert status.birth is not None and status.birth.config_generation == 5
            assert status.boots == 1 and not link.decoder.birth_wanted(0)

    asyncio.run(scenario())


def test_two_boards_with_one_name_and_client_id_are_called_by_that(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with chain(broker, tmp_path) as link:
            twin = VirtualBoard(config("strut00", broker.port), tmp_path / "twin")
            link.extra.append(twin)
            await asyncio.to_thread(twin.start)
            await until(lambda: link.decoder.status(0).two_boards, 60.0)
            assert "two boards" in link.decoder.status(0).problem
            await asyncio.to_thread(twin.stop)
            link.forget()
            await until(lambda: link.fresh(20), 40.0)

    asyncio.run(scenario())
