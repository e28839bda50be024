"""One idea: whether a goal can be reached at all: the cross-entropy method over open-loop commands in the full simulator.

Knots of growth rate, base heading and curvature, joined by lines and followed at the actuators' slew rates, as the steerer's
commands are. The search is told the way left around obstacles; what counts is the tip's distance from the goal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.planning.sampling import Knots
from onboard.planning.vine.cost import WayLeft
from onboard.vine_robot import VineRobot
from sim.vine.goals import Task
from sim.vine.plant import FRAME_S, plant_robot
from sim.vine.simulator import Simulator
from sim.vine.state import Options
from sim.vine.steer import field_for

KNOTS, ELITE, KEEP = 6, 20, 0.3
POPULATION = 200
SECONDS = 6.0
EVERY = 4  # frames between looks at the tip


@dataclass(frozen=True)
class Reached:
    """The nearest a tip came to the goal [m] in so many rollouts."""

    nearest_m: float
    rollouts: int


def follow(robot: VineRobot, wanted: Floats) -> Floats:
    """What the actuators do (F, B, 3) when asked for (F, B, 3): heading and curvature at their slew rates from 0."""
    made, now, reach = wanted.copy(), np.zeros((wanted.shape[1], 2)), robot.slew * FRAME_S
    for t in range(len(wanted)):
        now = now + np.clip(wanted[t, :, 1:] - now, -reach, reach)
        made[t, :, 1:] = now
    return made


def reachable(
    robot: VineRobot, task: Task, seed: int, rollouts: int = 20_000, progress: Callable[[int], None] | None = None
) -> Reached:
    """Search until a tip comes within the robot's tolerance of the goal or `rollouts` are used up."""
    rng = np.random.default_rng([seed, 11])
    way = WayLeft(field_for(robot, task), task.goal, robot.body.radius_m, robot.planner.keep_off_m)
    frames = round(SECONDS / FRAME_S)
    sim = Simulator(plant_robot(robot), [task.scene] * POPULATION, Options(links=robot.body.links))
    start = sim.start(0.0)
    low, high, basis = robot.low, robot.high, Knots(frames, KNOTS, "linear")
    mean = np.tile(np.array([high[0], np.arctan2(task.goal[1], task.goal[0]), 0.0]), (KNOTS, 1))
    spread = np.tile(0.5 * (high - low), (KNOTS, 1))
    nearest, used = np.inf, 0
    while used < rollouts:
        knots = np.clip(mean + spread * rng.standard_normal((POPULATION, KNOTS, 3)), low, high)
        commands = follow(robot, basis.expand(knots).transpose(1, 0, 2))
        controls = sim.controls(frames, start)
        controls[..., 0], controls[..., 4], controls[..., 5] = commands[..., 0], commands[..., 1], commands[..., 2]
        state, cost = start, np.full(POPULATION, np.inf)
        for begin in range(0, frames, EVERY):
            made = sim.rollout(state, controls[begin : begin + EVERY], keep=False)
            state = made.last
            tips = state.tip()
            cost = np.minimum(cost, way(tips))
            nearest = min(nearest, float(np.linalg.norm(tips - task.goal, axis=1).min()))
            if nearest <= robot.planner.tolerance_m:
                return Reached(nearest, used + POPULATION)
        used += POPULATION
        best = knots[np.argsort(cost, kind="stable")[:ELITE]]
        mean = KEEP * mean + (1 - KEEP) * best.mean(axis=0)
        spread = KEEP * spread + (1 - KEEP) * np.maximum(best.std(axis=0), 0.05 * (high - low))
        if progress:
            progress(used)
    return Reached(nearest, used)
