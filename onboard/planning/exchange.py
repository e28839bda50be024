"""One idea: the newest message between two processes, through shared memory: never a queue, never a lock, never half a message.

Two buffers and a sequence number: the writer fills the buffer that nobody reads and then moves the number; a reader that was
overtaken twice while it copied sees that from the number and copies again. The memory has no name, so nothing is left behind when
a process is killed.
"""

from __future__ import annotations

import mmap
import os
import struct

from onboard.errors import PlanningError

_HEAD = struct.Struct("<QQ")  # sequence, size
SLOT_BYTES = 128 * 1024


class Slot:
    """One direction. `fd`: a memory file both processes have open; writer and reader never change roles."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, 2 * (SLOT_BYTES + _HEAD.size))
        self._written = 0
        self._seen = 0

    @staticmethod
    def create(name: str) -> Slot:
        """New memory, empty."""
        fd = os.memfd_create(name)
        os.ftruncate(fd, 2 * (SLOT_BYTES + _HEAD.size))
        return Slot(fd)

    def write(self, message: bytes) -> None:
        """Publish a message in place of all before it. Raises PlanningError when it does not fit."""
        if len(message) > SLOT_BYTES:
            raise PlanningError(f"a message of {len(message)} bytes does not fit {SLOT_BYTES}")
        self._written += 1
        at = self._offset(self._written)
        self._map[at : at + 8] = bytes(8)  # no reader takes it for whole while it is being written
        begin = at + _HEAD.size
        self._map[begin : begin + len(message)] = message
        self._map[at + 8 : at + _HEAD.size] = struct.pack("<Q", len(message))
        self._map[at : at + 8] = struct.pack("<Q", self._written)

    def read(self) -> bytes | None:
        """The newest message, or None when it was read before (or a writer is just overtaking: the next call has it)."""
        sequences = [_HEAD.unpack_from(self._map, self._offset(k)) for k in (0, 1)]
        sequence, size = max(sequences)
        if sequence <= self._seen or size > SLOT_BYTES:
            return None
        begin = self._offset(sequence) + _HEAD.size
        message = self._map[begin : begin + size]
        if _HEAD.unpack_from(self._map, self._offset(sequence)) != (sequence, size):
            return None
        self._seen = sequence
        return message

    def close(self) -> None:
        """Give the memory back."""
        self._map.close()
        os.close(self.fd)

    @staticmethod
    def _offset(sequence: int) -> int:
        return (sequence & 1) * (SLOT_BYTES + _HEAD.size)
