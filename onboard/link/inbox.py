"""What the broker has sent and nobody has looked at yet: bounded, oldest data dropped first, arrival times kept.

It takes the place of the MQTT client's own queue, which is unbounded and would go stale behind a slow reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from heapq import merge
from typing import Protocol

from onboard.clock import Clock, wait_s

MESSAGES = 256  # births, health and acknowledgements: few, and never crowded out by data
STALL_S = 0.05  # nothing taken for this long: either little comes, or the reader was held up and much may wait
GATHER_S = 0.003  # a look at the queue for each message would cost more than the message
SETTLE_S = 0.05  # after a stall, empty the socket for at most this long before looking at what it held


class IncomingMessage(Protocol):
    """What is used of an MQTT client's message."""

    topic: object
    payload: object
    retain: bool


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message as it came. retained: stored by the broker, of unknown age. number: how many came before."""

    topic: str
    payload: bytes
    retained: bool
    received_s: float
    number: int


class Inbox:
    """Two bounded queues, for data and for other messages. Used like asyncio.Queue by one reader.

    dropped: arrivals thrown away since the start because they were never taken.
    """

    def __init__(self, clock: Clock, data_places: int) -> None:
        self._clock = clock
        self._data: deque[Arrival] = deque(maxlen=data_places)
        self._other: deque[Arrival] = deque(maxlen=MESSAGES)
        self._something = asyncio.Event()
        self.dropped = 0
        self.count = 0
        self.last_live_s: float | None = None
        self._taken_s = clock.now_s()

    def put_nowait(self, message: IncomingMessage) -> None:
        """Take a message, stamp it, drop the oldest of its queue if that is full."""
        now_s = self._clock.now_s()
        payload = message.payload if isinstance(message.payload, bytes) else b""
        arrival = Arrival(str(message.topic), payload, bool(message.retain), now_s, self.count)
        if not arrival.retained:
            self.last_live_s = now_s
        queue = self._data if arrival.topic.endswith(("/imu", "/tlm")) else self._other
        if len(queue) == queue.maxlen:
            self.dropped += 1
        queue.append(arrival)
        self.count += 1
        self._something.set()

    def qsize(self) -> int:
        """How many arrivals wait."""
        return len(self._data) + len(self._other)

    async def get(self) -> list[Arrival]:
        """Wait for something, gather what comes with it, and take all in the order of arrival.

        After a stall the socket runs empty first.
        """
        await self._something.wait()
        start_s = self._clock.now_s()
        if start_s - self._taken_s > STALL_S:
            seen = -1
            while seen != self.count and self._clock.now_s() - start_s < SETTLE_S:
                seen = self.count
                await wait_s(0.0)
                await wait_s(0.0)
        else:
            await wait_s(GATHER_S)
        return self.take()

    def take(self) -> list[Arrival]:
        """Everything that waits, now, in the order of arrival."""
        taken = list(merge(self._other, self._data, key=lambda arrival: arrival.number))
        self._other.clear()
        self._data.clear()
        self._something.clear()
        self._taken_s = self._clock.now_s()
        return taken
