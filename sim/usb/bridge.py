"""The process between the plant and real boards: recognises them, feeds them, times all samples until they are at the broker.

    python -m sim.usb.bridge

Settings and commands come as JSON lines on standard input ({"do": "begin"}, {"do": "end"}; its end ends the process),
events go as JSON lines to standard output: found, fed, say, failed, result.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomqtt
import msgspec

from onboard.clock import WallClock, wait_s
from onboard.errors import PrestressError
from onboard.link.endpoint import Endpoint
from onboard.link.topics import Topics
from onboard.robot import RobotSpec, load_robot
from onboard.runtime.realtime import enter_realtime
from sim.imu import ImuArray
from sim.usb.fed_board import FedBoard
from sim.usb.latency import BoardLatency, added
from sim.usb.tap import FAULTS, SAMPLE, TapReader

PRIORITY = 10  # as the plant's: a slow bridge would be measured as a slow cable
RETRY_S = 0.5
LINE_BYTES = 1 << 16


class Settings(msgspec.Struct, frozen=True):
    """First line. boards: strut -> port. timed: virtual struts to compare with. tap: the plant's socket."""

    robot: str
    seed: int
    boards: dict[str, str]
    timed: list[str]
    tap: str


class Order(msgspec.Struct, frozen=True):
    """Every other line. begin: put the boards onto the plant's samples and watch this broker. end: give them back."""

    do: str
    host: str = ""
    port: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca_file: str | None = None


class Bridge:
    """All boards of one robot."""

    def __init__(self, settings: Settings) -> None:
        self._spec: RobotSpec = load_robot(Path(settings.robot))
        self._clock = WallClock()
        self._tap = TapReader(Path(settings.tap))
        share = ImuArray(self._spec, settings.seed).rate_hz / self._spec.imu.rate_hz - 1.0
        self._steps = {name: round(share[self._spec.struts.index(name)] / 0.0015) for name in settings.boards}
        self._times = {name: BoardLatency(fed=True) for name in settings.boards}
        self._times |= {name: BoardLatency(fed=False) for name in settings.timed}
        self._boards = {name: self._board(name, port) for name, port in settings.boards.items()}
        self._tasks: list[asyncio.Task[None]] = []

    def _board(self, name: str, port: str) -> FedBoard:
        times = self._times[name]
        return FedBoard(name, port, self._clock, _say, lambda report, t_s: times.registered(report.counter, t_s))

    async def find(self) -> None:
        """Recognise every board; LinkError names the first that is not what it should be."""
        link, imu = self._spec.link, self._spec.imu
        found = {name: await board.recognise(link.prefix, imu.sensor) for name, board in self._boards.items()}
        _tell("found", boards={name: msgspec.to_builtins(hello) for name, hello in found.items()})

    async def begin(self, endpoint: Endpoint) -> None:
        """Feed every board from now on, and watch the broker; LinkError when one refuses."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._tap.fileno(), self._tapped)
        for name, board in self._boards.items():
            await board.begin(self._steps[name])
            self._tasks.append(loop.create_task(board.tend()))
        self._tasks.append(loop.create_task(self._listen(endpoint)))
        for task in self._tasks:
            task.add_done_callback(_task_ended)
        _tell("fed")

    async def end(self) -> None:
        """Give every board back, tell the figures."""
        asyncio.get_running_loop().remove_reader(self._tap.fileno())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        released = {name: await board.release() for name, board in self._boards.items()}
        self._tap.close()
        for name, good in released.items():
            if good:
                _say(f"{name}: is back on its own sensor, as it says itself")
        boards = {name: self._figures(name, board, released[name]) for name, board in self._boards.items()}
        fed = [self._times[name] for name in self._boards]
        virtual = [times for times in self._times.values() if not times.fed]
        _tell("result", boards=boards, **added(fed, virtual))

    def _figures(self, name: str, board: FedBoard, released: bool) -> dict[str, Any]:
        newest = board.newest
        return {
            "port": board.path,
            "chip_id": board.hello.board_id if board.hello else "",
            "fed": board.sent,
            "missed": newest.missed if newest else 0,
            "losses": board.losses,
            "released": released,
            **self._times[name].figures(),
        }

    def _tapped(self) -> None:
        for item in self._tap.read():
            name = self._spec.struts[item.strut]
            board = self._boards.get(name)
            if item.kind == SAMPLE:
                if board is not None:
                    board.feed(item.value, item.raw)
                if board is None or board.fed:
                    self._times[name].taken(item.t_s, item.value, item.raw)
            elif item.kind == FAULTS and board is not None:
                board.set_faults(item.value)

    async def _listen(self, endpoint: Endpoint) -> None:
        """Packets of the timed struts as any subscriber gets them; a broker that goes away is tried again."""
        topics = Topics(self._spec.link.prefix)
        names = {topics.of(name, "imu"): times for name, times in self._times.items()}
        while True:
            with suppress(aiomqtt.MqttError, OSError):
                client = aiomqtt.Client(
                    endpoint.host,
                    endpoint.port,
                    identifier=f"prestress-loop-{secrets.token_hex(6)}",
                    username=endpoint.username,
                    password=endpoint.password,
                    tls_context=endpoint.tls_context(),
                )
                async with client:
                    await client.subscribe([(topic, 0) for topic in names])
                    async for message in client.messages:
                        now_s = self._clock.now_s()
                        times = names.get(str(message.topic))  # brokers have been seen to send what was not asked for
                        if times is not None and isinstance(message.payload, bytes):
                            times.packet(message.payload, now_s)
            await wait_s(RETRY_S)


def _tell(event: str, **fields: Any) -> None:
    with suppress(OSError):  # whoever started us is gone: the end of standard input follows
        os.write(1, msgspec.json.encode({"event": event, **fields}) + b"\n")


def _task_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _say(f"the bridge to the boards has a fault: {type(error).__name__}: {error}")


def _say(line: str) -> None:
    _tell("say", text=line)


async def serve() -> int:
    """Until standard input ends or says so; boards are given back whatever happens."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    bridge: Bridge | None = None
    try:
        bridge = Bridge(msgspec.json.decode(await reader.readline(), type=Settings))
        await bridge.find()
        while line := await reader.readline():
            order = msgspec.json.decode(line, type=Order)
            if order.do == "end":
                break
            await bridge.begin(Endpoint(order.host, order.port, order.username, order.password, order.tls, order.ca_file))
    except PrestressError as error:
        _tell("failed", text=str(error))
        return error.exit_code
    finally:
        if bridge is not None:
            await bridge.end()
    return 0


def main() -> int:
    """The process."""
    enter_realtime(PRIORITY)
    return asyncio.run(serve())


if __name__ == "__main__":
    sys.exit(main())
