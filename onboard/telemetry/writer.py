"""The process that writes a recording (MCAP): messages on standard input, "ready" or the reason of a failure on standard output.

It ends when its input does, however the daemon ended, and leaves a complete file; a disk error ends it with status 1.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec
from mcap.writer import CompressionType, Writer

from onboard.telemetry.recorder import FRAME, TOPICS
from onboard.telemetry.schemas import SCHEMAS

CHUNK_BYTES = 128 * 1024  # about half a second of a 20-strut robot: what a power cut can cost


class _Start(msgspec.Struct):
    path: str
    metadata: dict[str, str]


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
        with path.open("xb") as file:
            _write(source, file, start.metadata)
    except OSError as error:
        print(error.strerror or str(error), flush=True)
        return 1
    return 0


def _write(source: BinaryIO, file: BinaryIO, metadata: dict[str, str]) -> None:
    writer = Writer(file, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
    writer.start(profile="prestress", library="prestress")
    writer.add_metadata("prestress", metadata)
    channels = []
    for topic in TOPICS:
        name = "prestress" + topic.replace("/", ".")
        schema = writer.register_schema(name=name, encoding="jsonschema", data=msgspec.json.encode(SCHEMAS[topic]))
        channels.append(writer.register_channel(topic=topic, message_encoding="json", schema_id=schema))
    file.flush()
    print("ready", flush=True)
    sequence, written = 0, file.tell()
    while len(head := source.read(FRAME.size)) == FRAME.size:
        number, t_ns, size = FRAME.unpack(head)
        payload = source.read(size)
        if len(payload) < size:
            break  # the daemon was killed within a message
        sequence += 1
        writer.add_message(channels[number], t_ns, payload, t_ns, sequence)
        if file.tell() - written >= CHUNK_BYTES // 4:
            file.flush()
            os.fdatasync(file.fileno())  # a chunk that is complete is on the disk
            written = file.tell()
    writer.finish()
    file.flush()


if __name__ == "__main__":
    sys.exit(main())
