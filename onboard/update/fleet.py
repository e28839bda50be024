"""Boards one after another over one session at the broker; the first that fails ends the row, so that one alone is in trouble."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiomqtt

from onboard.clock import Clock, WallClock
from onboard.errors import LinkError, PrestressError, SafetyError, WireError
from onboard.flash.board_files import ARCHITECTURES
from onboard.flash.flasher import image_for
from onboard.flash.image import bytecode_of
from onboard.flash.robot_boards import BoardRobot, app_of
from onboard.link.board_json import Birth, decode_birth
from onboard.link.endpoint import Endpoint
from onboard.link.topics import Topics
from onboard.runtime.control_socket import ask, runtime_dir, socket_path
from onboard.safety.table import State
from onboard.update.board import BoardUpdate, Outcome, Report, decode_report
from onboard.update.keys import Signer
from onboard.update.manifest import Update, make_update

TIMEOUT_S = 10.0  # for each answer of the broker
UNCONFIRMED = ("ota/chunk",)  # boards ask again for what gets lost
AT_REST = (State.DISARMED, State.SAFE, State.FAULT)
Progress = Callable[[str, str, int, int], None]


async def refuse_armed(robot: str) -> None:
    """SafetyError unless the robot's daemon, if one runs on this computer, says that it is at rest."""
    try:
        reply = await asyncio.to_thread(ask, socket_path(robot), {"do": "status"})
    except LinkError as error:
        if isinstance(error.__cause__, (FileNotFoundError, ConnectionRefusedError)):
            return  # no daemon here; one elsewhere tells the boards, and they refuse
        raise
    state = reply["status"]["state"]
    if state not in AT_REST:
        raise SafetyError(f"{robot} is {state}: updates are for a disarmed robot only; prestress disarm {robot}")


class OneAtATime:
    """A lock that one updating command of a robot holds; SafetyError for the second."""

    def __init__(self, robot: str) -> None:
        self._path = runtime_dir() / f"{robot}.update.lock"
        self._file = -1

    def __enter__(self) -> OneAtATime:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise SafetyError(f"another update of {self._path.name.removesuffix('.update.lock')} is in progress") from None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


class _BoardChannel:
    """One board's topics over the common session; what it says waits in its own queue; a text there is why the session ended."""

    def __init__(self, client: aiomqtt.Client, topics: Topics, board_id: str) -> None:
        self._client, self._topics, self._id = client, topics, board_id
        self.queue: asyncio.Queue[Report | Birth | str] = asyncio.Queue()

    async def send(self, leaf: str, payload: bytes) -> None:
        try:
            await self._client.publish(self._topics.of(self._id, leaf), payload, qos=0 if leaf in UNCONFIRMED else 1)
        except aiomqtt.MqttError as error:
            raise self._lost(str(error)) from error

    async def heard(self, timeout_s: float) -> Report | Birth | None:
        try:
            async with asyncio.timeout(timeout_s):
                said = await self.queue.get()
        except TimeoutError:
            return None
        if isinstance(said, str):
            raise self._lost(said)
        return said

    def _lost(self, why: str) -> LinkError:
        text = f"the broker was lost ({why}); the board keeps its firmware, or goes back to it if it was on trial"
        return LinkError(f"{self._id}: {text}")


class FleetUpdate:
    """Updates boards of one robot. on_progress(board, text, done, total)."""

    def __init__(
        self,
        spec: BoardRobot,
        endpoint: Endpoint,
        signer: Signer,
        firmware: Path,
        trial_s: int,
        on_progress: Progress = lambda board, text, done, total: None,
        clock: Clock | None = None,
    ) -> None:
        self._spec, self._endpoint, self._signer = spec, endpoint, signer
        self._firmware, self._trial_s, self._on_progress = firmware, trial_s, on_progress
        self._clock = clock or WallClock()
        self._update = lru_cache(maxsize=8)(self._make)

    async def run(self, boards: Sequence[str]) -> tuple[list[Outcome], dict[str, str]]:
        """(boards done, {board: why it failed}); boards after a failed one are in neither. LinkError without a broker,
        SafetyError while the robot is armed or another update runs."""
        await refuse_armed(self._spec.name)
        with OneAtATime(self._spec.name):
            try:
                async with self._client() as client:
                    return await self._row(client, boards)
            except aiomqtt.MqttError as error:
                raise LinkError(f"the broker {self._endpoint} cannot be used: {error}") from error

    def _client(self) -> aiomqtt.Client:
        return aiomqtt.Client(
            self._endpoint.host,
            self._endpoint.port,
            username=self._endpoint.username,
            password=self._endpoint.password,
            tls_context=self._endpoint.tls_context(),
            timeout=TIMEOUT_S,
        )

    async def _row(self, client: aiomqtt.Client, boards: Sequence[str]) -> tuple[list[Outcome], dict[str, str]]:
        topics = Topics(self._spec.link.prefix)
        channels = {board: _BoardChannel(client, topics, board) for board in boards}
        for board in boards:
            await client.subscribe([(topics.of(board, "ota/ack"), 1), (topics.of(board, "state"), 1)])
        listening = asyncio.create_task(self._listen(client, topics, channels))
        done: list[Outcome] = []
        try:
            for board in boards:
                try:
                    done.append(await self._one(board, channels[board]).run())
                except PrestressError as error:
                    return done, {board: str(error).removeprefix(f"{board}: ")}
            return done, {}
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    def _one(self, board: str, channel: _BoardChannel) -> BoardUpdate:
        def tell(text: str, done: int, total: int) -> None:
            self._on_progress(board, text, done, total)

        async def gate() -> None:
            await refuse_armed(self._spec.name)

        while not channel.queue.empty():  # what it said while others had their turn
            channel.queue.get_nowait()
        return BoardUpdate(
            board, channel, lambda report: self._update(report.board, report.mpy), gate, self._signer, self._clock, tell
        )

    def _make(self, board: str, mpy: int) -> Update:
        """The firmware compiled and signed for what a board says it is."""
        number = mpy >> 10
        architecture = ARCHITECTURES[number] if number < len(ARCHITECTURES) else ""
        if board != self._spec.imu.board or not architecture:
            raise LinkError(f"is a {board} with interpreter {mpy}, the robot's file says {self._spec.imu.board}")
        image = image_for(self._firmware, architecture)
        if bytecode_of(image) != mpy & 0xFF:
            raise LinkError(f"its interpreter loads files of version {mpy & 0xFF}, mpy-cross makes {bytecode_of(image)}")
        return make_update(image, board, app_of(self._spec, self._spec.struts[0]), mpy, self._signer, self._trial_s)

    async def _listen(self, client: aiomqtt.Client, topics: Topics, channels: dict[str, _BoardChannel]) -> None:
        wanted: dict[str, tuple[_BoardChannel, Callable[[bytes], Any]]] = {}
        for board, channel in channels.items():
            wanted[topics.of(board, "ota/ack")] = (channel, decode_report)
            wanted[topics.of(board, "state")] = (channel, decode_birth)
        try:
            async for message in client.messages:
                found = wanted.get(str(message.topic))
                if found is None or not isinstance(message.payload, bytes) or message.retain:
                    continue
                channel, decode = found
                with suppress(WireError, PrestressError):
                    channel.queue.put_nowait(decode(message.payload))
        except aiomqtt.MqttError as error:
            for channel in channels.values():
                channel.queue.put_nowait(str(error))
