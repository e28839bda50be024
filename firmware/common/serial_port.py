"""The USB serial line of a board as a byte pipe that never blocks for long: standard input and output."""

import asyncio
import errno
import sys

import micropython

from common import cobs

MAX_PENDING = 2048
CHUNK = 256 if sys.platform == "linux" else 1  # on boards read(n) waits for all n bytes
ABSENT_MS = 20


class SerialPort:
    """Frames in, frames out. `connected` is False while nobody has the other end open."""

    def __init__(self) -> None:
        micropython.kbd_intr(-1)  # 0x03 is data here, not an interrupt
        self._input = asyncio.StreamReader(sys.stdin.buffer)
        self._output = sys.stdout.buffer
        self._pending = bytearray()
        self.frames = cobs.FrameReader()
        self.connected = False
        self.dropped = 0

    async def receive(self) -> list[tuple[int, bytes]]:
        """Wait for bytes; the (type, payload) frames that they complete."""
        try:
            data = await self._input.read(CHUNK)
        except OSError:
            data = b""
        if not data:
            self.connected = False
            self._pending = bytearray()  # half a frame is of no use to whoever opens the line next
            await asyncio.sleep_ms(ABSENT_MS)
            return []
        self.connected = True
        return self.frames.feed(data)

    def send(self, kind: int, payload: bytes | bytearray) -> bool:
        """Send a whole frame or, when the line is behind or absent, nothing (counted)."""
        self.flush()
        frame = cobs.encode_frame(kind, payload)
        if not self.connected or len(self._pending) + len(frame) > MAX_PENDING:
            self.dropped += 1
            return False
        self._pending.extend(frame)
        self.flush()
        return True

    def flush(self) -> None:
        """Pass on what waits, as far as the line takes it now."""
        while self._pending:
            try:
                taken = self._output.write(self._pending) or 0
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    self._pending = bytearray()
                return
            if not taken:
                return
            self._pending = self._pending[taken:]
