"""Frames on a serial line: zero-delimited COBS with a message type and a CRC-16; a pure codec without I/O.

On the line: 00, COBS(type, payload, CRC low, CRC high), 00. The CRC (CCITT: polynomial 0x1021, start 0xFFFF) covers
type and payload. The leading zero ends whatever noise came before: a damaged frame never costs the next one.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass

from onboard.errors import WireError

MAX_PAYLOAD = 1024  # bytes; the longest frame either side accepts, so that noise cannot fill memory
_MAX_ENCODED = MAX_PAYLOAD + 3 + (MAX_PAYLOAD + 3) // 254 + 1


@dataclass(frozen=True, slots=True)
class SerialFrame:
    """One good frame: `kind` is a wire.MessageType value (or one this version does not know)."""

    kind: int
    payload: bytes


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE; crc16(b"123456789") is 0x29B1."""
    return binascii.crc_hqx(data, 0xFFFF)


def cobs_encode(data: bytes) -> bytes:
    """Consistent overhead byte stuffing (Cheshire and Baker 1999): no zeros, 1 byte in 254 longer."""
    out = bytearray()
    parts = data.split(b"\0")
    for index, part in enumerate(parts):
        while len(part) >= 254:
            out.append(255)
            out += part[:254]
            part = part[254:]
            if not part and index == len(parts) - 1:
                return bytes(out)  # a full block at the very end implies no zero and needs no empty block
        out.append(len(part) + 1)
        out += part
    return bytes(out)


def cobs_decode(data: bytes) -> bytes:
    """Undo cobs_encode; WireError for a zero inside or a block that runs past the end."""
    out = bytearray()
    at = 0
    while at < len(data):
        code = data[at]
        block = data[at + 1 : at + code]
        if code == 0 or len(block) != code - 1 or 0 in block:
            raise WireError("serial frame: broken byte stuffing")
        out += block
        at += code
        if code < 255 and at < len(data):
            out.append(0)
    return bytes(out)


def encode_frame(kind: int, payload: bytes) -> bytes:
    """The bytes to put on the line for one message; WireError when it is too long or has no valid type."""
    if len(payload) > MAX_PAYLOAD:
        raise WireError(f"serial frame: payload of {len(payload)} bytes, at most {MAX_PAYLOAD}")
    if not 0 <= kind <= 255:
        raise WireError(f"serial frame: type {kind} is not a byte")
    body = bytes((kind,)) + payload
    return b"\0" + cobs_encode(body + crc16(body).to_bytes(2, "little")) + b"\0"


class FrameReader:
    """Finds frames in a byte stream that may be cut anywhere, start in the middle and carry noise.

    `crc_errors`: complete frames whose check failed or whose stuffing was broken (text that a board printed
    counts here too); `oversized`: runs without a delimiter that were thrown away.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipping = False
        self.crc_errors = 0
        self.oversized = 0

    def feed(self, data: bytes) -> list[SerialFrame]:
        """Take the next bytes from the line; returns the good frames that they complete, in order."""
        self._buffer += data
        *complete, rest = self._buffer.split(b"\0")
        frames: list[SerialFrame] = []
        for index, chunk in enumerate(complete):
            if index == 0 and self._skipping:
                self._skipping = False
            elif chunk:
                self._decode(bytes(chunk), frames)
        self._buffer = bytearray(rest)
        if len(rest) > _MAX_ENCODED:
            self.oversized += not self._skipping
            self._skipping = True
            self._buffer.clear()
        return frames

    def _decode(self, chunk: bytes, frames: list[SerialFrame]) -> None:
        if len(chunk) > _MAX_ENCODED:
            self.oversized += 1
            return
        try:
            body = cobs_decode(chunk)
        except WireError:
            self.crc_errors += 1
            return
        if len(body) < 3 or crc16(body[:-2]) != int.from_bytes(body[-2:], "little"):
            self.crc_errors += 1
            return
        frames.append(SerialFrame(body[0], body[1:-2]))
