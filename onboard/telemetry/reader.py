"""Reads a recording in the order it was written, also one whose end is missing."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from mcap.exceptions import McapError
from mcap.records import Channel, Message, Metadata, Schema
from mcap.stream_reader import StreamReader

from onboard.errors import RecordingError
from onboard.telemetry.parts import oldest_part, parts_from
from onboard.telemetry.recorded import check
from onboard.telemetry.schemas import decode

MAX_RECORD_BYTES = 64 * 1024 * 1024
# MemoryError: a spoiled length asks for more than there is.
_BROKEN = (
    McapError,
    struct.error,
    zlib.error,
    zstandard.ZstdError,
    RuntimeError,
    ValueError,
    EOFError,
    OverflowError,
    MemoryError,
)


@dataclass(slots=True)
class Recording:
    """Where a recording came from (`metadata`) and, once read through, whether its end was missing (`truncated`)."""

    path: Path
    metadata: dict[str, str] = field(default_factory=dict)
    truncated: str | None = None
    messages: int = 0

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(topic, fields) in the order of writing, part after part; complete chunks only.

        Raises RecordingError for a message of another make."""
        self.truncated, self.messages = None, 0
        for path in parts_from(self.path, self.part):
            self.truncated = yield from self._read(path)
            if self.truncated:
                return

    @property
    def part(self) -> int:
        """Which part of its recording the file is; 0: the beginning, from which alone it can be replayed."""
        text = self.metadata.get("part", "0")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    def _read(self, path: Path) -> Generator[tuple[str, dict[str, Any]], None, str | None]:
        """The messages of one part; returns where it breaks off, or None."""
        channels: dict[int, str] = {}
        with path.open("rb") as file:
            records = StreamReader(file, validate_crcs=True, record_size_limit=MAX_RECORD_BYTES).records
            finished = False
            try:
                for record in records:
                    if isinstance(record, Channel):
                        channels[record.id] = record.topic
                    elif isinstance(record, Message):
                        topic = channels.get(record.channel_id)
                        if topic is not None:
                            fields = decode(record.data)
                            problem = check(topic, fields)
                            if problem:
                                raise RecordingError(f"{path}: message {self.messages + 1}, on {topic}: {problem}")
                            self.messages += 1
                            yield topic, fields
                    elif isinstance(record, Metadata) and record.name == "prestress" and path == self.path:
                        self.metadata.update(record.metadata)
                    elif not isinstance(record, Schema) and type(record).__name__ == "Footer":
                        finished = True
            except msgspec.DecodeError as error:
                return f"unreadable message after {self.messages}: {error}"
            except _BROKEN as error:
                return f"the file ends or breaks after {self.messages} messages ({type(error).__name__})"
            return None if finished else f"the file ends after {self.messages} messages without its index"


def open_recording(path: Path) -> Recording:
    """The recording at `path` with its metadata read; raises RecordingError when it is none of ours."""
    if not path.is_file():
        oldest = oldest_part(path)
        if oldest is not None:
            raise RecordingError(
                f"{path}: its beginning has been given up to stay within its size; what is left begins at {oldest}"
            )
        raise RecordingError(f"{path}: there is no such recording")
    recording = Recording(path)
    try:
        with path.open("rb") as file:
            for record in StreamReader(file, record_size_limit=MAX_RECORD_BYTES).records:
                if isinstance(record, Metadata) and record.name == "prestress":
                    recording.metadata.update(record.metadata)
                    return recording
                if isinstance(record, Message):
                    break
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
    except _BROKEN as error:
        raise RecordingError(f"{path}: is not a recording ({type(error).__name__})") from error
    raise RecordingError(f"{path}: is an MCAP file, but not one that prestress wrote")
