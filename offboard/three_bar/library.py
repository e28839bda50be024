"""One idea: the primitive library.

What each primitive does to the robot's planar pose, measured on the plant, with its spread.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onboard.errors import ModelError
from sim.three_bar.gait import Effect, run_primitive, side_ranges
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar, physics_hash

FORMAT = 1
SIDES_U = (1.0, 1.2, 1.4)  # left and right ranges that rolls are planned with (reference page)


@dataclass(frozen=True, slots=True)
class Entry:
    """Mean effect of one primitive and its standard deviation over `samples` cycles.

    dx along the principal axis, dy to its left [u], turn [rad], seconds; left_u, right_u: ranges of even and odd cables [u].
    """

    name: str
    left_u: float
    right_u: float
    dx_u: float
    dy_u: float
    turn_rad: float
    seconds: float
    dx_sd_u: float
    dy_sd_u: float
    turn_sd_rad: float
    timeouts: int
    samples: int


def variants(spec: ThreeBar) -> list[tuple[str, float, float]]:
    """(primitive, left range, right range): every primitive with its own range, and rolls with all pairs of SIDES_U."""
    own = [(p.name, p.range_u, p.range_u) for p in spec.primitives]
    return own + [("roll", left, right) for left in SIDES_U for right in SIDES_U]


def measure(plant: Plant, name: str, left_u: float, right_u: float, starts: int, cycles: int, seed: int) -> Entry:
    """Mean over `cycles` of `starts` runs; the first cycle of a run, which begins from another shape, does not count."""
    rng = np.random.default_rng([seed, starts, cycles])
    primitive, effects = plant.spec.primitive(name), list[Effect]()
    for _ in range(starts):
        plant.reset(yaw_rad=float(rng.uniform(-np.pi, np.pi)))
        plant.settle(float(rng.uniform(1.0, 3.0)))
        for cycle in range(cycles + 1):
            effect = run_primitive(plant, primitive, range_u=side_ranges(left_u, right_u))
            if cycle:
                effects.append(effect)
    values = np.array([[e.dx_u, e.dy_u, e.turn_rad, e.seconds] for e in effects])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    return Entry(
        name,
        left_u,
        right_u,
        *(float(v) for v in mean),
        *(float(v) for v in spread[:3]),
        timeouts=sum(e.timeouts for e in effects),
        samples=len(effects),
    )


def build(plant: Plant, starts: int, cycles: int, seed: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """The whole library as plain data, with its hash."""
    todo = variants(plant.spec)
    entries = []
    for index, (name, left, right) in enumerate(todo):
        entries.append(asdict(measure(plant, name, left, right, starts, cycles, seed)))
        progress(index + 1, len(todo))
    body = {
        "format": FORMAT,
        "robot": plant.spec.robot.name,
        "physics_hash": physics_hash(),
        "measured_with": "plant",
        "scene": plant.scene.name,
        "friction": plant.scene.friction,
        "housing_radius_u": plant.scene.housing_radius_u,
        "seed": seed,
        "entries": entries,
    }
    return {**body, "sha256": content_hash(body)}


def content_hash(body: dict[str, Any]) -> str:
    """sha256 of the canonical JSON of everything but the hash itself."""
    clean = {key: value for key, value in body.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(clean, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def write_library(path: Path, library: dict[str, Any]) -> None:
    """Write atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(library, indent=1) + "\n")
    part.replace(path)


def read_library(path: Path) -> dict[str, Any]:
    """Read and check: format, hash, robot's physics. Raises ModelError with the reason."""
    try:
        library = json.loads(path.read_text())
        entries = [Entry(**entry) for entry in library["entries"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path}: not a primitive library: {error}") from error
    if library.get("format") != FORMAT:
        raise ModelError(f"{path}: format {library.get('format')}, this version reads {FORMAT}")
    if library.get("sha256") != content_hash(library):
        raise ModelError(f"{path}: its content does not match its hash: damaged or edited")
    if library["physics_hash"] != physics_hash():
        raise ModelError(f"{path}: was measured with another robot's file: measure again")
    return {**library, "entries": entries}
