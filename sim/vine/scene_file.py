"""Scene files: TOML as checked tables, and the scene that they describe."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from sim.vine.robot import UnitsWarning, VineError
from sim.vine.scene import Obstacle, Scene, box, circle, polygon, wall

SCENES = Path(__file__).parent / "scenes"
UNITS = {"m": 1.0, "mm": 1e-3, "inch": 0.0254}
FAR_M, SMALL_M, FAST_M_S = 20.0, 1e-3, 3.0  # beyond these a value was probably meant in another unit

Number = Annotated[float, Meta(ge=-1e6, le=1e6)]
Size = Annotated[float, Meta(gt=0.0, le=1e6)]
Point = tuple[Number, Number]


class Box(Section, frozen=True, tag_field="shape", tag="box"):
    """From its lower left corner."""

    x: Number
    y: Number
    width: Size
    height: Size

    def made(self, scale: float) -> Obstacle:
        return box(self.x * scale, self.y * scale, self.width * scale, self.height * scale)


class Circle(Section, frozen=True, tag_field="shape", tag="circle"):
    """From its centre."""

    x: Number
    y: Number
    radius: Size

    def made(self, scale: float) -> Obstacle:
        return circle(self.x * scale, self.y * scale, self.radius * scale)


class Polygon(Section, frozen=True, tag_field="shape", tag="polygon"):
    """Convex, in either sense."""

    corners: Annotated[list[Point], Meta(min_length=3, max_length=1000)]

    def made(self, scale: float) -> Obstacle:
        return polygon(scale * np.array(self.corners))


class Wall(Section, frozen=True, tag_field="shape", tag="wall"):
    """Straight, rounded at its ends by half its thickness."""

    start: Point = msgspec.field(name="from")
    end: Point = msgspec.field(name="to")
    thickness: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0

    def made(self, scale: float) -> Obstacle:
        return wall(scale * np.array(self.start), scale * np.array(self.end), scale * self.thickness)


class SceneFile(Section, frozen=True):
    """The whole file; lengths of obstacles in `unit`, `offset` and `base` in metres."""

    unit: Literal["m", "mm", "inch"]
    name: Annotated[str, Meta(max_length=120)] = ""
    offset: Point = (0.0, 0.0)
    base: Point = (0.0, 0.0)
    heading_deg: Annotated[float, Meta(ge=-360.0, le=360.0)] = 0.0
    spread_deg: Annotated[float, Meta(ge=0.0, le=180.0)] = 0.0
    rate_m_s: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.15
    frames: Annotated[int, Meta(ge=1, le=100_000)] = 100
    obstacles: Annotated[list[Box | Circle | Polygon | Wall], Meta(max_length=10_000)] = msgspec.field(default_factory=list)


def load_scene(name_or_path: str | Path) -> Scene:
    """Reads a scene file (or a name under scenes/); ConfigError names file, key and what would be right.

    Warns (UnitsWarning) of sizes, distances and rates that look like another unit.
    """
    path = Path(name_or_path)
    if not path.suffix:
        path = SCENES / f"{name_or_path}.toml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in SCENES.glob("*.toml")))
        raise ConfigError(str(path), "", f"no such scene; known ones: {known}")
    table = convert(str(path), "", read_toml(path), SceneFile)
    obstacles = []
    for k, item in enumerate(table.obstacles):
        try:
            made = item.made(UNITS[table.unit])
        except VineError as error:
            raise ConfigError(str(path), f"obstacles[{k}]", str(error)) from error
        obstacles.append(Obstacle(made.corners + np.array(table.offset), made.rounding_m))
    scene = Scene(
        table.name or path.stem,
        tuple(obstacles),
        table.base,
        math.radians(table.heading_deg),
        math.radians(table.spread_deg),
        table.rate_m_s,
        table.frames,
    )
    for doubt in _doubts(scene):
        warnings.warn(f"scene {path}: {doubt}", UnitsWarning, stacklevel=2)
    return scene


def _doubts(scene: Scene) -> list[str]:
    """What is possible but looks like another unit."""
    doubts = []
    base = np.array(scene.base)
    if np.abs(base).max() > FAR_M:
        doubts.append(f"base is {np.abs(base).max():g} m from the origin; it is in metres (millimetres?)")
    if scene.rate_m_s > FAST_M_S:
        doubts.append(f"rate_m_s is {scene.rate_m_s:g} m/s (millimetres a second?)")
    for k, item in enumerate(scene.obstacles):
        reach = float(np.abs(item.corners - base).max())
        size = float(np.ptp(item.corners, axis=0).max()) + 2.0 * item.rounding_m
        if reach > FAR_M:
            doubts.append(f"obstacles[{k}] reaches {reach:g} m from the base (unit of the file?)")
        elif size < SMALL_M:
            doubts.append(f"obstacles[{k}] is {1e3 * size:g} mm large (unit of the file?)")
    return doubts
