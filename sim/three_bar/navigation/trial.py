"""One idea: one navigation trial on a simulated clock. Same seed, same trial, bit for bit, however long planning really takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from onboard.errors import EstimationError, PlanningError, RobotFault
from onboard.messages import Floats
from onboard.planning.driver import Driver
from onboard.planning.gait import GaitPlayer
from onboard.planning.navigator import Navigator
from onboard.planning.recovery import Detector, Recovery
from onboard.planning.settings import PlannerSettings
from onboard.planning.strut_state import StrutTracker
from sim.three_bar.course import Course
from sim.three_bar.navigation.conditions import Conditions, Sensing
from sim.three_bar.navigation.oracle import LAYOUT, PlantModel
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import CAPS

RETRY_S = 0.1
TRACE_EVERY = 10  # plant steps between rows of the path


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
    path: Floats = field(default_factory=lambda: np.zeros((0, CAPS, 3)))


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
        recovery: Recovery | None = None,
    ) -> None:
        self.plant, self.navigator, self.oracle = plant, navigator, oracle
        tracker = StrutTracker(settings.state, LAYOUT, plant.spec.bodies.cap_distance_u)
        self.sensing = Sensing(plant, tracker, conditions, rng)
        player = GaitPlayer(plant.spec.gait, plant.spec.symmetry, plant.step_s)
        self.driver = Driver(settings, tracker, player, plant.step_s, conditions.lead_s)
        self.recovery, self.detector = recovery, Detector(plant.spec.symmetry)
        self.recoveries: dict[str, int] = {"tipped": 0, "stuck": 0}
        self.freeing = False
        self.tick_index = 0
        self.plan_ms: list[float] = []
        self.lost, self.no_plan = 0, 0

    @property
    def now_s(self) -> float:
        """Time of the present tick."""
        return self.tick_index * self.plant.step_s

    @property
    def counts(self) -> dict[str, int]:
        """What happened how often."""
        return {
            **self.driver.counts,
            "lost": self.lost,
            "no_plan": self.no_plan,
            "timeouts": self.driver.player.timeouts,
            "escapes": getattr(self.navigator, "escapes", 0),
            **(self.recoveries if self.recovery is not None else {}),
        }

    def tick(self) -> None:
        """Sense, decide when due, move."""
        now_s = self.now_s
        self.sensing.tick(now_s)
        if self.oracle is not None:
            self.oracle.remember(now_s, 1.0)
        self._free(now_s)
        if self.driver.due(now_s):
            self._decide(now_s)
        self.plant.step(self.driver.command(now_s, self.plant.cable_lengths(), self.plant.rest_u))
        self.tick_index += 1

    def _free(self, now_s: float) -> None:
        """Notice trouble and answer it with a primitive, where the trial has a recovery."""
        self.freeing = self.freeing and (self.driver.player.running or self.driver.pending is not None)
        if self.recovery is None or self.freeing:
            return
        try:
            caps = self.driver.tracker.caps()
        except EstimationError:
            return
        trouble = self.detector.look(now_s, caps)
        if trouble is not None and not trouble.hopeless:
            self.recoveries[trouble.kind] += 1
            self.freeing = self.driver.accept(self.recovery.order(trouble, now_s, caps, self.plant.world), now_s)

    def _decide(self, now_s: float) -> None:
        try:
            situation = self.driver.situation(now_s, self.plant.world)
        except EstimationError:
            self.lost += 1
            self.driver.asked(now_s, RETRY_S)
            return
        if self.oracle is not None:
            self.oracle.go_to(situation.t_s)
        began = time.perf_counter()
        try:
            self.driver.accept(self.navigator.decide(situation), now_s)
        except PlanningError:
            self.no_plan += 1
        self.plan_ms.append(1e3 * (time.perf_counter() - began))
        self.driver.asked(now_s)


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
    return Outcome(end == "goal", time_s, end, distance, len(trial.plan_ms), trial.plan_ms, trial.counts, np.array(path))
