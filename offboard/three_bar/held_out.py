"""One idea: held-out test windows, made anew from seeds: random driving, driving by MPPI, windows with walls and ceilings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offboard.three_bar.episodes import VELOCITY_STEPS, drive_plant, state_at
from onboard.errors import RobotFault
from onboard.messages import Floats
from sim.three_bar.course import signed_distance
from sim.three_bar.plant import Plant, Snapshot
from sim.three_bar.robot_file import ThreeBar

HELD_OUT_SEED = 20_261  # never used for data
STEPS = 200
TOUCH_U = 0.02
SETS = ("random", "on_policy", "contact")


@dataclass(frozen=True, slots=True)
class SetPlan:
    """Which drives on which grounds; `episodes` of `seconds`, a window every `stride` steps."""

    drives: tuple[str, ...]
    terrains: tuple[str, ...]
    episodes: int
    seconds: float
    stride: int
    mppi_samples: int


@dataclass(frozen=True, slots=True)
class Window:
    """state (48,) at its start, controls (200, 6), world (K, 16), caps_u (200, 6, 3): what the plant then did."""

    state: Floats
    controls: Floats
    world: Floats
    caps_u: Floats
    terrain: str


@dataclass(frozen=True, slots=True)
class Start:
    """A plant in the middle of a drive, to try candidate plans from."""

    plant: Plant
    snapshot: Snapshot
    state: Floats
    terrain: str


def plans(quick: bool) -> dict[str, SetPlan]:
    """The three sets; the quick ones are regenerated in seconds."""
    blocks = ("uniform", "bang", "coloured", "primitives")
    if quick:
        return {
            "random": SetPlan(blocks, ("flat", "tilted"), 16, 5.0, 100, 8),
            "on_policy": SetPlan(("mppi",), ("flat", "tilted"), 4, 4.0, 50, 8),
            "contact": SetPlan(("bang", "coloured", "primitives"), ("walls", "ceiling"), 18, 12.0, 50, 8),
        }
    return {
        "random": SetPlan(blocks, ("flat", "tilted", "ramp"), 72, 12.0, 100, 24),
        "on_policy": SetPlan(("mppi",), ("flat", "tilted"), 20, 12.0, 50, 24),
        "contact": SetPlan(("bang", "coloured", "primitives", "mppi"), ("walls", "ceiling"), 64, 12.0, 50, 24),
    }


def touches(caps: Floats, world: Floats, radius: float) -> bool:
    """Whether any cap of (T, 6, 3) comes within TOUCH_U of an object other than the floor."""
    return bool(len(world) > 1 and signed_distance(caps, world)[..., 1:].min() - radius < TOUCH_U)


def make_set(
    spec: ThreeBar, name: str, plan: SetPlan, starts: int, progress: Callable[[], None]
) -> tuple[list[Window], list[Start]]:
    """Windows of a set, and the plants at the end of its first `starts` episodes (of those that touch, in "contact").

    An episode whose simulation breaks down is left out, as in training.
    """
    windows: list[Window] = []
    kept: list[Start] = []
    top_speed = spec.actuators.max_speed_rad_s
    for index in range(plan.episodes):
        pairs = [(terrain, drive) for drive in plan.drives for terrain in plan.terrains]
        terrain, drive = pairs[index % len(pairs)]
        seed = (HELD_OUT_SEED, SETS.index(name), index)
        progress()
        try:
            plant, record = drive_plant(spec, terrain, drive, plan.seconds, seed, plan.mppi_samples)
        except RobotFault:
            continue
        caps, speed = np.array(record.caps), np.array(record.speed)
        radius = spec.bodies.cap_radius_u
        for begin in range(VELOCITY_STEPS, len(caps) - STEPS, plan.stride):
            ahead = caps[begin + 1 : begin + 1 + STEPS]
            if name == "contact" and not touches(ahead, plant.world, radius):
                continue
            controls = speed[begin + 1 : begin + 1 + STEPS] / top_speed
            windows.append(Window(state_at(record, begin), controls, plant.world, ahead, terrain))
        if len(kept) < starts and (name != "contact" or touches(caps[-1:], plant.world, radius + 0.2)):
            kept.append(Start(plant, plant.snapshot(), state_at(record, len(caps) - 1), terrain))
    return windows, kept
