"""One idea: play decisions by time. A plan runs from its start to its expiry, a gait to its end; then the motors are off.

Motors that are off are the fallback of a strut robot: its cables hold by friction and nothing is wound.
"""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats, Plan
from onboard.planning.gait import GaitPlayer
from onboard.planning.navigator import Decision, Situation
from onboard.planning.settings import PlannerSettings
from onboard.planning.strut_state import StrutTracker

HISTORY_S = 2.0


class Driver:
    """What the motors get at every tick, and what a planner must know about it. Ticks are step_s apart."""

    def __init__(
        self, settings: PlannerSettings, tracker: StrutTracker, player: GaitPlayer, step_s: float, lead_s: float
    ) -> None:
        self.settings, self.tracker, self.player = settings, tracker, player
        self.step_s, self.lead_s = step_s, lead_s
        self.still: Floats = np.zeros(tracker.layout.cables)
        self.plan: Plan | None = None
        self.pending: Decision | None = None
        self.next_s = settings.state.velocity_window_s
        self.counts = {"plans": 0, "gaits": 0, "late": 0, "idle": 0}
        self.playing = False  # whether the last tick had anything to play
        self._given: list[Floats] = []
        self._given_end_s = 0.0

    def due(self, now_s: float) -> bool:
        """Whether a new decision should be asked for."""
        return self.pending is None and not self.player.running and now_s >= self.next_s - 1e-9

    def situation(self, now_s: float, world: Floats) -> Situation:
        """What a planner is asked at `now_s`. Raises EstimationError while there is no state to plan from."""
        t_s, state = self.tracker.state(now_s)
        start_s = now_s + self.lead_s
        past = round((self._given_end_s - t_s) / self.step_s) if self._given else 0
        rows = self._given[len(self._given) - past :] if past > 0 else []
        for k in range(round((start_s - now_s) / self.step_s)):
            row = None if self.plan is None else self.plan.sample(now_s + (k + 0.5) * self.step_s)
            rows = [*rows, self.still if row is None else row]
        lead_in = np.array(rows) if rows else np.zeros((0, self.still.size))
        return Situation(t_s, state, lead_in, now_s, start_s, world)

    def asked(self, now_s: float, again_s: float | None = None) -> None:
        """A decision was asked for at `now_s`; the next one is due after the replanning period, or after `again_s`."""
        self.next_s = now_s + (self.settings.mppi.replan_s if again_s is None else again_s)

    def accept(self, decision: Decision, now_s: float) -> bool:
        """Take a decision over. One that comes too late to be played is refused and counted."""
        if isinstance(decision, Plan) and now_s >= decision.expires_s:
            self.counts["late"] += 1
            return False
        self.pending = decision
        return True

    def stop(self) -> None:
        """Drop everything that is being played or waits: a new goal, or a robot that has been disarmed."""
        self.plan, self.pending = None, None
        self.player.stop()

    def command(self, now_s: float, length_u: Floats, rest_u: Floats) -> Floats:
        """Motor commands (nu,) for the tick at `now_s` from the cables' lengths and rest lengths [u]."""
        self._switch(now_s)
        command = self._playing(now_s, length_u, rest_u)
        self._note(now_s, command)
        return command

    def rest(self, now_s: float) -> None:
        """The tick at `now_s` leaves the motors off, whatever was planned; `playing` says whether anything was."""
        self._switch(now_s)
        planned = None if self.plan is None else self.plan.sample(now_s + 0.5 * self.step_s)
        self.playing = self.player.running or planned is not None
        self._note(now_s, self.still)

    def _note(self, now_s: float, command: Floats) -> None:
        if self._given:  # ticks that were skipped: boards kept the last one
            skipped = round((now_s - self._given_end_s) / self.step_s)
            self._given += [self._given[-1]] * min(max(skipped, 0), round(HISTORY_S / self.step_s))
        self._given.append(command)
        self._given_end_s = now_s + self.step_s
        del self._given[: -round(HISTORY_S / self.step_s)]

    def _switch(self, now_s: float) -> None:
        pending = self.pending
        if pending is None or now_s < pending.start_s - 1e-9:
            return
        self.pending = None
        if isinstance(pending, Plan):
            self.plan = pending
            self.player.stop()
            self.counts["plans"] += 1
            if pending.expires_s - pending.start_s < self.settings.mppi.horizon_s - 1e-6:
                self.next_s = pending.expires_s - self.lead_s  # shorter than a horizon: meant to be played to its end
        else:
            self.plan = None
            self.player.start(pending)
            self.counts["gaits"] += 1

    def _playing(self, now_s: float, length_u: Floats, rest_u: Floats) -> Floats:
        if self.player.running:
            u = self.player.command(self.tracker.caps(), length_u, rest_u)
            if u is not None:
                self.playing = True
                return u
            self.next_s = now_s
        row = None if self.plan is None else self.plan.sample(now_s + 0.5 * self.step_s)
        if row is None:
            self.counts["idle"] += 1
            self.playing = False
            return self.still
        self.playing = True
        return row
