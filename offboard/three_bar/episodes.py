"""One idea: an episode is one drive on one ground: random blocks, primitives, MPPI, or the controller itself to a goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offboard.three_bar.drive_value import drive_value
from offboard.three_bar.terrains import random_ground
from onboard.errors import RobotFault
from onboard.messages import Floats
from onboard.planning.costs import Reach, SlackCables, StrutState, Sum
from onboard.planning.mppi import Mppi, MppiConfig
from onboard.planning.sampling import Bang, Bounds, Coloured, Gaussian, Knots, Mixture, Sampler, Uniform
from onboard.ports import Dynamics
from sim.three_bar.gait import run_primitive
from sim.three_bar.plant import Plant
from sim.three_bar.pose import heading
from sim.three_bar.robot_file import CABLES, Primitive, ThreeBar
from sim.three_bar.rollouts import PlantRollouts

DRIVES = ("uniform", "bang", "coloured", "primitives", "mppi", "value")
LAYOUT = StrutState(caps=6, cables=CABLES)
COMMANDS = Bounds(-np.ones(CABLES), np.ones(CABLES))
BLOCK_S, HORIZON_S = 0.5, 2.0
CABLE_OFFSET_U = 0.36  # a driven cable is about this much shorter than the distance of its caps (reference measurement)
SLACK_WEIGHT, HEADING_WEIGHT = 0.5, 3.0
WORLD_ROWS = 16
VELOCITY_STEPS = 4  # velocities are differences over 0.04 s, as far apart as the robot's own sensing needs
BLOCK_SAMPLERS: dict[str, Sampler] = {
    "uniform": Uniform(),
    "bang": Bang(),
    "coloured": Coloured(1.2, 0.7, around_plan=False),
}


@dataclass(frozen=True, slots=True)
class Episode:
    """What was recorded at plant steps.

    Caps_u (T + 1, 6, 3), rest_u and speed_rad_s (T + 1, 6), command (T, 6), world (K, 16).
    """

    caps_u: Floats
    rest_u: Floats
    speed_rad_s: Floats
    command: Floats
    world: Floats
    terrain: str
    drive: str
    seed: tuple[int, ...]


class Recording:
    """Collects an episode while a plant runs; `watch` goes wherever something steps the plant."""

    def __init__(self, plant: Plant, steps: int) -> None:
        self.steps, self.step_s = steps, plant.step_s
        self.caps, self.rest, self.speed = [plant.caps()], [plant.rest_u.copy()], [plant.speed_rad_s.copy()]

    def watch(self, plant: Plant) -> None:
        """Record the state after a step; raises StopIteration when enough is recorded."""
        self.caps.append(plant.caps())
        self.rest.append(plant.rest_u.copy())
        self.speed.append(plant.speed_rad_s.copy())
        if len(self.caps) > self.steps:
            raise EnoughRecordedError


class EnoughRecordedError(Exception):
    """Ends a drive that knows no length of its own."""


class PlantDynamics:
    """The plant as a planner's model: rolls out from wherever the real plant stands (it sees the hidden spin, too)."""

    def __init__(self, plant: Plant, threads: int = 1, stride: int = 20) -> None:
        self.plant, self.stride = plant, stride
        self._rollouts = PlantRollouts(plant, threads)

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        """States (M, T / stride, 48) under controls (M, T, 6); velocities and motor speeds are left zero."""
        caps, rests = self._rollouts.states_over(self.plant.snapshot(), controls)
        caps, rests = caps[:, self.stride - 1 :: self.stride], rests[:, self.stride - 1 :: self.stride]
        states = np.zeros((*caps.shape[:2], LAYOUT.size))
        states[..., :18] = caps.reshape(*caps.shape[:2], 18)
        states[..., 36:42] = rests
        return states


def navigation_config(samples: int, step_s: float) -> MppiConfig:
    """0.5 s blocks over 2 s, half warm-started and half coloured and saturated, the best sample (reference measurement)."""
    sampler = Mixture(((0.5, Gaussian(0.5)), (0.5, Coloured(1.2, 0.7, around_plan=False))))
    return MppiConfig(
        horizon_steps=round(HORIZON_S / step_s),
        step_s=step_s,
        knots=round(HORIZON_S / BLOCK_S),
        samples=samples,
        choice="best",
        sampler=sampler,
    )


def reach_cost(spec: ThreeBar, goal: Floats) -> Sum:
    """Distance and heading to `goal` (2,), and slack cables."""
    pairs = np.array(spec.tendons.driven.pairs)
    return Sum(
        (
            Reach(LAYOUT, goal, HEADING_WEIGHT),
            SlackCables(LAYOUT, pairs, CABLE_OFFSET_U, SLACK_WEIGHT),
        )
    )


def drive_blocks(plant: Plant, record: Recording, rng: np.random.Generator, sampler: Sampler) -> None:
    """Open-loop blocks; a block lasts 0.5 s, in a third of the episodes anything from 0.1 to 1 s."""
    block_s = BLOCK_S if rng.random() < 0.67 else float(rng.uniform(0.1, 1.0))
    per_block = max(1, round(block_s / plant.step_s))
    blocks = record.steps // per_block + 1
    knots = COMMANDS.clip(sampler.draw(rng, 1, np.zeros((blocks, CABLES)), COMMANDS))
    commands = Knots(blocks * per_block, blocks).expand(knots)[0]
    for command in commands:
        plant.step(command)
        record.watch(plant)


def drive_primitives(plant: Plant, record: Recording, rng: np.random.Generator) -> None:
    """Primitives in runs of one to three of a kind, with their range scaled by 0.85 to 1.15."""
    while True:
        chosen = plant.spec.primitives[int(rng.integers(len(plant.spec.primitives)))]
        scaled = Primitive(
            name=chosen.name,
            steps=chosen.steps,
            min_u=chosen.min_u,
            range_u=chosen.range_u * float(rng.uniform(0.85, 1.15)),
        )
        for _ in range(int(rng.integers(1, 4))):
            run_primitive(plant, scaled, record.watch)


def drive_mppi(
    plant: Plant,
    record: Recording,
    rng: np.random.Generator,
    dynamics: Dynamics,
    samples: int,
) -> None:
    """MPPI towards drawn goals, a new one every 5 to 15 s."""
    mppi = Mppi(
        navigation_config(samples, plant.step_s),
        COMMANDS,
        dynamics,
        reach_cost(plant.spec, np.zeros(2)),
        int(rng.integers(2**31)),
    )
    begin_s, next_goal_s = plant.time_s, plant.time_s
    while True:
        now_s = plant.time_s - begin_s
        if plant.time_s >= next_goal_s:
            centre = plant.caps().mean(axis=0)[:2]
            ahead = float(heading(plant.caps())) + float(rng.normal(0.0, 1.0)) + np.pi * float(rng.integers(2))
            mppi.cost = reach_cost(plant.spec, centre + 10.0 * np.array([np.cos(ahead), np.sin(ahead)]))
            next_goal_s = plant.time_s + float(rng.uniform(5.0, 15.0))
        plan = mppi.plan(state_at(record, len(record.caps) - 1), now_s, plant.world)
        for row in plan.value[: round(BLOCK_S / plant.step_s)]:
            plant.step(row)
            record.watch(plant)


def state_at(record: Recording, step: int) -> Floats:
    """The state (48,) that the robot could measure at a step of a recording: velocities over the four steps before it."""
    state = np.zeros(LAYOUT.size)
    before = max(step - VELOCITY_STEPS, 0)
    caps = np.asarray(record.caps[step])
    state[:18] = caps.ravel()
    if step > before:
        state[18:36] = ((caps - np.asarray(record.caps[before])) / ((step - before) * record.step_s)).ravel()
    state[36:42], state[42:] = record.rest[step], record.speed[step]
    return state


def drive_plant(
    spec: ThreeBar,
    terrain: str,
    drive: str,
    seconds: float,
    seed: tuple[int, ...],
    mppi_samples: int = 24,
    model: Dynamics | None = None,
) -> tuple[Plant, Recording]:
    """Drive for `seconds`; the plant as it stands at the end and what was recorded. Everything follows from `seed`.

    MPPI plans with `model`, from what the robot can measure; without one it plans with the plant itself. `value` needs a model
    and a course. Raises RobotFault when the simulation breaks down, PlanningError when there is nowhere to go.
    """
    rng = np.random.default_rng(list(seed))
    ground = random_ground(rng, terrain)
    plant = Plant(spec, ground.scene)
    plant.reset(ground.x_u, ground.y_u, ground.yaw_rad)
    plant.settle(1.0)
    record = Recording(plant, round(seconds / spec.plant.step_s))
    try:
        if drive in BLOCK_SAMPLERS:
            drive_blocks(plant, record, rng, BLOCK_SAMPLERS[drive])
        elif drive == "primitives":
            drive_primitives(plant, record, rng)
        elif drive == "mppi":
            dynamics = PlantDynamics(plant) if model is None else model
            drive_mppi(plant, record, rng, dynamics, mppi_samples)
        elif drive == "value" and model is not None:
            drive_value(plant, record.watch, rng, terrain, model)
        else:
            raise ValueError(f"drive {drive!r} is unknown or lacks a model; known: {', '.join(DRIVES)}")
    except EnoughRecordedError:
        pass
    if not np.isfinite(record.caps).all() or np.abs(record.caps).max() > 500.0:
        raise RobotFault(f"episode {seed} left the world")
    return plant, record


def run_episode(
    spec: ThreeBar,
    terrain: str,
    drive: str,
    seconds: float,
    seed: tuple[int, ...],
    mppi_samples: int = 24,
    model: Dynamics | None = None,
) -> Episode:
    """Record `seconds` of one drive. Raises RobotFault when the simulation breaks down."""
    plant, record = drive_plant(spec, terrain, drive, seconds, seed, mppi_samples, model)
    speed = np.array(record.speed)
    command = speed[1:] / spec.actuators.max_speed_rad_s
    world = plant.scene.world(WORLD_ROWS)
    return Episode(np.array(record.caps), np.array(record.rest), speed, command, world, terrain, drive, seed)
