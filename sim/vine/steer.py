"""One idea: one steering episode: the full simulator as the plant, a camera with noise and delay, the onboard steerer, one clock.

The clock is simulated: a plan begins a planning period after its picture was asked for, whatever planning took on this
computer; what it took is reported beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onboard.clock import SimulatedClock
from onboard.messages import Floats
from onboard.planning.vine.field import Field, field_of
from onboard.planning.vine.steer import Steerer
from onboard.vine_robot import VineRobot
from sim.vine.goals import Task
from sim.vine.plant import FRAME_S, Plant

SETTLE_S = 1.0  # steered on after growth has stopped, before the distance counts


def field_for(robot: VineRobot, task: Task) -> Field:
    """The map that the planner gets of a task's obstacles."""
    shapes = [(item.corners, item.rounding_m) for item in task.scene.obstacles]
    return field_of(shapes, (robot.map.x_m[0], robot.map.y_m[0]), robot.map.cells, robot.map.cell_m)


@dataclass
class Episode:
    """What came of it: distances of the true tip from the goal [m], times [s], planning times by wall and processor [s].

    lines: one a frame; tips: one a plan.
    """

    final_m: float
    nearest_m: float
    time_s: float
    length_m: float
    plan_s: list[float]
    plan_cpu_s: list[float]
    refused_plans: int
    worst_penetration_m: float
    lines: list[Floats]
    tips: list[Floats]


def steer(robot: VineRobot, task: Task, seed: int, threads: int = 1, progress: Callable[[float], None] | None = None) -> Episode:
    """Grow to the goal, or until the time is up or the tube is used up; then watch for a moment and measure."""
    steerer = Steerer(robot, field_for(robot, task), task.goal, seed, threads)
    plant, clock = Plant(robot, task, seed), SimulatedClock()
    period = max(1, round(1.0 / (robot.planner.rate_hz * FRAME_S)))
    glance = max(1, round(1.0 / (robot.camera.rate_hz * FRAME_S)))
    took: list[float] = []
    worked: list[float] = []
    tips: list[Floats] = []
    nearest = np.inf
    stopped = np.inf
    while clock.now_s() < min(robot.planner.time_limit_s, stopped) + SETTLE_S:
        now = clock.now_s()
        if now >= robot.planner.time_limit_s and not steerer.arrived:
            steerer.hold()
        begin, cpu = time.perf_counter(), time.process_time()
        steerer.see(plant.picture(now))
        steerer.plan(now, now + period * FRAME_S)
        took.append(time.perf_counter() - begin)
        worked.append(time.process_time() - cpu)
        for k in range(0, period, glance):
            now = clock.now_s()
            if steerer.watch(plant.picture(now), now):
                stopped = min(stopped, now)
            frames = min(glance, period - k)
            plant.run(np.stack([steerer.command(now + j * FRAME_S) for j in range(frames)]))
            clock.advance(frames * FRAME_S)
            nearest = min(nearest, float(np.linalg.norm(plant.tip() - task.goal)))
        tips.append(plant.tip())
        if progress:
            progress(clock.now_s())
    final = float(np.linalg.norm(plant.tip() - task.goal))
    length = float(np.hypot(*np.diff(plant.line(), axis=0).T).sum())
    return Episode(
        final,
        min(nearest, final),
        clock.now_s(),
        length,
        took,
        worked,
        steerer.refused,
        plant.worst_penetration_m,
        plant.lines,
        tips,
    )
