"""The process that writes a recording (MCAP): messages on standard input, "ready" or the reason of a failure on standard output.

It ends when its input does, however the daemon ended, and leaves complete files; a disk error ends it with status 1.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec
from mcap.writer import CompressionType, Writer

from onboard.telemetry.parts import Keeper, part_path
from onboard.telemetry.recorder import FRAME, TOPICS
from onboard.telemetry.schemas import SCHEMAS

CHUNK_BYTES = 128 * 1024  # about half a second of a 20-strut robot: what a power cut can cost


class _Start(msgspec.Struct):
    path: str
    metadata: dict[str, str]
    max_bytes: int = 0
    min_free_bytes: int = 0


class _Part:
    """One file of a recording while it is written. Raises OSError."""

    def __init__(self, path: Path, metadata: dict[str, str]) -> None:
        self.path = path
        self._file: BinaryIO = path.open("xb")
        self._writer = Writer(self._file, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        self._writer.start(profile="prestress", library="prestress")
        self._writer.add_metadata("prestress", metadata)
        self._channels = []
        for topic in TOPICS:
            name = "prestress" + topic.replace("/", ".")
            schema = self._writer.register_schema(name=name, encoding="jsonschema", data=msgspec.json.encode(SCHEMAS[topic]))
            self._channels.append(self._writer.register_channel(topic=topic, message_encoding="json", schema_id=schema))
        self._file.flush()
        self._synchronised = self._file.tell()

    def add(self, number: int, t_ns: int, payload: bytes, sequence: int) -> bool:
        """Write one message; True when a chunk has just reached the disk."""
        self._writer.add_message(self._channels[number], t_ns, payload, t_ns, sequence)
        if self._file.tell() - self._synchronised < CHUNK_BYTES // 4:
            return False
        self._file.flush()
        os.fdatasync(self._file.fileno())  # a chunk that is complete is on the disk
        self._synchronised = self._file.tell()
        return True

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._file.tell()

    def finish(self) -> None:
        """Write the index and close, once."""
        if self._file.closed:
            return  # it was complete before the next part could not be made
        try:
            self._writer.finish()
        finally:
            self._file.close()


def main() -> int:
    """Until the input ends; the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the daemon decides when the recording ends
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file size limit is a disk error like any other
    os.nice(5)
    source = sys.stdin.buffer
    start = msgspec.json.decode(source.readline(), type=_Start)
    try:
        path = Path(start.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(source, path, start)
    except OSError as error:
        print(error.strerror or str(error), flush=True)
        return 1
    return 0


def _write(source: BinaryIO, path: Path, start: _Start) -> None:
    keeper = Keeper(start.max_bytes, start.min_free_bytes)
    keeper.make_room(path.parent)
    part, number = _Part(path, start.metadata | {"part": "0"}), 0
    try:
        print("ready", flush=True)
        sequence = 0
        while len(head := source.read(FRAME.size)) == FRAME.size:
            topic, t_ns, size = FRAME.unpack(head)
            payload = source.read(size)
            if len(payload) < size:
                break  # the daemon was killed within a message
            sequence += 1
            if part.add(topic, t_ns, payload, sequence):
                keeper.make_room(path.parent)
                if keeper.full(part.size):
                    part.finish()
                    keeper.closed(part.path, part.path.stat().st_size)
                    number += 1
                    part = _Part(part_path(path, number), start.metadata | {"part": str(number)})
    finally:
        part.finish()


if __name__ == "__main__":
    sys.exit(main())
