"""One idea: the control loop's end of the planner process: ask without waiting, take what has come, restart it when it died."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import numpy as np

from onboard.clock import Clock
from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.planning.assembly import NavigatorData
from onboard.planning.exchange import Slot
from onboard.planning.navigator import Decision, Situation
from onboard.planning.process import Reply, decision_of, encode_situation

RESTART_AFTER_S = (0.0, 1.0, 2.0, 5.0)  # pauses before the first, second ... restart in a row
STABLE_S = 30.0  # a process that lived this long starts the row anew


class PlannerClient:
    """Owns the process. `poll` belongs in every tick; nothing here blocks.

    problem: why the last request was not answered with a decision, "" when it was. model_problem: why the wanted model was
    refused. restarts: how often the process had to be started again.
    """

    def __init__(self, data: NavigatorData, goal: Floats, model: str, clock: Clock) -> None:
        self.data, self.clock = data, clock
        self.goal, self.wanted_model = (float(goal[0]), float(goal[1])), model
        self.model, self.problem, self.model_problem = "", "", ""
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

    def set_goal(self, goal: Floats) -> None:
        """Another goal from the next request on; answers to older requests no longer count."""
        self.goal = (float(goal[0]), float(goal[1]))
        self._answered = self._number

    def set_model(self, manifest: str) -> None:
        """Another model from the next request on; a refused one leaves the old one in use, see model_problem."""
        self.wanted_model = manifest

    def ask(self, situation: Situation) -> bool:
        """Put the newest situation before the planner; False while there is no process."""
        if self._process is None or self._process.stdin is None:
            return False
        self._number += 1
        self._requests.write(encode_situation(situation, self._number, self.goal_array, self.wanted_model))
        try:
            os.write(self._process.stdin.fileno(), b".")
        except BlockingIOError:
            return True  # it has not woken up for earlier ones; the newest is what it will read
        except BrokenPipeError:
            return False
        return True

    @property
    def goal_array(self) -> Floats:
        """The goal (2,) [u]."""
        return np.array(self.goal)

    def poll(self) -> Decision | None:
        """A decision that has come in since the last call and still counts; restarts the process when it is gone."""
        self._watch()
        if self._process is None:  # between two tries; its memory is gone with it
            return None
        raw = self._replies.read()
        if raw is None:
            return None
        reply = msgspec.msgpack.decode(raw, type=Reply)
        if reply.number <= self._answered or reply.goal != self.goal:
            return None
        self._answered = reply.number
        self._warm = True
        self.problem, self.model_problem, self.model = reply.problem, reply.model_problem, reply.model
        self.plan_s = reply.seconds
        return decision_of(reply, self.data.layout.cables)

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
        data = msgspec.msgpack.encode(self.data)
        self._requests, self._replies = Slot.create("plan-requests"), Slot.create("plan-replies")
        fds = (self._requests.fd, self._replies.fd)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "onboard.planning.process", *map(str, fds)], stdin=subprocess.PIPE, pass_fds=fds
            )
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
