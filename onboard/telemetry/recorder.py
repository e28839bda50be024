"""Writes a recording (MCAP) from a thread of its own, so that a slow or full disk never reaches the control loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from mcap.writer import CompressionType, Writer

from onboard.clock import Clock
from onboard.errors import RecordingError
from onboard.telemetry.schemas import SCHEMAS

CHUNK_BYTES = 128 * 1024  # about half a second of a 20-strut robot: what a power cut can cost
QUEUE_LIMIT = 20_000  # messages waiting for the disk; about 8 s


class NullRecorder:
    """Records nothing."""

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        """Discard the message."""

    def close(self) -> None:
        """Nothing to close."""


class McapRecorder:
    """One recording; `write` only queues. A disk error is reported once through `on_error` and ends the recording.

    Message times are monotonic seconds laid onto the wall clock as it stood at the start, so they stay ordered when the
    wall clock steps.
    """

    def __init__(
        self, path: Path, clock: Clock, metadata: Mapping[str, str], on_error: Callable[[str], None] = lambda line: None
    ) -> None:
        self.path = path
        self.dropped = 0
        self.error: str | None = None
        self._on_error = on_error
        self._offset_ns = clock.wall_ns() - round(clock.now_s() * 1e9)
        self._queue: queue.SimpleQueue[tuple[str, int, bytes] | None] = queue.SimpleQueue()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("xb")
        except OSError as error:
            raise RecordingError(f"{path}: the recording cannot be created: {error.strerror}") from error
        try:
            self._writer = Writer(self._file, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
            self._writer.start(profile="prestress", library="prestress")
            self._writer.add_metadata("prestress", dict(metadata))
            self._channels = {topic: self._register(topic) for topic in SCHEMAS}
            self._file.flush()
        except OSError as error:
            self._file.close()
            raise RecordingError(f"{path}: the recording cannot be started: {error.strerror}") from error
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        """Queue one message; dropped (and counted) when the disk is more than QUEUE_LIMIT messages behind."""
        if self.error is not None:
            return
        if self._queue.qsize() >= QUEUE_LIMIT:
            self.dropped += 1
            return
        self._queue.put((topic, self._offset_ns + round(t_s * 1e9), payload))

    def close(self) -> None:
        """Write what is queued and the index; returns within ten seconds whatever the disk does."""
        self._queue.put(None)
        self._thread.join(timeout=10.0)

    def _register(self, topic: str) -> int:
        schema = self._writer.register_schema(
            name="prestress" + topic.replace("/", "."), encoding="jsonschema", data=msgspec.json.encode(SCHEMAS[topic])
        )
        channel: int = self._writer.register_channel(topic=topic, message_encoding="json", schema_id=schema)
        return channel

    def _run(self) -> None:
        sequence = 0
        try:
            while (item := self._queue.get()) is not None:
                topic, t_ns, payload = item
                sequence += 1
                self._writer.add_message(self._channels[topic], t_ns, payload, t_ns, sequence)
            self._writer.finish()
            self._file.close()
        except OSError as error:
            self.error = f"{self.path}: recording stopped after {sequence} messages: {error.strerror}; control goes on"
            self._on_error(self.error)
            try:
                self._file.close()
            except OSError:
                return
