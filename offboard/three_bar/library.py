"""One idea: measure a primitive library on the plant: every primitive, every pair of ranges, from several starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from onboard.planning.primitives import FORMAT, Entry, Library, content_hash
from sim.three_bar.gait import Effect, run_primitive, side_ranges
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar, physics_hash

SIDES_U = (1.0, 1.2, 1.4)  # left and right ranges that rolls are planned with (reference page)


def variants(spec: ThreeBar) -> list[tuple[str, float, float]]:
    """(primitive, left range, right range): every primitive with its own range, and rolls with all pairs of SIDES_U."""
    own = [(p.name, p.range_u, p.range_u) for p in spec.primitives]
    return own + [("roll", left, right) for left in SIDES_U for right in SIDES_U]


def measure(plant: Plant, name: str, left_u: float, right_u: float, starts: int, cycles: int, seed: int) -> Entry:
    """Mean over `cycles` of `starts` runs; the first cycle of a run, which begins from another shape, does not count."""
    rng = np.random.default_rng([seed, starts, cycles])
    primitive = plant.spec.primitive(name)
    effects: list[Effect] = []
    for _ in range(starts):
        plant.reset(yaw_rad=float(rng.uniform(-np.pi, np.pi)))
        plant.settle(float(rng.uniform(1.0, 3.0)))
        run = [run_primitive(plant, primitive, range_u=side_ranges(left_u, right_u)) for _ in range(cycles + 1)]
        effects += run[1:]
    values = np.array([[e.dx_u, e.dy_u, e.turn_rad, e.seconds] for e in effects])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    return Entry(
        name=name,
        left_u=left_u,
        right_u=right_u,
        dx_u=float(mean[0]),
        dy_u=float(mean[1]),
        turn_rad=float(mean[2]),
        seconds=float(mean[3]),
        dx_sd_u=float(spread[0]),
        dy_sd_u=float(spread[1]),
        turn_sd_rad=float(spread[2]),
        timeouts=sum(e.timeouts for e in effects),
        samples=len(effects),
    )


def build(plant: Plant, starts: int, cycles: int, seed: int, progress: Callable[[int, int], None]) -> Library:
    """The whole library, hashed."""
    todo = variants(plant.spec)
    entries = []
    for index, (name, left, right) in enumerate(todo):
        entries.append(measure(plant, name, left, right, starts, cycles, seed))
        progress(index + 1, len(todo))
    library = Library(
        format=FORMAT,
        robot=plant.spec.robot.name,
        physics_hash=physics_hash(),
        measured_with="plant",
        scene=plant.scene.name,
        friction=plant.scene.friction,
        housing_radius_u=plant.scene.housing_radius_u,
        seed=seed,
        entries=entries,
    )
    return msgspec.structs.replace(library, sha256=content_hash(library))


def write_library(path: Path, library: Library) -> None:
    """Write atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(library), indent=1) + b"\n")
    part.replace(path)
