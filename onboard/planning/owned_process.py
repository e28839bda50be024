"""One idea: owning a planner process: requests to it without waiting, its newest reply, a restart when it died."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from onboard.clock import Clock
from onboard.errors import PlanningError
from onboard.planning.exchange import Slot

RESTART_AFTER_S = (0.0, 1.0, 2.0, 5.0)  # pauses before the first, second ... restart in a row
STABLE_S = 30.0  # a process that lived this long starts the row anew


class OwnedProcess:
    """Starts `module` with `process_data` on its standard input. Nothing here blocks.

    problem: why the last request was not answered with a plan, "" when it was. restarts: how often it had to be started again.
    """

    def __init__(self, module: str, process_data: msgspec.Struct, clock: Clock) -> None:
        self.module, self.process_data, self.clock = module, process_data, clock
        self.problem = ""
        self.restarts, self.plan_s = 0, 0.0
        self._number, self._answered = 0, 0
        self._row, self._started_s, self._retry_s = 0, 0.0, 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    @property
    def waiting(self) -> bool:
        """Whether a request is not answered yet."""
        return self._answered < self._number

    @property
    def warm(self) -> bool:
        """Whether the running process has answered: model loaded, goal solved."""
        return self._warm

    @property
    def running(self) -> bool:
        """Whether there is a process to ask."""
        return self._process is not None and self._process.stdin is not None

    def put(self, request: bytes) -> bool:
        """The newest request, in place of one that was not read yet; False when the process is gone."""
        if self._process is None or self._process.stdin is None:
            return False
        self._requests.write(request)
        try:
            os.write(self._process.stdin.fileno(), b".")
        except BlockingIOError:
            return True  # it has not woken up for earlier ones; the newest is what it will read
        except BrokenPipeError:
            return False
        return True

    def take(self) -> bytes | None:
        """A reply that has come in since the last call; restarts the process when it is gone."""
        self._watch()
        if self._process is None:  # between two tries; its memory is gone with it
            return None
        return self._replies.read()

    def answered(self, number: int, problem: str, seconds: float) -> None:
        """A reply that counts has come."""
        self._answered, self._warm, self.problem, self.plan_s = number, True, problem, seconds

    def close(self) -> None:
        """End the process and give its memory back."""
        self._stop()

    def _watch(self) -> None:
        now_s = self.clock.now_s()
        if self._process is not None and self._process.poll() is not None:
            code = self._process.returncode
            self._stop()
            if now_s - self._started_s > STABLE_S:
                self._row = 0
            self._retry_s = now_s + RESTART_AFTER_S[min(self._row, len(RESTART_AFTER_S) - 1)]
            self._row += 1
            self.problem = f"the planner process ended with {code}"
        if self._process is None and now_s >= self._retry_s:
            self.restarts += 1
            self._start()

    def _start(self) -> None:
        data = msgspec.msgpack.encode(self.process_data)
        self._requests, self._replies = Slot.create("plan-requests"), Slot.create("plan-replies")
        fds = (self._requests.fd, self._replies.fd)
        try:
            process = subprocess.Popen([sys.executable, "-m", self.module, *map(str, fds)], stdin=subprocess.PIPE, pass_fds=fds)
        except OSError as error:
            raise PlanningError(f"the planner process cannot be started: {error.strerror}") from error
        if process.stdin is None:
            raise PlanningError("the planner process has no input")
        self._process, self._started_s, self._answered, self._warm = process, self.clock.now_s(), self._number, False
        try:
            process.stdin.write(b"%d\n" % len(data) + data)
            process.stdin.flush()
            os.set_blocking(process.stdin.fileno(), False)
        except OSError as error:
            self.problem = f"the planner process ended at once: {error.strerror}"

    def _stop(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process = None
        self._requests.close()
        self._replies.close()
