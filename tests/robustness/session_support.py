"""A session that runs, connected to the embedded broker, for tests of the link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from onboard.link.broker import EmbeddedBroker
from onboard.link.decode import Decoder
from onboard.link.session import Session
from onboard.robot import RobotSpec
from tests.link_support import NoWallClock, robot, until

Packet = tuple[int, str, bytes, float]


@asynccontextmanager
async def session(broker: EmbeddedBroker, spec: RobotSpec | None = None) -> AsyncIterator[tuple[Session, list[Packet]]]:
    """A running session, connected, and the packets that it hands on."""
    spec = spec or robot()
    packets: list[Packet] = []
    link = Session(spec, broker.endpoint, NoWallClock(), lambda *packet: packets.append(packet), Decoder(spec))
    task = asyncio.create_task(link.run())
    try:
        await until(lambda: link.connected or task.done())
        yield link, packets
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def topic(strut: int, kind: str) -> str:
    return f"prestress/manipulator/v1/strut{strut:02d}/{kind}"
