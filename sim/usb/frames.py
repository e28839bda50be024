"""What goes over USB between a simulation and a strut; firmware/strut/usb_feed.py is the other side, docs/protocol.md has both.

A strut's line is a console too, on which the byte 0x03 is an interrupt: no frame to a strut may hold it. Payloads begin with a
mask that is chosen so, under which the rest lies.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from onboard.errors import WireError
from onboard.link.serial_frame import encode_frame
from onboard.link.wire_types import VERSION as WIRE_VERSION
from onboard.link.wire_types import MessageType

VERSION = 1
INTERRUPT = 0x03
RAW_BYTES = 14  # ax ay az gx gy gz temperature, int16
TRIES = 1000
STRIDE = 0x9E3779B97F4A7C15  # changes every byte of a token
T = TypeVar("T")
LEASE_S = 2.0  # without a frame for so long the board is back on its sensor
_BEGIN = struct.Struct("<BbI")
_REPORT = struct.Struct("<IIII")


class BusState(msgspec.Struct, frozen=True):
    """Whether the board takes its samples from here, after BUS_BEGIN with `token` or a change. problem: armed, offline,
    version, or in words why it no longer does."""

    token: int
    fed: bool
    problem: str
    boot_id: int


@dataclass(frozen=True, slots=True)
class BusReport:
    """counter: of the newest sample in the register file; ticks_us: when it came there; taken, missed: by the driver, in all."""

    counter: int
    ticks_us: int
    taken: int
    missed: int


class Hello(msgspec.Struct, frozen=True):
    """A strut's answer to HELLO: its birth, and where it lives."""

    name: str = ""
    app: str = ""
    sensor: str = ""
    firmware: str = ""
    board_id: str = ""
    boot_id: int = 0
    bus: str = ""
    prefix: str = ""
    broker: str = ""
    link: str = ""


def begin(token: int, rate_steps: int) -> bytes:
    """Payload of BUS_BEGIN. rate_steps: INTERNAL_FREQ_FINE, an int8."""
    return _masked(MessageType.BUS_BEGIN, _BEGIN.pack(VERSION, max(-128, min(127, rate_steps)), token & 0xFFFFFFFF))


def samples(counter: int, raw: bytes) -> bytes:
    """Payload of BUS_SAMPLES with len(raw) / 14 samples, of which `counter` is the first; none only keeps the lease."""
    return _masked(MessageType.BUS_SAMPLES, struct.pack("<BI", len(raw) // RAW_BYTES, counter & 0xFFFFFFFF) + raw)


def faults(bits: int) -> bytes:
    """Payload of BUS_FAULTS."""
    return _masked(MessageType.BUS_FAULTS, bytes((bits & 0xFF,)))


def sync_request(token: int) -> tuple[int, bytes]:
    """(token, payload) of SYNC_REQUEST; the token is `token` or another that will do.

    The stamp is a token, not a time: a time would hold the byte 0x03 for minutes. The reserved fields are not zero: byte
    stuffing would turn zeros there into 0x03.
    """
    for add in range(TRIES):
        wanted = (token + add * STRIDE) & 0xFFFFFFFFFFFFFFFF
        payload = struct.pack("<BBHQ", WIRE_VERSION, 0xFF, 0xFFFF, wanted)
        if _clean(MessageType.SYNC_REQUEST, payload):
            return wanted, payload
    raise WireError("sync request: no token will do")


def _masked(kind: int, plain: bytes) -> bytes:
    """A mask and the bytes under it."""
    for mask in range(256):
        payload = bytes((mask,)) + bytes(byte ^ mask for byte in plain)
        if _clean(kind, payload):
            return payload
    raise WireError("no mask keeps the byte 0x03 out of a frame")


def decode_state(payload: bytes) -> BusState:
    """Raises WireError."""
    return _json(payload, BusState)


def decode_hello(payload: bytes) -> Hello:
    """Raises WireError."""
    return _json(payload, Hello)


def decode_report(payload: bytes) -> BusReport:
    """Raises WireError."""
    if len(payload) != _REPORT.size:
        raise WireError(f"bus report: {len(payload)} bytes, not {_REPORT.size}")
    return BusReport(*_REPORT.unpack(payload))


def _json(payload: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"{kind.__name__}: {error}") from error


def _clean(kind: int, payload: bytes) -> bool:
    return INTERRUPT not in encode_frame(kind, payload)
