"""Motor boards with simulated drives behind them and the daemon's sink in front, all on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.clock import WallClock
from onboard.link.endpoint import Endpoint
from onboard.link.motor_boards import MotorBoards
from onboard.link.motor_spec import MotorRobot
from onboard.messages import BoardReport, Floats, ImuBatch, Setpoints
from onboard.three_bar_robot import load_robot, motor_robot
from sim.boards.launcher import BoardFleet
from sim.boards.motor_rig import MotorPlantFeed, motor_board_configs
from tests.firmware.conftest import GRAVITY, Broker

STEP_S = 0.005
IMU_HZ = 104.0


def one_rod(robot: MotorRobot) -> MotorRobot:
    """The robot with its first board alone, its two motors numbered from 0: a process fewer on a busy machine."""
    entry = msgspec.structs.replace(robot.motors.boards[0], motors=[0, 1])
    motors = msgspec.structs.replace(robot.motors, boards=[entry], deadline_ms=400, command_ttl_ms=300)
    return replace(robot, struts=robot.struts[:1], motors=motors)


class Rig:
    """Boards, drives and sink. `wanted` is what a control loop of 50 Hz sends under the present epoch; None: it is silent."""

    def __init__(self, fleet: BoardFleet, feed: MotorPlantFeed, sink: MotorBoards, robot: MotorRobot, clock: WallClock) -> None:
        self.fleet, self.feed, self.sink, self.robot, self.clock = fleet, feed, sink, robot, clock
        self.wanted: Floats | None = None
        self.batches: list[ImuBatch] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._plant, daemon=True)

    def _plant(self) -> None:
        begun = last = time.monotonic()
        samples = 0
        while not self._stop.wait(STEP_S):
            now = time.monotonic()
            self.feed.step(now - last)
            last = now
            while samples < (now - begun) * IMU_HZ:
                samples += 1
                for board in range(len(self.robot.struts)):
                    self.feed.imu(board, samples, GRAVITY, (0.0, 0.0, 0.001 * (samples % 100)))

    @contextlib.contextmanager
    def plant(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    async def control(self) -> None:
        while True:
            if self.wanted is not None:
                self.sink.send(Setpoints(self.clock.now_s(), self.wanted, "test"))
            await asyncio.sleep(0.02)

    @property
    def report(self) -> BoardReport:
        """Of the first board."""
        return self.sink.reports()[0]

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 15.0) -> None:
        end_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end_s:
                pytest.fail(f"not within {timeout_s} s: {what}; {self.sink.problems()}; {self.sink.reports()}")
            await asyncio.sleep(0.01)

    async def ready(self) -> None:
        await self.until(lambda: self.sink.ready and all(r.ready for r in self.sink.reports()), "all boards ready")

    async def armed(self, epoch: int, wanted: Floats) -> None:
        """Ready, armed under `epoch`, commanded."""
        await self.ready()
        self.sink.arm(epoch)
        self.wanted = wanted
        await self.until(lambda: all(r.armed and r.epoch == epoch for r in self.sink.reports()), "armed")

    def still(self) -> bool:
        """No bridge drives."""
        return bool(np.all(np.abs(self.feed.speed_rad_s) < 0.01))


@asynccontextmanager
async def rig(broker: Broker, folder: Path, robot: MotorRobot | None = None) -> AsyncIterator[Rig]:
    """One rod's board by default, running and connected."""
    robot = robot or one_rod(motor_robot(load_robot()))
    clock = WallClock()
    endpoint = Endpoint("127.0.0.1", broker.port)
    with (
        BoardFleet(motor_board_configs(robot, endpoint), folder / "boards") as fleet,
        MotorPlantFeed(robot, folder / "boards") as feed,
    ):
        sink = MotorBoards(robot, endpoint, clock, on_batch=lambda batch: made.batches.append(batch))
        made = Rig(fleet, feed, sink, robot, clock)
        fleet.start()
        with made.plant():
            tasks = [asyncio.create_task(sink.run()), asyncio.create_task(made.control())]
            try:
                yield made
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
