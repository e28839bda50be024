"""Start and goal of planning tasks, drawn from a seed: worms lie on a surface in a random shape, goals on another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard.errors import PlanningError
from onboard.planning.contact.body import make_body
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.start import check_start
from onboard.planning.contact.worm import WormSpec

TUNING_SEED, HELD_OUT_SEED, TRAINING_SEED = 1000, 9000, 20_000
_TRIES = 400


@dataclass(frozen=True)
class Task:
    """A start and a goal. goal: a point on a surface, shape (3,) [m]."""

    scene: str
    seed: int
    start: State
    goal: NDArray[np.float64]


def draw_task(scene: Scene, spec: WormSpec, seed: int, *, straight: bool = False) -> Task:
    """The task of a seed; the same seed gives the same task."""
    rng = np.random.default_rng([seed, sum(scene.name.encode())])
    start = draw_start(scene, spec, rng, straight=straight)
    goals = scene.file.goals
    low, high = np.array(goals.low_m), np.array(goals.high_m)
    for _ in range(_TRIES):
        point = rng.uniform(low, high)
        for _ in range(3):  # to the nearest surface
            point = point - scene.distance(point) * scene.gradient(point)
        if np.all(point >= low - 0.02) and np.all(point <= high + 0.02) and abs(scene.distance(point)) < 1e-4:
            return Task(scene.name, seed, start, point)
    raise PlanningError(f"no goal on a surface found in the goal box of scene {scene.name}")


def draw_start(scene: Scene, spec: WormSpec, rng: np.random.Generator, *, straight: bool = False) -> State:
    """A legal start in the scene's start box: all pads on the surface, the body bent sideways at random or straight."""
    body = make_body(spec)
    region = scene.file.starts
    n = spec.links.count - 1
    for _ in range(_TRIES):
        place = rng.uniform(region.low_m, region.high_m)
        up = scene.gradient(place)
        heading = np.deg2rad(rng.uniform(*region.heading_deg))
        ahead = np.array([np.cos(heading), np.sin(heading), 0.0])
        ahead -= up * (ahead @ up)
        ahead /= np.linalg.norm(ahead)
        position = place - scene.distance(place) * up + spec.pads.offset_m * up
        root = np.column_stack([up, np.cross(ahead, up), ahead, position])
        shape = np.zeros((n, 3))
        shape[:, 0] = rng.uniform(spec.segments.length_min_m + 0.01, spec.segments.length_max_m - 0.01, n)
        if straight:
            shape[:, 0] = 0.5 * (spec.segments.length_min_m + spec.segments.length_max_m)
        else:  # about the pad normal: the body bends in the surface
            shape[:, 1] = rng.uniform(-0.35, 0.35, n) * spec.segments.curvature_max_per_m
        frames = np.empty((n + 1, 3, 4))
        chain(root, shape, frames)
        state = State(frames, shape, np.ones(n + 1, dtype=np.uint8))
        try:
            check_start(body, scene, state)
        except PlanningError:
            continue
        return state
    raise PlanningError(f"no legal start found in the start box of scene {scene.name}")
