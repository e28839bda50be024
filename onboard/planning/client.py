"""One idea: the control loop's end of the planner process: ask without waiting, take what has come."""

from __future__ import annotations

import msgspec
import numpy as np

from onboard.clock import Clock
from onboard.messages import Floats
from onboard.planning.assembly import NavigatorData
from onboard.planning.navigator import Decision, Situation
from onboard.planning.owned_process import OwnedProcess
from onboard.planning.process import Reply, decision_of, encode_situation


class PlannerClient(OwnedProcess):
    """`poll` belongs in every tick.

    model, model_number: manifest and number of installation in use. model_problem: why the last wanted one was refused.
    """

    def __init__(self, data: NavigatorData, goal: Floats, model: str, clock: Clock) -> None:
        self.data = data
        self.goal, self.wanted_model = (float(goal[0]), float(goal[1])), model
        self.model, self.model_number, self.model_problem = "", -1, ""
        self._wanted_number = self._installations = 0
        super().__init__("onboard.planning.process", data, clock)

    def set_goal(self, goal: Floats) -> None:
        """Another goal from the next request on; answers to older requests no longer count."""
        self.goal = (float(goal[0]), float(goal[1]))
        self._answered = self._number

    def set_model(self, manifest: str) -> int:
        """Another model as soon as the process has loaded and tried it; a refused one leaves the old one in use.

        Returns the number of this installation: `model_number` becomes it, or `model_problem` says why it does not.
        """
        self._installations += 1
        self.wanted_model, self._wanted_number, self.model_problem = manifest, self._installations, ""
        return self._installations

    @property
    def swapping(self) -> bool:
        """Whether a wanted model is neither in use nor refused yet."""
        return bool(self.wanted_model) and self.model_number != self._wanted_number

    def ask(self, situation: Situation) -> bool:
        """Put the newest situation before the planner; False while there is no process."""
        if not self.running:
            return False
        self._number += 1
        return self.put(encode_situation(situation, self._number, self.goal_array, self.wanted_model, self._wanted_number))

    @property
    def goal_array(self) -> Floats:
        """The goal (2,) [u]."""
        return np.array(self.goal)

    def poll(self) -> Decision | None:
        """A decision that has come in since the last call and still counts."""
        raw = self.take()
        if raw is None:
            return None
        reply = msgspec.msgpack.decode(raw, type=Reply)
        if reply.number <= self._answered or reply.goal != self.goal:
            return None
        self.answered(reply.number, reply.problem, reply.seconds)
        self._heed_model(reply)
        return decision_of(reply, self.data.layout.cables)

    def _heed_model(self, reply: Reply) -> None:
        if reply.model_number >= 0:
            self.model, self.model_number = reply.model, reply.model_number
        if reply.refused_number == self._wanted_number:
            self.model_problem = reply.model_problem
            if self.model:  # a process that has to be started again begins with what worked
                self.wanted_model, self._wanted_number = self.model, self.model_number
