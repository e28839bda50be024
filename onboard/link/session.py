"""The daemon's session at the broker: connects, subscribes, hands packets on, asks boards for their clocks, reconnects.

Every wait has an end. A client object serves one connection; the inbox outlives it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

import aiomqtt

from onboard.clock import Clock, wait_s
from onboard.errors import LinkError
from onboard.link.birth_requests import BirthRequests
from onboard.link.board_json import StrutConfig, encode_config
from onboard.link.clock_sync import SyncSchedule
from onboard.link.endpoint import Endpoint
from onboard.link.inbox import Arrival, Inbox
from onboard.link.reached import Reached
from onboard.link.topics import Topics
from onboard.link.wire import encode_sync_request

log = logging.getLogger("prestress.link")

RETRY_S = 0.25
TIMEOUT_S = 2.0  # for each answer of the broker
PACE_S = 0.02  # how often due clock exchanges are looked for
ARMED_S = 1.0  # how often struts are told that the robot is armed; they believe it for three times as long
MAX_PAYLOAD = {  # bytes
    "imu": 528,
    "sync/rsp": 64,
    "state": 4096,
    "health": 4096,
    "cfg/ack": 2048,
    "tlm": 288,
    "motor/ack": 2048,
}
STRANGERS = 32  # names kept of boards that the robot's file does not have
MAX_NAME = 48  # letters kept of such a name: anyone at the broker may make one of 64 kB

OnPacket = Callable[[int, str, bytes, float], None]


class SyncPace(Protocol):
    """Who knows what is lacking of each board: link/decode.py's Decoder."""

    def sync_interval_s(self, strut: int) -> float:
        """How long to wait before the next exchange with a board [s]."""

    def birth_wanted(self, strut: int) -> bool:
        """Whether the board sends what cannot be read without its birth message."""


class Session:
    """One robot's MQTT session. `run()` lasts until cancelled and survives any broker.

    on_packet(strut, kind, payload, received_s) is called in the order of arrival, on the event loop, for every packet of
    the robot's struts that may be acted on. connected: right now. armed: set while actuators may move; struts are told, and
    refuse updates and changes of configuration. connects: how often. refused: packets refused here, by
    reason (retained, oversized, stranger, foreign_topic). strangers: their names.
    """

    def __init__(self, spec: Reached, endpoint: Endpoint, clock: Clock, on_packet: OnPacket, pace: SyncPace) -> None:
        self.endpoint = endpoint
        self.connected = False
        self.armed = False
        self.connects = 0
        self.refused: Counter[str] = Counter()
        self.strangers: set[str] = set()
        self.last_error = ""
        self._spec, self._clock, self._on_packet, self._pace = spec, clock, on_packet, pace
        self._topics = Topics(spec.link.prefix)
        self._index = {name: index for index, name in enumerate(spec.struts)}
        self._tls = endpoint.tls_context()
        self._inbox = Inbox(clock, spec.link.queue)
        self._schedule = SyncSchedule(len(spec.struts), spec.link.sync_period_ms / 1000.0)
        self._birth_requests = BirthRequests(len(spec.struts))
        self._configs: dict[str, bytes] = {}
        self._config_due: set[str] = set()
        self._armed_due_s = 0.0
        self._armed_told = False
        # Never two sessions under one name: the broker would let them throw each other out once a second.
        self._client_id = f"prestress-{secrets.token_hex(6)}"

    @property
    def dropped(self) -> int:
        """Packets dropped unread since the start, oldest first, because they came faster than they were taken."""
        return self._inbox.dropped

    def configure(self, strut: int, config: StrutConfig) -> None:
        """Keep `config` as the strut's retained configuration; sent now if connected, and at every reconnect."""
        topic = self._topics.of(self._spec.struts[strut], "cfg")
        self._configs[topic] = encode_config(config)
        self._config_due.add(topic)

    async def run(self) -> None:
        """Keep the session up until cancelled; errors of `on_packet` end it."""
        while not _cancelled():
            try:
                await self._once()
            except (aiomqtt.MqttError, LinkError, OSError) as error:
                self._say(error)
            finally:
                self.connected = False
            await wait_s(RETRY_S)
        raise asyncio.CancelledError

    def _say(self, error: Exception) -> None:
        text = f"{self.endpoint}: {error}"
        if text != self.last_error:
            log.warning("broker %s; trying again every %.2f s", text, RETRY_S)
        self.last_error = text

    async def _once(self) -> None:
        client = aiomqtt.Client(
            self.endpoint.host,
            self.endpoint.port,
            identifier=self._client_id,
            username=self.endpoint.username,
            password=self.endpoint.password,
            tls_context=self._tls,
            keepalive=self._spec.link.keepalive_s,
            timeout=TIMEOUT_S,
            clean_session=True,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
            queue_type=cast("Any", partial(self._use_inbox)),
        )
        async with client:
            filters = [(name, 0 if name.endswith(("imu", "rsp")) else 1) for name in self._topics.filters()]
            codes = await client.subscribe(filters)
            if any((code if isinstance(code, int) else code.value) >= 128 for code in codes):
                raise LinkError(f"may not subscribe below {self._spec.link.prefix}: check user and access list of the broker")
            if _cancelled():
                return
            self._inbox.last_live_s = None
            self._config_due.update(self._configs)
            self.connected, self.last_error = True, ""
            self.connects += 1
            log.info("connected to the broker at %s", self.endpoint)
            # No TaskGroup: Python 3.11's leaves the task that it was used in marked as cancelled.
            tasks = [asyncio.create_task(self._receive(client)), asyncio.create_task(self._talk(client))]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _use_inbox(self, maxsize: int = 0) -> Inbox:
        return self._inbox

    async def _receive(self, client: aiomqtt.Client) -> None:
        async for arrivals in client.messages:
            for arrival in cast("list[Arrival]", arrivals):
                self._deliver(arrival)
            if _cancelled():
                return

    def _deliver(self, arrival: Arrival) -> None:
        parsed = self._topics.parse(arrival.topic)
        if parsed is None:
            self.refused["foreign_topic"] += 1
            return
        board, kind = parsed
        strut = self._index.get(board)
        if strut is None:
            self.refused["stranger"] += 1
            board = board if len(board) <= MAX_NAME else board[:MAX_NAME] + "..."
            if board not in self.strangers and len(self.strangers) < STRANGERS:
                self.strangers.add(board)
                log.warning("board %a is not in %s: ignored", board, self._spec.file)
        elif len(arrival.payload) > MAX_PAYLOAD[kind]:
            self.refused["oversized"] += 1
        elif arrival.retained and kind != "state":
            self.refused["retained"] += 1
        else:
            self._on_packet(strut, kind, arrival.payload, arrival.received_s)

    async def _talk(self, client: aiomqtt.Client) -> None:
        """Send configurations, clock and birth requests; notice a broker that has gone silent."""
        silent = 0
        while not _cancelled():
            for topic in sorted(self._config_due):
                await client.publish(topic, self._configs[topic], qos=1, retain=True)
                self._config_due.discard(topic)
            for strut in self._schedule.due(self._clock.now_s(), self._pace.sync_interval_s):
                stamp = encode_sync_request(round(self._clock.now_s() * 1e9))
                await client.publish(self._topics.of(self._spec.struts[strut], "sync/req"), stamp)
            for strut in self._birth_requests.due(self._clock.now_s(), self._pace.birth_wanted):
                await client.publish(self._topics.of(self._spec.struts[strut], "hello"), b"")
            await self._tell_armed(client)
            heard_s = self._inbox.last_live_s
            quiet = heard_s is not None and self._clock.now_s() - heard_s > self._spec.link.keepalive_s
            silent = silent + 1 if quiet else 0
            if silent > 2:  # more than once: the first look after a stall of our own may come before the socket is read
                raise LinkError(f"nothing heard for {self._spec.link.keepalive_s} s")
            await wait_s(PACE_S)

    async def _tell_armed(self, client: aiomqtt.Client) -> None:
        """Each change at once, and again and again while armed: what is not repeated, struts forget."""
        now_s = self._clock.now_s()
        if self.armed != self._armed_told or (self.armed and now_s >= self._armed_due_s):
            self._armed_told, self._armed_due_s = self.armed, now_s + ARMED_S
            for name in self._spec.struts:
                await client.publish(self._topics.of(name, "armed"), b"1" if self._armed_told else b"0")


def _cancelled() -> bool:
    """Whether this task has been told to end: before Python 3.12, asyncio.wait_for (in the MQTT client) may swallow that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
