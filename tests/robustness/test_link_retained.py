"""Retained messages at the embedded broker: whoever did not subscribe gets none, and none can keep a board off the link."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import pytest

from onboard.link.broker import EmbeddedBroker
from tests.hil.support import ready, robot, wait_for


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker("robot", 0) as one:
        yield one


def client(broker: EmbeddedBroker) -> aiomqtt.Client:
    return aiomqtt.Client("127.0.0.1", broker.port)


async def heard(one: aiomqtt.Client, seconds: float = 0.5) -> list[str]:
    """Topics of what comes within a while."""
    topics: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            async for message in one.messages:
                topics.append(str(message.topic))
    except TimeoutError:
        pass
    return topics


def test_a_new_client_hears_of_no_topic_that_only_others_subscribed_to(broker: EmbeddedBroker) -> None:
    async def scene() -> None:
        async with client(broker) as first, client(broker) as writer:
            await first.subscribe("robot/v1/+/state", qos=1)
            await writer.publish("robot/v1/strut00/state", b"born", qos=1, retain=True)
            assert await heard(first) == ["robot/v1/strut00/state"]
            async with client(broker) as second:
                await second.subscribe("robot/v1/+/imu")
                assert await heard(second) == []
                await second.subscribe("robot/v1/+/state", qos=1)
                assert await heard(second) == ["robot/v1/strut00/state"]

    asyncio.run(scene())


@pytest.mark.long
@pytest.mark.parametrize("size", [6000, 1_000_000])
def test_a_big_retained_message_does_not_keep_a_board_off_the_link(tmp_path: Path, size: int) -> None:
    async def poison(port: int, topics: list[str]) -> None:
        async with aiomqtt.Client("127.0.0.1", port) as one:
            for topic in topics:
                await one.publish(topic, b"x" * size, qos=1, retain=True)

    tmp_path.chmod(0o711)
    with robot("module_rig", tmp_path) as rig:
        wait_for(lambda: ready(rig), 30.0, "the rig comes up")
        assert rig.fleet is not None
        root = f"{rig.spec.link.prefix}/v1/strut00"
        asyncio.run(poison(rig.broker.port, [f"{root}/{kind}" for kind in ("cfg", "hello", "armed")]))
        rig.fleet["strut00"].restart()
        wait_for(lambda: "strut_missing" in rig.status()["troubles"], 5.0, "the reset is noticed")
        wait_for(lambda: ready(rig), 20.0, "the strut is back")
        said = rig.fleet["strut00"].log_path.read_text()
        assert "Traceback" not in said
        assert "too long" in said or size < 8192
