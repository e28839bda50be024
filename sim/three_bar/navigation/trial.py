"""One idea: one navigation trial on a simulated clock. Same seed, same trial, bit for bit, however long planning really takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from onboard.errors import EstimationError, PlanningError, RobotFault
from onboard.messages import Floats, Plan
from onboard.planning.gait import GaitPlayer
from onboard.planning.navigator import Decision, Navigator, Situation
from onboard.planning.settings import PlannerSettings
from onboard.planning.strut_state import StrutTracker
from sim.three_bar.course import Course
from sim.three_bar.navigation.conditions import Conditions, Sensing
from sim.three_bar.navigation.oracle import LAYOUT, PlantModel
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import CABLES

RETRY_S = 0.1
TRACE_EVERY = 10  # plant steps between rows of the path
STILL = np.zeros(CABLES)


@dataclass(slots=True)
class Outcome:
    """time_s: to the goal, or the limit. end: "goal", "time", "diverged", "stuck". path (T, 6, 3): caps every 0.1 s [u]."""

    success: bool
    time_s: float
    end: str
    final_distance_u: float
    decisions: int
    plan_ms: list[float]
    counts: dict[str, int] = field(default_factory=dict)
    path: Floats = field(default_factory=lambda: np.zeros((0, CABLES, 3)))


def place(plant: Plant, course: Course, rng: np.random.Generator) -> None:
    """Put the robot down at a drawn start of the course and let it settle; raises RobotFault when no draw fits."""
    for _ in range(20):
        offset = rng.uniform(-1.0, 1.0, 2) * course.start.spread_u
        yaw = float(rng.uniform(-np.pi, np.pi))
        try:
            plant.reset(course.start.x_u + offset[0], course.start.y_u + offset[1], yaw)
        except RobotFault:
            continue
        plant.settle()
        return
    raise RobotFault(f"the robot does not fit at the start of {course.course.name!r}")


class Trial:
    """Sensors, decisions and motors of one drive, tick by tick."""

    def __init__(
        self,
        plant: Plant,
        navigator: Navigator,
        settings: PlannerSettings,
        conditions: Conditions,
        rng: np.random.Generator,
        oracle: PlantModel | None,
    ) -> None:
        self.plant, self.navigator, self.settings, self.conditions = plant, navigator, settings, conditions
        self.oracle = oracle
        self.tracker = StrutTracker(settings.state, LAYOUT, plant.spec.bodies.cap_distance_u)
        self.sensing = Sensing(plant, self.tracker, conditions, rng)
        self.player = GaitPlayer(plant.spec.gait, plant.spec.symmetry, plant.step_s)
        self.tick_index = 0
        self.plan: Plan | None = None
        self.pending: Decision | None = None
        self.next_s = settings.state.velocity_window_s
        self.given: list[Floats] = []
        self.plan_ms: list[float] = []
        self.counts = {"plans": 0, "gaits": 0, "lost": 0, "no_plan": 0}

    @property
    def now_s(self) -> float:
        """Time of the present tick."""
        return self.tick_index * self.plant.step_s

    def tick(self) -> None:
        """Sense, decide when due, move."""
        now_s = self.now_s
        self.sensing.tick(now_s)
        if self.oracle is not None:
            self.oracle.remember(now_s, 1.0)
        if self.pending is None and not self.player.running and now_s >= self.next_s - 1e-9:
            self._decide(now_s)
        self._switch(now_s)
        command = self._command(now_s)
        self.given.append(command)
        self.plant.step(command)
        self.tick_index += 1

    def _decide(self, now_s: float) -> None:
        try:
            t_s, state = self.tracker.state(now_s)
        except EstimationError:
            self.counts["lost"] += 1
            self.next_s = now_s + RETRY_S
            return
        start_s = now_s + self.conditions.lead_s
        if self.oracle is not None:
            self.oracle.go_to(t_s)
        situation = Situation(t_s, state, self._lead_in(t_s, now_s, start_s), now_s, start_s, self.plant.world)
        began = time.perf_counter()
        try:
            self.pending = self.navigator.decide(situation)
        except PlanningError:
            self.counts["no_plan"] += 1
        self.plan_ms.append(1e3 * (time.perf_counter() - began))
        self.next_s = now_s + self.settings.mppi.replan_s

    def _lead_in(self, t_s: float, now_s: float, start_s: float) -> Floats:
        """What the motors get from t_s until start_s (P, 6): what was given, then the present plan, then nothing."""
        step_s = self.plant.step_s
        past = self.given[round(t_s / step_s) :]
        coming = []
        for k in range(round((start_s - now_s) / step_s)):
            row = None if self.plan is None else self.plan.sample(now_s + (k + 0.5) * step_s)
            coming.append(STILL if row is None else row)
        rows = past + coming
        return np.array(rows) if rows else np.zeros((0, CABLES))

    def _switch(self, now_s: float) -> None:
        """Let a decision take effect when its time has come."""
        pending = self.pending
        if pending is None or now_s < pending.start_s - 1e-9:
            return
        self.pending = None
        if isinstance(pending, Plan):
            self.plan = pending
            self.counts["plans"] += 1
            if pending.expires_s - pending.start_s < self.settings.mppi.horizon_s - 1e-6:
                self.next_s = pending.expires_s - self.conditions.lead_s  # shorter than a horizon: meant to be played to its end
        else:
            self.plan = None
            self.player.start(pending)
            self.counts["gaits"] += 1

    def _command(self, now_s: float) -> Floats:
        if self.player.running:
            u = self.player.command(self.tracker.caps(), self.plant.cable_lengths(), self.plant.rest_u)
            if u is not None:
                return u
            self.next_s = now_s
        row = None if self.plan is None else self.plan.sample(now_s + 0.5 * self.plant.step_s)
        return STILL if row is None else row


def run_trial(
    trial: Trial, goal: Floats, reach_u: float, limit_s: float, progress: Callable[[float], None] | None = None
) -> Outcome:
    """Drive until the true centre of mass is within `reach_u` of `goal` (2,) in plan, or time is up.

    A simulation that breaks down ends the trial as failed.
    """
    plant, path = trial.plant, [trial.plant.caps()]
    end, time_s = "time", limit_s
    distance = float(np.linalg.norm(plant.caps().mean(axis=0)[:2] - goal))
    for _ in range(round(limit_s / plant.step_s)):
        try:
            trial.tick()
        except RobotFault:
            end = "diverged"
            break
        caps = plant.caps()
        distance = float(np.linalg.norm(caps.mean(axis=0)[:2] - goal))
        if trial.tick_index % TRACE_EVERY == 0:
            path.append(caps)
            if progress is not None:
                progress(trial.now_s)
        if distance <= reach_u:
            end, time_s = "goal", trial.now_s
            break
    counts = {**trial.counts, "timeouts": trial.player.timeouts, "escapes": getattr(trial.navigator, "escapes", 0)}
    return Outcome(end == "goal", time_s, end, distance, len(trial.plan_ms), trial.plan_ms, counts, np.array(path))
