"""One idea: a course's TOML becomes a scene, a floor and oriented boxes, that plant, model and planner all read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, field

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.messages import Floats, frozen
from onboard.resources import root
from onboard.three_bar_robot import Positive

COURSES = ("flat_obstacle", "incline", "narrow", "low_clearance", "three_d")
WORLD_COLUMNS = 16  # centre 3, half lengths 3, rotation 9 (rows, world from box), friction (0: no object)
WALL_HALF_U = 0.5
WALL_HEIGHT_U = 4.0
FLOOR_HALF_U = 60.0
FLOOR_DEPTH_U = 5.0

Coordinate = Annotated[float, Meta(ge=-1000.0, le=1000.0)]
Pair = tuple[Coordinate, Coordinate]
Triple = tuple[Coordinate, Coordinate, Coordinate]


class CourseTable(Section, frozen=True):
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    friction: Annotated[float, Meta(gt=0.0, le=10.0)]
    housing_radius_u: Positive
    limit_s: Positive
    walled: bool


class Bounds(Section, frozen=True):
    x_u: Pair
    y_u: Pair


class Start(Section, frozen=True):
    """Starts are drawn uniformly within +-spread of (x, y), with any yaw, and settle before the clock runs."""

    x_u: Coordinate
    y_u: Coordinate
    spread_u: Annotated[float, Meta(ge=0.0, le=5.0)]


class Goal(Section, frozen=True):
    x_u: Coordinate
    y_u: Coordinate


class BoxTable(Section, frozen=True):
    centre_u: Triple
    half_u: tuple[Positive, Positive, Positive]


class RampTable(Section, frozen=True):
    """A plane over the rectangle x, y that rises from z[0] to z[1] in the direction `rises`."""

    x_u: Pair
    y_u: Pair
    z_u: Pair
    rises: Literal["+x", "-x", "+y", "-y"]


class Course(Section, frozen=True):
    """A course file."""

    format: Literal[1]
    course: CourseTable
    bounds: Bounds
    start: Start
    goal: Goal
    boxes: list[BoxTable] = field(default_factory=list)
    ramps: list[RampTable] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OrientedBox:
    """centre (3,) [u], half (3,) [u], rotation (3, 3): world from box."""

    centre: Floats
    half: Floats
    rotation: Floats


@dataclass(frozen=True, slots=True)
class Scene:
    """What the robot may touch. The floor passes through the origin with `floor_rotation` (3, 3), z axis outwards."""

    name: str
    friction: float
    housing_radius_u: float
    floor_rotation: Floats
    boxes: tuple[OrientedBox, ...] = ()

    def world(self, rows: int | None = None) -> Floats:
        """Objects (K, 16): the floor first, as a large box, then the boxes; padded with zero rows up to `rows`.

        Raises ValueError when the scene has more objects than `rows`.
        """
        depth = self.floor_rotation @ np.array([0.0, 0.0, -FLOOR_DEPTH_U])
        floor = OrientedBox(depth, np.array([FLOOR_HALF_U, FLOOR_HALF_U, FLOOR_DEPTH_U]), self.floor_rotation)
        objects = (floor, *self.boxes)
        count = len(objects) if rows is None else rows
        if len(objects) > count:
            raise ValueError(f"scene {self.name!r} has {len(objects)} objects, more than {count} rows")
        out = np.zeros((count, WORLD_COLUMNS))
        for row, item in zip(out, objects, strict=False):
            row[0:3], row[3:6], row[6:15], row[15] = item.centre, item.half, item.rotation.ravel(), self.friction
        return frozen(out)


def box(centre: Triple, half: Triple) -> OrientedBox:
    """An axis-parallel box."""
    return OrientedBox(frozen(centre), frozen(half), frozen(np.eye(3)))


def tilt(axis: Literal["x", "y"], angle_rad: float) -> Floats:
    """Rotation about a world axis (3, 3)."""
    c, s = np.cos(angle_rad), np.sin(angle_rad)
    if axis == "x":
        return frozen([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return frozen([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def ramp(table: RampTable) -> OrientedBox:
    """The ramp as a tilted box whose upper face is the ramp; deep enough that nothing fits beneath it."""
    along, sign = table.rises[1], 1.0 if table.rises[0] == "+" else -1.0
    spans = {"x": table.x_u, "y": table.y_u}
    run = spans[along][1] - spans[along][0]
    rise = table.z_u[1] - table.z_u[0]
    angle = float(np.arctan2(rise, run))
    rotation = tilt("y", -sign * angle) if along == "x" else tilt("x", sign * angle)
    length, depth = float(np.hypot(run, rise)), table.z_u[1] + 0.5
    across = spans["y" if along == "x" else "x"]
    half_across = (across[1] - across[0]) / 2.0
    half = (length / 2.0, half_across, depth / 2.0) if along == "x" else (half_across, length / 2.0, depth / 2.0)
    top = np.array([sum(table.x_u) / 2.0, sum(table.y_u) / 2.0, sum(table.z_u) / 2.0])
    return OrientedBox(frozen(top - rotation[:, 2] * depth / 2.0), frozen(half), rotation)


def walls(bounds: Bounds) -> tuple[OrientedBox, ...]:
    """Four walls whose inner faces are the bounds."""
    (x0, x1), (y0, y1) = bounds.x_u, bounds.y_u
    mid_x, mid_y, z, w = (x0 + x1) / 2.0, (y0 + y1) / 2.0, WALL_HEIGHT_U / 2.0, WALL_HALF_U
    half_x, half_y = (x1 - x0) / 2.0 + 2.0 * w, (y1 - y0) / 2.0 + 2.0 * w
    return (
        box((x0 - w, mid_y, z), (w, half_y, z)),
        box((x1 + w, mid_y, z), (w, half_y, z)),
        box((mid_x, y0 - w, z), (half_x, w, z)),
        box((mid_x, y1 + w, z), (half_x, w, z)),
    )


def load_course(name: str, folder: Path | None = None) -> Course:
    """Read and check robots/courses/<name>.toml. Raises ConfigError naming file, key and range."""
    folder = folder or root() / "robots" / "courses"
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.toml")))
        raise ConfigError(str(path), "", f"no such course; known: {known}")
    where = str(path)
    course = convert(where, "", read_toml(path), Course)
    for key, (low, high) in (("bounds.x_u", course.bounds.x_u), ("bounds.y_u", course.bounds.y_u)):
        if not low < high:
            raise ConfigError(where, key, f"[{low}, {high}] is not an increasing range")
    for key, point in (("start", course.start), ("goal", course.goal)):
        (x0, x1), (y0, y1) = course.bounds.x_u, course.bounds.y_u
        if not (x0 < point.x_u < x1 and y0 < point.y_u < y1):
            raise ConfigError(where, key, f"({point.x_u}, {point.y_u}) lies outside the bounds")
    for index, item in enumerate(course.ramps):
        for axis, (low, high) in (("x_u", item.x_u), ("y_u", item.y_u), ("z_u", item.z_u)):
            if not low < high:
                raise ConfigError(where, f"ramps[{index}].{axis}", f"[{low}, {high}] is not an increasing range")
    return course


def scene_of(course: Course) -> Scene:
    """Everything solid in a course."""
    boxes = [box(item.centre_u, item.half_u) for item in course.boxes]
    boxes += [ramp(item) for item in course.ramps]
    if course.course.walled:
        boxes += walls(course.bounds)
    return Scene(
        name=course.course.name,
        friction=course.course.friction,
        housing_radius_u=course.course.housing_radius_u,
        floor_rotation=frozen(np.eye(3)),
        boxes=tuple(boxes),
    )


def signed_distance(points: Floats, world: Floats) -> Floats:
    """Signed distance [u] of points (..., 3) to every object of a world (K, 16): (..., K); padded rows are infinite.

    Exact outside a box and inside it (negative there, to the nearest face).
    """
    offset = points[..., None, :] - world[:, 0:3]
    local = np.einsum("...ki,kij->...kj", offset, world[:, 6:15].reshape(-1, 3, 3))
    q = np.abs(local) - world[:, 3:6]
    outside = np.linalg.norm(np.maximum(q, 0.0), axis=-1)
    distance = outside + np.minimum(q.max(axis=-1), 0.0)
    return np.where(world[:, 15] > 0.0, distance, np.inf)
