"""Back-pressure: whatever a reader does, memory is bounded, the newest is kept and what was dropped is reported."""

from __future__ import annotations

import asyncio
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from onboard.clock import SimulatedClock, WallClock
from onboard.link.inbox import MESSAGES, Arrival, Inbox
from onboard.link.slots import LatestSlots
from onboard.messages import ImuBatch, SensorFlag, frozen


def message(topic: str, payload: bytes = b"x", retain: bool = False) -> SimpleNamespace:
    return SimpleNamespace(topic=topic, payload=payload, retain=retain)


def test_a_reader_that_stops_for_two_seconds_at_400_messages_a_second_gets_the_newest() -> None:
    clock = SimulatedClock(5.0)
    inbox = Inbox(clock, 100)
    for k in range(800):
        inbox.put_nowait(message("p/v1/s/imu", str(k).encode()))
        clock.advance(1 / 400)
    taken = inbox.take()
    assert [int(arrival.payload) for arrival in taken] == list(range(700, 800))
    assert inbox.dropped == 700
    assert taken[-1].received_s == pytest.approx(7.0 - 1 / 400)
    assert clock.now_s() - taken[0].received_s < 0.26


def test_memory_is_bounded_however_long_nobody_reads() -> None:
    inbox = Inbox(SimulatedClock(), 100)
    tracemalloc.start()
    for k in range(40_000):
        inbox.put_nowait(message("p/v1/s/imu" if k % 2 else "p/v1/s/health", bytes(500)))
        if k == 2000:
            before = tracemalloc.get_traced_memory()[0]
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert inbox.qsize() == 100 + MESSAGES
    assert after - before < 100_000
    assert inbox.dropped == 40_000 - inbox.qsize()


def test_data_never_crowd_out_a_birth_and_the_order_of_arrival_holds() -> None:
    inbox = Inbox(SimulatedClock(), 20)
    inbox.put_nowait(message("p/v1/s/state", b"birth"))
    for k in range(1000):
        inbox.put_nowait(message("p/v1/s/imu"))
        if k == 989:
            inbox.put_nowait(message("p/v1/s/health", b"late"))
    taken = inbox.take()
    assert taken[0].payload == b"birth" and len(taken) == 22
    assert [arrival.payload for arrival in taken].index(b"late") == 11


def test_the_reader_waits_and_gets_everything_that_came() -> None:
    async def scenario() -> list[Arrival]:
        inbox = Inbox(WallClock(), 50)
        reading = asyncio.create_task(inbox.get())
        await asyncio.sleep(0)
        assert not reading.done()
        for k in range(10):
            inbox.put_nowait(message("p/v1/s/imu", bytes([k])))
        return await asyncio.wait_for(reading, 1.0)

    assert [arrival.payload[0] for arrival in asyncio.run(scenario())] == list(range(10))


def batch(strut: int, t_s: float) -> ImuBatch:
    zeros = np.zeros((1, 3))
    return ImuBatch(strut, 1, 0, frozen([t_s]), frozen(zeros), frozen(zeros), 20.0, SensorFlag.NONE, t_s)


def test_slots_keep_the_newest_of_every_strut() -> None:
    slots = LatestSlots(3, depth=4)
    for k in range(10):
        slots.put(batch(1, float(k)))
    slots.put(batch(0, 2.5))
    assert [(b.strut, b.t_s[0]) for b in slots.take()] == [(0, 2.5), (1, 6.0), (1, 7.0), (1, 8.0), (1, 9.0)]
    assert slots.dropped.tolist() == [0, 6, 0]
    assert slots.take() == []
    newest = slots.newest(1)
    assert newest is not None and newest.t_s[0] == 9.0 and slots.newest(2) is None
    assert slots.age_s(10.0).tolist() == [7.5, 1.0, np.inf]


@pytest.mark.parametrize(("struts", "depth"), [(0, 1), (1, 0), (-1, 3)])
def test_slots_without_a_place_are_refused(struts: int, depth: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        LatestSlots(struts, depth)
