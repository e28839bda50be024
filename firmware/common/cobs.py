"""Frames on a serial line: zero-delimited COBS with a message type and a CRC-16 (docs/protocol.md)."""

import micropython

MAX_PAYLOAD = 1024


def _table() -> bytes:
    """CRC-16/CCITT (polynomial 0x1021) of every byte, high and low bytes in two halves."""
    high = bytearray(256)
    low = bytearray(256)
    for value in range(256):
        crc = value << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        high[value] = (crc >> 8) & 0xFF
        low[value] = crc & 0xFF
    return bytes(high + low)


_TABLE = _table()


@micropython.native
def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE; crc16(b"123456789") is 0x29B1."""
    table = _TABLE
    crc = 0xFFFF
    for byte in data:
        index = (crc >> 8) ^ byte
        crc = ((crc & 0xFF) << 8) ^ (table[index] << 8) ^ table[index + 256]
    return crc


def cobs_encode(data: bytes) -> bytearray:
    """Consistent overhead byte stuffing: no zeros in the result."""
    out = bytearray()
    start = 0
    size = len(data)
    while True:
        end = data.find(b"\0", start)
        if end < 0:
            end = size
        while end - start >= 254:
            out.append(255)
            out.extend(data[start : start + 254])
            start += 254
            if start == size:
                return out  # a full block at the very end implies no zero and needs no empty block
        out.append(end - start + 1)
        out.extend(data[start:end])
        if end == size:
            return out
        start = end + 1


def cobs_decode(data: bytes) -> bytes | None:
    """Undo cobs_encode; None for broken stuffing."""
    out = bytearray()
    at = 0
    size = len(data)
    while at < size:
        code = data[at]
        if code == 0 or at + code > size:
            return None
        out.extend(data[at + 1 : at + code])
        at += code
        if code < 255 and at < size:
            out.append(0)
    return bytes(out)


def encode_frame(kind: int, payload: bytes | bytearray) -> bytearray:
    """The bytes to put on the line for one message."""
    body = bytes([kind]) + payload
    crc = crc16(body)
    out = bytearray(b"\0")
    out.extend(cobs_encode(body + bytes([crc & 0xFF, crc >> 8])))
    out.append(0)
    return out


class FrameReader:
    """Finds frames in a byte stream that may be cut anywhere, start in the middle and carry noise."""

    def __init__(self) -> None:
        self._buffer = b""
        self._skipping = False
        self.crc_errors = 0
        self.oversized = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take the next bytes from the line; returns (type, payload) of the good frames that they complete."""
        found: list[tuple[int, bytes]] = []
        self._buffer += data
        while True:
            end = self._buffer.find(b"\0")
            if end < 0:
                break
            chunk = self._buffer[:end]
            self._buffer = self._buffer[end + 1 :]
            if self._skipping:
                self._skipping = False
            elif chunk:
                self._decode(chunk, found)
        if len(self._buffer) > MAX_PAYLOAD + 16:
            self._buffer = b""
            if not self._skipping:
                self.oversized += 1
            self._skipping = True
        return found

    def _decode(self, chunk: bytes, found: list[tuple[int, bytes]]) -> None:
        body = cobs_decode(chunk)
        if body is None or len(body) < 3 or crc16(body[:-2]) != body[-2] | body[-1] << 8:
            self.crc_errors += 1
        else:
            found.append((body[0], body[1:-2]))
