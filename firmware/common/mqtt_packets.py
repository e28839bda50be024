"""MQTT 3.1.1 packets as bytes, and a parser for the stream that comes back; no sockets in here."""

import struct

CONNACK = 2
PUBLISH = 3
PUBACK = 4
SUBACK = 9
PINGRESP = 13

PINGREQ_PACKET = b"\xc0\x00"
DISCONNECT_PACKET = b"\xe0\x00"
MAX_PACKET = 8192  # no message to a board is longer: more is a broken stream

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
    """One control packet: its type, its flags, its body after the fixed header."""

    def __init__(self, kind: int, flags: int, body: bytes) -> None:
        self.kind = kind
        self.flags = flags
        self.body = body


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
        self.payload = bytes(body[start:])


class Parser:
    """Cuts a byte stream into packets, wherever the stream was cut."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Packet]:
        """Take bytes, return complete packets; raises ProtocolError when the stream makes no sense."""
        self._buffer += data
        found: list[Packet] = []
        while True:
            packet = self._next()
            if packet is None:
                return found
            found.append(packet)

    def _next(self) -> Packet | None:
        data = self._buffer
        length = 0
        at = 1
        while True:
            if at >= len(data):
                return None
            byte = data[at]
            length |= (byte & 0x7F) << 7 * (at - 1)
            at += 1
            if not byte & 0x80:
                break
            if at > 4:
                raise ProtocolError("length runs on")
        if length > MAX_PACKET:
            raise ProtocolError("packet of %d bytes" % length)
        if len(data) < at + length:
            return None
        self._buffer = data[at + length :]
        return Packet(data[0] >> 4, data[0] & 0x0F, data[at : at + length])
