"""One execution trial: a seeded task on the plant, executor and planner on a simulated clock, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from onboard.errors import PlanningError
from onboard.planning.contact.execution.executor import Executor, Mode
from onboard.planning.contact.execution.replan import plan_measured
from onboard.planning.contact.guide import Guide, make_guide
from onboard.planning.contact.plan import Plan, State
from onboard.planning.contact.scene import Scene, Solid
from onboard.planning.contact.worm import WormSpec
from sim.worm.common import ProcessorClock, find_scene
from sim.worm.faults import draw
from sim.worm.plant import WormPlant
from sim.worm.tasks import Task, draw_task

Floats = NDArray[np.float64]
TASKS = {"planar": "planar", "slope": "slope"}
LATENCY_S = 1.0  # simulated time until a plan arrives: fixed, so that runs repeat; real times are in `planning_s`
BUDGET_S, EXPANSIONS = 20.0, 3000
BOXES, BOX_GAP_M = 3, 0.09
CAP_S = 300.0
SPOILED_M = 0.02


class SimulatedPlanner:
    """A planner process on a simulated clock: searches at once, answers `LATENCY_S` later. `dead` never answers."""

    def __init__(self, spec: WormSpec, scene: Scene, goal: Floats) -> None:
        self._spec, self._scene, self._goal = spec, scene, goal
        self._answer: tuple[float, Plan | PlanningError] | None = None
        self.planning_s: list[float] = []
        self.dead = False

    def request(self, t_s: float, state: State, spoiled: list[Floats]) -> None:
        """See `Replanner`."""
        clock = ProcessorClock()
        began = clock.now_s()
        answer: Plan | PlanningError
        try:
            body = state.frames[:, :, 3]
            guide = _without(make_guide(self._scene, self._spec, body, self._goal), spoiled)
            answer = plan_measured(
                self._spec, self._scene, state, self._goal, clock, budget_s=BUDGET_S, expansions=EXPANSIONS, guide=guide
            )
        except PlanningError as error:
            answer = error
        self.planning_s.append(clock.now_s() - began)
        self._answer = (t_s + LATENCY_S, answer)

    def poll(self, t_s: float) -> Plan | PlanningError | None:
        """See `Replanner`."""
        if self.dead or self._answer is None or t_s < self._answer[0]:
            return None
        answer, self._answer = self._answer[1], None
        return answer


@dataclass
class Trial:
    """What came of one trial. success: the head got within the goal radius and no moment had all pads loose."""

    task: str
    seed: int
    success: bool
    arrived: bool
    time_s: float
    steps: int
    corrections: int
    replans: dict[str, int]
    seals_lost: int
    falls: int
    torn: int
    releases_refused: int
    planning_s: list[float]
    head_gap_m: float
    reason: str


@dataclass
class Run:
    """A trial's parts while it runs."""

    spec: WormSpec
    scene: Scene
    task: Task
    plant: WormPlant
    planner: SimulatedPlanner
    executor: Executor


def prepare(spec: WormSpec, task_name: str, seed: int) -> Run:
    """A trial ready to run; the same seed gives the same scene, worm and faults."""
    scene = find_scene(TASKS[task_name])
    task = draw_task(scene, spec, seed)
    rng = np.random.default_rng([seed, 5])
    if task_name == "planar":
        scene = _with_boxes(scene, task, rng)
    plant = WormPlant(spec, scene, task.start, draw(rng, spec.links.count - 1), seed)
    planner = SimulatedPlanner(spec, scene, task.goal)
    executor = Executor(spec, scene, task.start, task.goal, plant, plant, planner)
    return Run(spec, scene, task, plant, planner, executor)


def carry_out(run: Run, task_name: str, cap_s: float = CAP_S, each: Callable[[Run], None] | None = None) -> Trial:
    """Runs a prepared trial until it arrives, gives up, or `cap_s` simulated seconds are over."""
    assert run.spec.execution is not None
    period_s = 1.0 / run.spec.execution.rate_hz
    executor, plant = run.executor, run.plant
    while plant.t_s < cap_s and executor.mode not in (Mode.ARRIVED, Mode.HOLDING):
        plant.advance(period_s)
        executor.tick(plant.t_s)
        if each is not None:
            each(run)
    gap = float(np.linalg.norm(plant.frames()[-1, :, 3] - run.task.goal))
    arrived = executor.mode is Mode.ARRIVED and gap <= run.spec.search.goal_radius_m + run.spec.pads.distance_tolerance_m
    record = executor.record
    reason = record.reason or ("" if executor.mode is Mode.ARRIVED else f"not there after {cap_s:g} s")
    return Trial(
        task_name, run.task.seed, arrived and plant.falls == 0, arrived, plant.t_s, record.steps, record.corrections,
        dict(record.replans), record.seals_lost, plant.falls, plant.torn, executor.governor.counts.releases_refused,
        run.planner.planning_s, gap, reason,
    )  # fmt: skip


def _with_boxes(scene: Scene, task: Task, rng: np.random.Generator) -> Scene:
    """The floor with boxes between start and goal, none closer than a worm's width and a half to either."""
    tail, head = task.start.frames[0, :2, 3], task.start.frames[-1, :2, 3]
    boxes: list[Solid] = []
    for _ in range(200):
        place = np.array([rng.uniform(0.32, 0.58), rng.uniform(0.06, 0.34)])
        half, height = rng.uniform(0.02, 0.035), rng.uniform(0.06, 0.10)
        others = [np.array(b.center_m[:2]) for b in boxes]
        clear = [float(np.linalg.norm(place - p)) for p in (tail, head, task.goal[:2])]
        if min(clear) > BOX_GAP_M + half and all(float(np.linalg.norm(place - p)) > 0.16 for p in others):
            extents = [float(half), float(half), float(height / 2)]
            boxes.append(
                Solid("box", [*place.tolist(), float(height / 2)], half_extents_m=extents, edge_radius_m=0.005,
                      rotation_deg=[float(rng.uniform(0.0, 90.0)), 0.0, 0.0])
            )  # fmt: skip
        if len(boxes) == BOXES:
            break
    file = msgspec.structs.replace(scene.file, solids=[*scene.file.solids, *boxes])
    return Scene(file, f"{scene.name} of seed {task.seed}")


def _without(guide: Guide, spoiled: list[Floats]) -> Guide:
    """A guide whose targets keep away from places where no seal came about."""
    if not spoiled:
        return guide
    valid = guide.valid.copy()
    for place in spoiled:
        near = np.linalg.norm(guide.targets[..., 3] - place, axis=-1) < SPOILED_M
        valid[near] = 0
    return replace(guide, valid=valid)
