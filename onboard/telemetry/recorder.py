"""The daemon's side of a recording: hands messages to a writer process through a pipe, so that neither disk nor compression
ever holds up a control tick."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from onboard.clock import Clock
from onboard.errors import RecordingError
from onboard.telemetry.schemas import SCHEMAS

BATCH_BYTES = 16_384  # handed over at once, some 20 times a second: a system call a message would cost more than the message
MAX_BACKLOG_BYTES = 8_000_000  # waiting for the writer; about 20 s of a 20-strut robot
PIPE_BYTES = 1 << 20
START_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 30.0
FRAME = struct.Struct("<BqI")  # topic number, time [ns], bytes that follow
TOPICS = list(SCHEMAS)
_F_SETPIPE_SZ = 1031


class Limits(NamedTuple):
    """How much of the disk a recording may take; 0: no limit. A recording that has lost its beginning cannot be replayed."""

    max_bytes: int = 0
    min_free_bytes: int = 0


NO_LIMITS = Limits()


class NullRecorder:
    """Records nothing."""

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        """Discard the message."""

    def close(self) -> None:
        """Nothing to close."""


class McapRecorder:
    """One recording. `write` never blocks; a disk error is reported once through `on_error` and ends the recording.

    Message times are monotonic seconds laid onto the wall clock as it stood at the start, so they stay ordered when the
    wall clock steps. If the daemon is killed, the writer still finishes the file. Beyond `limits` the oldest parts go.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        metadata: Mapping[str, str],
        on_error: Callable[[str], None] = lambda line: None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.path = path
        self.dropped = 0
        self.error: str | None = None
        self._on_error = on_error
        self._offset_ns = clock.wall_ns() - round(clock.now_s() * 1e9)
        self._numbers = {topic: number for number, topic in enumerate(TOPICS)}
        self._batch = bytearray()
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onboard.telemetry.writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the daemon's business; the writer ends when its pipe does
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._pipe, self._answers = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._enlarge_pipe()
        start = msgspec.json.encode({"path": str(path.absolute()), "metadata": dict(metadata), **limits._asdict()}) + b"\n"
        os.write(self._pipe, start)
        answer = self._answer(START_TIMEOUT_S)
        if answer != "ready":
            self._process.kill()
            self._process.communicate()
            raise RecordingError(f"{path}: the recording cannot be created: {answer or 'the writer does not answer'}")
        os.set_blocking(self._pipe, False)

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        """Record one message; dropped (and counted) when the disk is MAX_BACKLOG_BYTES behind."""
        if self.error is not None:
            return
        if self._backlog_bytes > MAX_BACKLOG_BYTES:
            self.dropped += 1
            self._push()
        else:
            self._batch += FRAME.pack(self._numbers[topic], self._offset_ns + round(t_s * 1e9), len(payload))
            self._batch += payload
        if len(self._batch) >= BATCH_BYTES:
            self._put()
            self._push()

    def close(self) -> None:
        """Write what waits and the index; returns within CLOSE_TIMEOUT_S whatever the disk does."""
        if self.error is None:
            self._put()
            os.set_blocking(self._pipe, True)
            while self._backlog and self.error is None and select.select([], [self._pipe], [], CLOSE_TIMEOUT_S)[1]:
                self._push()
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            self._failed()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self.error is None and self._process.returncode:
            self._failed()
        self._process.stdout.close()

    def _put(self) -> None:
        if self._batch:
            self._backlog.append(bytes(self._batch))
            self._backlog_bytes += len(self._batch)
            self._batch.clear()

    def _push(self) -> None:
        try:
            while self._backlog:
                batch = self._backlog[0]
                sent = os.write(self._pipe, batch)
                self._backlog_bytes -= sent
                if sent < len(batch):
                    self._backlog[0] = batch[sent:]
                    return
                self._backlog.popleft()
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._failed()

    def _failed(self) -> None:
        reason = self._answer(0.5) or "the writer has ended"
        self._backlog.clear()
        self.error = f"{self.path}: recording stopped: {reason}; control goes on"
        self._on_error(self.error)

    def _answer(self, timeout_s: float) -> str:
        readable, _, _ = select.select([self._answers], [], [], timeout_s)
        return os.read(self._answers, 4096).decode(errors="replace").strip() if readable else ""

    def _enlarge_pipe(self) -> None:
        import fcntl

        try:
            fcntl.fcntl(self._pipe, _F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            return  # a smaller pipe works too: more waits in the backlog
