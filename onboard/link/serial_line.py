"""One serial port that never blocks the event loop: newest command first, remainders kept, unplugging noticed."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import serial

from onboard.clock import Clock
from onboard.link.serial_frame import FrameReader, SerialFrame, encode_frame

BAUD = 115_200  # USB serial ignores it
QUEUE = 16  # frames that wait for a line that is behind; commands never take more than one place
STALL_S = 1.0  # a line that takes nothing for this long is closed and opened again
READ_BYTES = 4096


class SerialLine:
    """Frames to and from the device at `path`. on_frame(frame, received_s) and on_lost(reason) are called on the event loop.

    Writes go out as far as the line takes them; the rest of a frame follows before anything else. Of several frames with the
    same `only` name, the newest replaces those that have not begun to go out. dropped: frames lost to a full queue.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        on_frame: Callable[[SerialFrame, float], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self.path = path
        self.dropped = 0
        self.replaced = 0
        self.reader = FrameReader()
        self._clock, self._on_frame, self._on_lost = clock, on_frame, on_lost
        self._port: serial.Serial | None = None
        self._fd = -1
        self._begun = b""
        self._queue: deque[tuple[str, bytes]] = deque()
        self._progress_s = 0.0
        self._writing = False

    @property
    def is_open(self) -> bool:
        """True while the device is there."""
        return self._port is not None

    def open(self) -> str:
        """Open the port; an empty string, or why it cannot be opened."""
        self.close()
        try:
            port = serial.Serial(self.path, BAUD, timeout=0, write_timeout=0, exclusive=True)
            fd = port.fileno()
            os.set_blocking(fd, False)
        except (serial.SerialException, OSError, ValueError) as error:
            return str(error)
        self._port, self._fd = port, fd
        self.reader = self._fresh_reader()
        asyncio.get_running_loop().add_reader(fd, self._readable)
        return ""

    def _fresh_reader(self) -> FrameReader:
        fresh = FrameReader()
        fresh.crc_errors, fresh.oversized = self.reader.crc_errors, self.reader.oversized
        return fresh

    def close(self) -> None:
        """Let go of the port; what was not written is forgotten."""
        port, self._port = self._port, None
        if port is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        loop.remove_writer(self._fd)
        self._writing, self._begun, self._fd = False, b"", -1
        self._queue.clear()
        with suppress(serial.SerialException, OSError):
            port.close()

    def send(self, kind: int, payload: bytes, only: str = "") -> bool:
        """Queue one frame and write what the line takes now; False when the port is closed."""
        if self._port is None:
            return False
        if only:
            before = len(self._queue)
            self._queue = deque(item for item in self._queue if item[0] != only)
            self.replaced += before - len(self._queue)
        if len(self._queue) >= QUEUE:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append((only, encode_frame(kind, payload)))
        self._write()
        return True

    def send_first(self, kind: int, payload: bytes) -> bool:
        """Like send, but everything that has not begun to go out is thrown away."""
        self._queue.clear()
        return self.send(kind, payload)

    def check(self, now_s: float) -> None:
        """Close a line that has stalled; call now and then."""
        if self._writing and now_s - self._progress_s > STALL_S:
            self._lost(f"{self.path} takes no data")

    def _write(self) -> None:
        while self._port is not None and (self._begun or self._queue):
            if not self._begun:
                self._begun = self._queue.popleft()[1]
            try:
                # Not pyserial's write(): with a full buffer and no time-out it spins until there is room.
                taken = os.write(self._fd, self._begun)
            except BlockingIOError:
                taken = 0
            except OSError as error:
                self._lost(f"{self.path}: {error.strerror}")
                return
            self._begun = self._begun[taken:]
            if taken:
                self._progress_s = self._clock.now_s()
            if self._begun:
                self._wait_for_room()
                return
        if self._writing and self._port is not None:
            self._writing = False
            asyncio.get_running_loop().remove_writer(self._fd)

    def _wait_for_room(self) -> None:
        if not self._writing:
            self._writing = True
            self._progress_s = self._clock.now_s()
            asyncio.get_running_loop().add_writer(self._fd, self._write)

    def _readable(self) -> None:
        now_s = self._clock.now_s()
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(f"{self.path}: {error.strerror}")
            return
        if not data:
            self._lost(f"{self.path} is gone")
            return
        for frame in self.reader.feed(data):
            self._on_frame(frame, now_s)

    def _lost(self, reason: str) -> None:
        self.close()
        self._on_lost(reason)
