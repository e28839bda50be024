"""amqtt's broker with a short way from publisher to subscriber: routes remembered, no queue and no task a message.

amqtt 0.12 passes every message through one unbounded queue, one event loop round each: behind a busy processor it falls seconds
behind. It also walks dictionaries that other clients change meanwhile, which ends connections when many boards start at once,
delivers with the subscription's quality of service even what was published with a lower one, and greets each client with every
retained message that anybody has subscribed to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

from amqtt.broker import Broker
from amqtt.contexts import Action

SLOW_BYTES = 256 * 1024  # that wait for one subscriber: more QoS 0 messages are dropped for it
INFLIGHT = 200  # QoS 1 messages that wait for one subscriber's answer: more are dropped for it
GATHER_S = 0.003  # QoS 0 data of many boards wait this long for each other: one write and one wake-up of the subscriber for all
ROUTES = 4096  # topics whose subscribers are remembered

Route = list[tuple[Any, int]]


class _Snapshots(dict[str, Any]):
    """A dictionary that may change while somebody walks through it."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().keys()))

    def items(self) -> Any:
        return list(super().items())


def publish_packet(topic: str, data: bytes) -> bytes:
    """A PUBLISH of QoS 0, not retained (MQTT 3.1.1, section 3.3)."""
    name = topic.encode()
    length, head = 2 + len(name) + len(data), bytearray(b"\x30")
    while True:
        length, digit = length >> 7, length & 0x7F
        head.append(digit | 0x80 if length else digit)
        if not length:
            return bytes(head) + len(name).to_bytes(2, "big") + name + data


class RobotBroker(Broker):  # type: ignore[misc]
    """dropped: messages not delivered because their subscriber did not keep up."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._subscriptions = _Snapshots()
        self._known_routes: dict[str, Route] = {}
        self._changes = 0
        self._gathered: dict[Any, bytearray] = {}
        self._under_way: set[asyncio.Task[Any]] = set()
        self.dropped = 0

    async def add_subscription(self, subscription: tuple[str, int], session: Any) -> int:
        """As amqtt does; routes are found anew."""
        code: int = await super().add_subscription(subscription, session)
        self._forget_routes()
        return code

    def _del_subscription(self, a_filter: str, session: Any) -> int:
        self._forget_routes()
        removed: int = super()._del_subscription(a_filter, session)
        return removed

    async def _publish_retained_messages_for_subscription(self, subscription: tuple[str, int], session: Any) -> None:
        """Called by amqtt for a new subscription, but also for every filter that anybody has when a client connects."""
        if any(subscriber is session for subscriber, _ in self._subscriptions.get(subscription[0], ())):
            await super()._publish_retained_messages_for_subscription(subscription, session)

    async def _delete_session(self, client_id: str) -> None:
        """Called by amqtt when a client starts afresh; an older connection of the same id ends (MQTT 3.1.1, 3.1.4-2)."""
        session, handler = self._sessions.get(client_id, (None, None))
        if handler is not None and session.transitions.is_connected():
            await handler.handle_connection_closed()
            await handler.stop()
        await super()._delete_session(client_id)

    async def _handle_message_delivery(self, client_session: Any, handler: Any, wait_deliver: Any) -> bool:
        """Called by amqtt for every message that a client has published; False ends the client's connection."""
        message = wait_deliver.result()
        if message is None:
            return True
        topic, data = message.topic, bytes(message.data or b"")
        if not topic or "#" in topic or "+" in topic or topic.startswith("$"):
            return False  # MQTT 3.1.1, 3.3.2-2 and 4.7.2-1
        _acknowledge_now(handler)
        if not await self._topic_filtering(client_session, topic=topic, action=Action.PUBLISH):
            return True
        await self._broadcast_message(client_session, topic, data, message.qos)
        if message.publish_packet is not None and message.publish_packet.retain_flag:
            await self.retain_message(client_session, topic, data, message.qos)
        return True

    async def _broadcast_message(self, session: Any, topic: Any, data: Any, force_qos: int | None = None) -> None:
        """Hand a message or last will to all its subscribers, with the lower of both qualities of service."""
        if not topic:
            return
        payload, packet = bytes(data or b""), b""
        for target, subscribed_qos in await self._route(topic):
            handler = self._get_handler(target)
            if handler is None or handler.writer is None or target.transitions.state != "connected":
                continue
            qos = min(force_qos or 0, subscribed_qos)
            if qos == 0:
                packet = packet or publish_packet(topic, payload)
                self._write(handler, packet)
            elif len(target.inflight_out) >= INFLIGHT:
                self.dropped += 1
            else:
                task = asyncio.ensure_future(handler.mqtt_publish(topic, payload, qos, retain=False))
                self._under_way.add(task)
                task.add_done_callback(self._arrived)

    def _write(self, handler: Any, packet: bytes) -> None:
        stream = getattr(handler.writer, "_writer", None)
        if stream is not None and stream.transport.get_write_buffer_size() > SLOW_BYTES:
            self.dropped += 1
            return
        if not self._gathered:
            asyncio.get_running_loop().call_later(GATHER_S, self._write_gathered)
        self._gathered.setdefault(handler.writer, bytearray()).extend(packet)

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for writer, packets in gathered.items():
            writer.write(bytes(packets))

    def _arrived(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.dropped += 1  # no acknowledgement, or the connection broke

    async def _route(self, topic: str) -> Route:
        known = self._known_routes.get(topic)
        if known is not None:
            return known
        route: Route = []
        changes = self._changes
        for name, subscriptions in self._subscriptions.items():
            if self._matches(topic, name):
                for session, qos in list(subscriptions):
                    if await self._topic_filtering(session, topic=topic, action=Action.RECEIVE):
                        route.append((session, qos))
        if changes == self._changes:  # nobody has subscribed or left while access was being checked
            if len(self._known_routes) >= ROUTES:
                self._known_routes.clear()
            self._known_routes[topic] = route
        return route

    def _forget_routes(self) -> None:
        self._known_routes.clear()
        self._changes += 1


def _acknowledge_now(handler: Any) -> None:
    """Tell the kernel not to delay the acknowledgement of what was just read.

    A board whose network chip knows no TCP_NODELAY holds each packet back until the one before is acknowledged; delayed
    acknowledgements (40 ms on Linux) would then make its data 40 ms old. The option does not last: it is set for every packet.
    """
    stream = getattr(handler.writer, "_writer", None)
    raw = None if stream is None else stream.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
