"""MQTT 3.1.1 packets as bytes, and a parser for the stream that comes back; no sockets in here."""

import struct

CONNACK = 2
PUBLISH = 3
PUBACK = 4
SUBACK = 9
PINGRESP = 13

PINGREQ_PACKET = b"\xc0\x00"
DISCONNECT_PACKET = b"\xe0\x00"
MAX_PACKET = 8192  # no message to a board is longer
KEPT = 256  # of a longer one: enough to tell its topic and to acknowledge it

CONNACK_REASONS = (
    "accepted",
    "protocol version refused",
    "client id refused",
    "server unavailable",
    "user name or password refused",
    "not authorised",
)


class ProtocolError(Exception):
    """The broker sent what MQTT 3.1.1 does not allow: the connection must be closed."""


class Packet:
    """One control packet: its type, its flags, its body after the fixed header; `cut`: of which only the beginning was kept."""

    def __init__(self, kind: int, flags: int, body: bytes, cut: bool = False) -> None:
        self.kind = kind
        self.flags = flags
        self.body = body
        self.cut = cut


def _packet(first: int, body: bytes) -> bytes:
    length = len(body)
    head = bytearray([first])
    while True:
        byte = length & 0x7F
        length >>= 7
        head.append(byte | 0x80 if length else byte)
        if not length:
            return bytes(head) + body


def _string(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def connect(client_id: str, keepalive_s: int, user: str, password: str, will_topic: str, will_payload: bytes) -> bytes:
    """CONNECT with a clean session and a retained last will of QoS 1."""
    flags = 0x02 | 0x04 | 0x08 | 0x20
    body = _string(client_id.encode()) + _string(will_topic.encode()) + _string(will_payload)
    if user:
        flags |= 0x80
        body += _string(user.encode())
        if password:
            flags |= 0x40
            body += _string(password.encode())
    return _packet(0x10, b"\x00\x04MQTT\x04" + bytes([flags]) + struct.pack(">H", keepalive_s) + body)


def publish(topic: bytes, payload: bytes | bytearray, retain: bool = False, packet_id: int = 0) -> bytes:
    """PUBLISH; QoS 1 when a packet id is given."""
    first = 0x30 | (1 if retain else 0) | (2 if packet_id else 0)
    body = _string(topic)
    if packet_id:
        body += struct.pack(">H", packet_id)
    return _packet(first, body + payload)


def subscribe(packet_id: int, topics: list[tuple[str, int]]) -> bytes:
    """SUBSCRIBE to (topic, QoS) pairs."""
    body = struct.pack(">H", packet_id)
    for topic, qos in topics:
        body += _string(topic.encode()) + bytes([qos])
    return _packet(0x82, body)


def puback(packet_id: int) -> bytes:
    """The answer to a PUBLISH of QoS 1."""
    return b"\x40\x02" + struct.pack(">H", packet_id)


class Publication:
    """A received PUBLISH."""

    def __init__(self, packet: Packet) -> None:
        body = packet.body
        size = int.from_bytes(body[:2], "big")
        qos = packet.flags >> 1 & 3
        start = 2 + size + (2 if qos else 0)
        if len(body) < start or qos > 1:
            raise ProtocolError("malformed PUBLISH")
        self.topic = bytes(body[2 : 2 + size])
        self.packet_id = int.from_bytes(body[2 + size : start], "big") if qos else 0
        self.retained = bool(packet.flags & 1)
        self._body = body
        self._start = start

    @property
    def payload(self) -> bytes:
        """What the message says; raises MemoryError on a board that is too full for it."""
        return self._body[self._start :]


class Parser:
    """Cuts a byte stream into packets, wherever the stream was cut.

    A message longer than MAX_PACKET, or than there is memory for, is let pass: ending the connection would not help, since
    a retained one comes again with each new session.
    """

    def __init__(self) -> None:
        self._head = bytearray()
        self._body: bytearray | None = None
        self._filled = 0
        self._skip = 0
        self._cut = False

    def feed(self, data: bytes) -> list[Packet]:
        """Take bytes, return complete packets; raises ProtocolError when the stream makes no sense."""
        found: list[Packet] = []
        at = 0
        while at < len(data):
            body = self._body
            if body is None:
                self._head.append(data[at])
                at += 1
                if len(self._head) > 1:
                    body = self._begin()
            else:
                take = min(len(data) - at, len(body) - self._filled)
                body[self._filled : self._filled + take] = data[at : at + take]
                self._filled += take
                at += take
                if self._filled == len(body):
                    skipped = min(len(data) - at, self._skip)
                    self._skip -= skipped
                    at += skipped
            if body is not None and self._filled == len(body) and not self._skip:
                found.append(self._packet(body))
                self._head = bytearray()
                self._body = None
        return found

    def _packet(self, body: bytearray) -> Packet:
        kind, flags = self._head[0] >> 4, self._head[0] & 0x0F
        try:
            return Packet(kind, flags, bytes(body), self._cut)
        except MemoryError:
            return Packet(kind, flags, bytes(body[:KEPT]), True)

    def _begin(self) -> bytearray | None:
        """The body's place as soon as the fixed header is complete."""
        head = self._head
        if head[-1] & 0x80:
            if len(head) > 4:
                raise ProtocolError("length runs on")
            return None
        length = 0
        for place in range(1, len(head)):
            length |= (head[place] & 0x7F) << 7 * (place - 1)
        body = None
        if length <= MAX_PACKET:
            try:
                body = bytearray(length)
            except MemoryError:
                pass
        self._cut = body is None
        if body is None:
            if head[0] >> 4 != PUBLISH:
                raise ProtocolError("packet of %d bytes" % length)
            body = bytearray(min(length, KEPT))
        self._body = body
        self._filled = 0
        self._skip = length - len(body)
        return body
