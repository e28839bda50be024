"""A recording's parts: how they are called, when a new one begins, and which go when size or free disk run out."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

PARTS_KEPT = 8  # a part is this share of what a recording may come to, so an eighth of it goes at a time
_NUMBERED = re.compile(r"\.(\d{3,9})$")


def part_path(first: Path, number: int) -> Path:
    """Where part `number` of the recording at `first` lies: run.mcap, run.001.mcap, run.002.mcap ..."""
    return first if number == 0 else first.with_name(f"{first.stem}.{number:03d}{first.suffix}")


def parts_from(path: Path, number: int) -> Iterator[Path]:
    """`path`, which is part `number` of a recording, and every part after it, in the order of writing."""
    yield path
    match = _NUMBERED.search(path.stem) if number else None
    first = path.with_name(path.stem[: match.start()] + path.suffix) if match else path
    if number and not match:
        return  # it was given another name: what followed it cannot be found
    while (following := part_path(first, number + 1)).is_file():
        yield following
        number += 1


def oldest_part(first: Path) -> Path | None:
    """The oldest part that is left of a recording whose beginning is gone; None where there is none."""
    found = []
    for path in first.parent.glob(f"{first.stem}.*{first.suffix}") if first.parent.is_dir() else ():
        match = _NUMBERED.search(path.stem)
        if match and path.stem[: match.start()] == first.stem:
            found.append((int(match.group(1)), path))
    return min(found)[1] if found else None


class DiskLow(OSError):
    """The disk holds less free space than must stay free, and this recording has no older part left to give up."""


class Keeper:
    """Gives up the oldest closed parts so that the recording stays within `max_bytes` and the disk keeps `min_free_bytes`.

    0 for `max_bytes`: one file, however long it gets.
    """

    def __init__(self, max_bytes: int, min_free_bytes: int) -> None:
        self.max_bytes, self.min_free_bytes = max_bytes, min_free_bytes
        self._closed: deque[tuple[Path, int]] = deque()
        self._closed_bytes = 0

    def full(self, part_bytes: int) -> bool:
        """Whether a part of this size ends here."""
        return self.max_bytes > 0 and part_bytes >= self.max_bytes // PARTS_KEPT

    def closed(self, path: Path, size: int) -> None:
        """A part is complete; older ones go until all, with one more to come, lie within `max_bytes`."""
        self._closed.append((path, size))
        self._closed_bytes += size
        while self._closed_bytes + self.max_bytes // PARTS_KEPT > self.max_bytes and len(self._closed) > 1:
            self._give_up_oldest()

    def make_room(self, folder: Path) -> None:
        """Remove closed parts until enough is free; raises DiskLow when none is left to remove."""
        while self.min_free_bytes and free_bytes(folder) < self.min_free_bytes:
            if not self._closed:
                raise DiskLow(0, f"less than {self.min_free_bytes / 1e6:g} MB of the disk are free (recording.min_free_bytes)")
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        path, size = self._closed.popleft()
        self._closed_bytes -= size
        path.unlink(missing_ok=True)  # a person may have moved it away


def free_bytes(folder: Path) -> int:
    """What this user may still write to the file system of `folder`."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
