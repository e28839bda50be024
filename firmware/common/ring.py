"""A fixed ring of IMU samples between sampling and sending: when it is full the oldest sample goes."""

import struct

SIZE = 18  # ticks (4 bytes) and seven int16


class SampleRing:
    """Samples wait here while the link is slow. `sequence` is that of the oldest sample in the ring."""

    def __init__(self, capacity: int) -> None:
        self._data = bytearray(SIZE * capacity)
        self._capacity = capacity
        self._head = 0
        self._count = 0
        self.sequence = 0
        self.dropped = 0
        self.overflow = False  # set by a drop, cleared by whoever reports it

    def __len__(self) -> int:
        return self._count

    def put(self, ticks_us: int, raw: memoryview) -> None:
        """Add a sample of 14 bytes."""
        if self._count == self._capacity:
            self.drop(1)
            self.dropped += 1
            self.overflow = True
        at = (self._head + self._count) % self._capacity * SIZE
        struct.pack_into("<I", self._data, at, ticks_us)
        self._data[at + 4 : at + SIZE] = raw
        self._count += 1

    def lost(self) -> None:
        """Samples were lost before they came here."""
        self.dropped += 1
        self.overflow = True

    def ticks_at(self, index: int) -> int:
        """Acquisition time of the sample `index` places after the oldest."""
        at = (self._head + index) % self._capacity * SIZE
        value: int = struct.unpack_from("<I", self._data, at)[0]
        return value

    def copy_raw(self, index: int, out: bytearray, offset: int) -> None:
        """Copy the 14 bytes of a sample into `out`."""
        at = (self._head + index) % self._capacity * SIZE
        out[offset : offset + 14] = self._data[at + 4 : at + SIZE]

    def drop(self, count: int) -> None:
        """Forget the oldest `count` samples."""
        self._head = (self._head + count) % self._capacity
        self._count -= count
        self.sequence = (self.sequence + count) & 0xFFFFFFFF
