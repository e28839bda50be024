"""The session against a broker that dies, freezes, is taken, holds old messages or carries foreign ones."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from onboard.clock import WallClock
from onboard.link.board_json import StrutConfig
from onboard.link.broker import EmbeddedBroker
from onboard.link.decode import Decoder
from onboard.link.session import Session
from tests.link_support import Board, Client, NoWallClock, birth, robot, until
from tests.robustness.session_support import session, topic


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker("prestress/manipulator", 0) as running:
        yield running


def test_packets_come_through_with_their_strut_kind_and_time(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with session(broker) as (link, packets):
            board, client = Board(), Client(broker.port)
            before = time.monotonic()
            client.publish(topic(3, "state"), birth(3), 1, retain=True)
            client.publish(topic(3, "imu"), board.imu(1.0))
            client.publish(topic(19, "health"), b"{}")
            await until(lambda: len(packets) == 3)
            client.close()
            assert [(strut, kind) for strut, kind, _, _ in packets] == [(3, "state"), (3, "imu"), (19, "health")]
            assert all(before <= received <= time.monotonic() for *_, received in packets)
            assert link.refused.total() == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 129, 4096])
def test_payloads_are_exact_at_every_length(broker: EmbeddedBroker, size: int) -> None:
    async def scenario() -> None:
        async with session(broker) as (_, packets):
            client, payload = Client(broker.port), os.urandom(size)
            client.publish(topic(0, "health"), payload)
            await until(lambda: bool(packets))
            client.close()
            assert packets[0][2] == payload

    asyncio.run(scenario())


def test_what_cannot_be_right_is_refused_and_counted(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with session(broker) as (link, packets):
            client = Client(broker.port)
            client.publish(topic(0, "imu"), bytes(16_384))
            client.publish(topic(0, "state"), bytes(70_000))
            for name in ("grün", "strut99", "a b", "x" * 60_000):
                client.publish(f"prestress/manipulator/v1/{name}/imu", b"x")
            client.publish("prestress/manipulator/v1/strut00/cmd", b"x")  # not subscribed
            client.publish(topic(0, "imu"), b"last")
            await until(lambda: bool(packets))
            client.close()
            assert [packet[2] for packet in packets] == [b"last"]
            assert dict(link.refused) == {"oversized": 2, "stranger": 4}
            assert {"grün", "strut99", "a b"} <= link.strangers

    asyncio.run(scenario())


def test_retained_messages_are_never_taken_for_news_except_births(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        client = Client(broker.port)
        for kind in ("imu", "health", "cfg/ack", "sync/rsp", "state"):
            client.publish(topic(0, kind), b"old", 1, retain=True)
        await asyncio.sleep(0.3)
        async with session(broker) as (link, packets):
            client.publish(topic(0, "imu"), b"new", 1, retain=True)
            await until(lambda: link.refused["retained"] == 4 and len(packets) == 2)
            assert sorted(packet[2] for packet in packets) == [b"new", b"old"]
        client.close()

    asyncio.run(scenario())


def test_a_broker_that_is_killed_and_started_again_is_found_again() -> None:
    async def scenario() -> None:
        first = EmbeddedBroker("prestress/manipulator", 0)
        first.start()
        async with session(first) as (link, packets):
            assert first.pid is not None
            os.kill(first.pid, signal.SIGKILL)
            first.stop()
            await until(lambda: not link.connected)
            await asyncio.sleep(0.6)
            with EmbeddedBroker("prestress/manipulator", first.port):
                await until(lambda: link.connected)
                client = Client(first.port)
                client.publish(topic(0, "imu"), b"again")
                await until(lambda: bool(packets))
                client.close()
                assert link.connects == 2

    asyncio.run(scenario())


def test_a_frozen_broker_is_noticed_and_left_and_found_again(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with session(broker, robot(keepalive_s=1)) as (link, packets):
            client = Client(broker.port)
            client.publish(topic(0, "imu"), b"before")
            await until(lambda: bool(packets))
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                await until(lambda: not link.connected, 8.0)
                await asyncio.sleep(2.5)  # connecting to it hangs and must be given up
                assert not link.connected
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            await until(lambda: link.connected)
            packets.clear()
            client.publish(topic(0, "imu"), b"after")
            await until(lambda: any(packet[2] == b"after" for packet in packets))
            client.close()

    asyncio.run(scenario())


def test_configurations_are_retained_and_sent_again_after_a_reconnect(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with session(broker) as (link, _):
            link.configure(5, StrutConfig(generation=3, batch=4))
            await asyncio.sleep(0.3)
            late = Client(broker.port)
            late.subscribe(topic(5, "cfg"))
            await until(lambda: bool(late.received))
            late.close()
            name, payload, retained = late.received[0]
            assert name == topic(5, "cfg") and retained and b'"batch":4' in payload

    asyncio.run(scenario())


def test_boards_are_asked_for_their_clocks(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        client = Client(broker.port)
        client.subscribe("prestress/manipulator/v1/+/sync/req")
        async with session(broker, robot(sync_period_ms=500)):
            await until(lambda: len({name for name, _, _ in client.received}) == 20, 5.0)
        client.close()
        assert not any(retained for _, _, retained in client.received)

    asyncio.run(scenario())


def test_a_strut_whose_birth_was_lost_is_asked_for_it(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        spec, clock = robot(), NoWallClock()
        decoder, board, client = Decoder(spec), Board(boot_id=9), Client(broker.port)
        client.subscribe("prestress/manipulator/v1/+/hello")
        link = Session(spec, broker.endpoint, clock, lambda *packet: [decoder.packet(*packet)].clear(), decoder)
        task = asyncio.create_task(link.run())
        await until(lambda: link.connected)
        client.publish(topic(4, "imu"), board.imu(clock.now_s()))
        await until(lambda: decoder.birth_wanted(4))
        await until(lambda: bool(client.received), 5.0)
        assert [(name, payload, retained) for name, payload, retained in client.received] == [(topic(4, "hello"), b"", False)]
        client.publish(topic(4, "state"), birth(4, 9), 1, retain=True)
        await until(lambda: not decoder.birth_wanted(4))
        await asyncio.sleep(1.5)
        assert len(client.received) == 1
        client.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_a_blocked_event_loop_gets_the_newest_and_says_what_it_lost(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with session(broker, robot(queue=100)) as (link, packets):
            client = Client(broker.port)
            client.publish(topic(0, "imu"), b"-1")
            await until(lambda: bool(packets))
            packets.clear()
            time.sleep(0.2)  # noqa: ASYNC251 (the loop is blocked on purpose)
            start = time.monotonic()
            for k in range(800):
                client.publish(topic(0, "imu"), str(k).encode())
                time.sleep(max(0.0, start + k / 400 - time.monotonic()))  # noqa: ASYNC251
            await until(lambda: bool(packets) and packets[-1][2] == b"799", 5.0)
            client.close()
            assert len(packets) + link.dropped == 800
            assert len({packet[2] for packet in packets}) == len(packets)

    asyncio.run(scenario())


def test_an_error_in_the_reader_is_not_swallowed(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        spec = robot()

        def fail(*_: object) -> None:
            raise ZeroDivisionError("reader")

        link = Session(spec, broker.endpoint, WallClock(), fail, Decoder(spec))
        task = asyncio.create_task(link.run())
        await until(lambda: link.connected)
        client = Client(broker.port)
        client.publish(topic(0, "imu"), b"x")
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(task, 5.0)
        client.close()

    asyncio.run(scenario())


def test_a_session_ends_whenever_it_is_told_to(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        rng, spec = random.Random(3), robot(sync_period_ms=5)
        for _ in range(40):
            link = Session(spec, broker.endpoint, NoWallClock(), lambda *_: None, Decoder(spec))
            task = asyncio.create_task(link.run())
            await asyncio.sleep(rng.uniform(0.0, 0.08))
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=10.0)
            assert done and task.cancelled()

    asyncio.run(scenario())
