"""Whatever clients of the control socket do, the event loop that they share with the robot goes on.

Server and clients share one loop here: a server that waited for one of them could never answer the next, and the scenario's
time would run out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from onboard.runtime import control_socket
from onboard.runtime.control_socket import MAX_CLIENTS, MAX_LINE_BYTES, ControlSocket

TICK_S = 0.005
BIG = "x" * 4_000_000  # more than a socket's buffers hold


class Crowd:
    """A control socket and its clients."""

    def __init__(self, path: Path) -> None:
        self.path = path

        def answer(request: dict) -> dict:
            return {"big": BIG} if request["do"] == "big" else {"did": request["do"]}

        self.server = ControlSocket(path, answer)

    async def client(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(self.path), limit=1 << 24)
        writer.write(data)
        return reader, writer

    async def served(self) -> bool:
        """Whether an orderly client gets its answer now."""
        reader, writer = await self.client(b'{"do": "status"}\n')
        async with asyncio.timeout(5.0):
            line = await reader.readline()
        writer.close()
        return bool(line) and json.loads(line)["ok"]

    def run(self, scenario: Callable[[Crowd], Awaitable[None]]) -> None:
        async def all_of_it() -> None:
            await self.server.start()
            try:
                async with asyncio.timeout(20.0):
                    await scenario(self)
            finally:
                await self.server.close()
                assert not self.server._clients

        asyncio.run(all_of_it())


@pytest.fixture
def crowd(tmp_path: Path) -> Crowd:
    return Crowd(tmp_path / "robot.sock")


async def rest(ticks: int = 20) -> None:
    await asyncio.sleep(ticks * TICK_S)


def test_a_client_that_never_ends_its_line_keeps_nobody_waiting(crowd: Crowd) -> None:
    async def scenario(crowd: Crowd) -> None:
        reader, writer = await crowd.client(b'{"do": "sta')
        await rest()
        assert await crowd.served()
        writer.write(b'tus"}\n')
        assert json.loads(await reader.readline()) == {"ok": True, "did": "status"}
        writer.close()

    crowd.run(scenario)


def test_a_client_that_goes_in_the_middle_of_a_line_leaves_nothing_behind(crowd: Crowd) -> None:
    async def scenario(crowd: Crowd) -> None:
        for data in (b'{"do"', b"", b'{"do": "status"}', b"\xff\xfe"):
            _, writer = await crowd.client(data)
            await writer.drain()
            writer.close()
        await rest()
        assert not crowd.server._clients and await crowd.served()

    crowd.run(scenario)


def test_a_client_that_does_not_read_its_answers_is_dropped_and_nobody_waits_for_it(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_socket, "REPLY_TIMEOUT_S", 0.3)

    async def scenario(crowd: Crowd) -> None:
        reader, writer = await crowd.client(b'{"do": "big"}\n' * 20)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await rest()
        assert len(crowd.server._clients) == 1 and await crowd.served()
        while crowd.server._clients:
            await rest(2)
        assert await crowd.served()
        writer.transport.abort()

    crowd.run(scenario)


def test_a_silent_client_loses_its_place(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "IDLE_TIMEOUT_S", 0.2)

    async def scenario(crowd: Crowd) -> None:
        reader, writer = await crowd.client()
        assert await reader.read() == b"" and not crowd.server._clients
        writer.close()

    crowd.run(scenario)


def test_a_huge_line_is_refused_by_its_size_and_not_kept(crowd: Crowd) -> None:
    async def scenario(crowd: Crowd) -> None:
        reader, writer = await crowd.client(b'{"do": "' + b"a" * (64 * MAX_LINE_BYTES))
        answer = json.loads(await reader.readline())
        assert not answer["ok"] and str(MAX_LINE_BYTES) in answer["error"]
        assert await crowd.served()
        writer.transport.abort()

    crowd.run(scenario)


def test_of_a_hundred_clients_at_once_each_gets_an_answer_or_a_refusal(crowd: Crowd) -> None:
    async def scenario(crowd: Crowd) -> None:
        clients = await asyncio.gather(*(crowd.client(b'{"do": "status"}\n') for _ in range(100)))
        answers = [json.loads(await reader.readline()) for reader, _ in clients]
        served = [answer for answer in answers if answer["ok"]]
        assert len(served) == MAX_CLIENTS and crowd.server.refused == 100 - MAX_CLIENTS
        assert all("clients at once" in answer["error"] for answer in answers if not answer["ok"])
        for _, writer in clients:
            writer.close()
        await rest()
        assert not crowd.server._clients and await crowd.served()

    crowd.run(scenario)


def test_a_hundred_silent_connections_leave_the_loop_alone_and_places_come_back(crowd: Crowd) -> None:
    async def scenario(crowd: Crowd) -> None:
        clients = await asyncio.gather(*(crowd.client() for _ in range(100)))
        await rest()
        reader, writer = await crowd.client(b'{"do": "status"}\n')
        assert not json.loads(await reader.readline())["ok"]
        for _, other in (*clients, (reader, writer)):
            other.close()
        await rest()
        assert await crowd.served()

    crowd.run(scenario)
