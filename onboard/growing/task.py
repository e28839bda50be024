"""One idea: where to grow: a file with the obstacles that are known and the goal, seen from the base.

JSON: {"obstacles": [{"corners_m": [[x, y], ...], "rounding_m": r}, ...], "goal_m": [x, y]}. An obstacle is a convex polygon,
counter-clockwise (one corner: a circle, two: a wall), inflated by its rounding.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section, convert, read_text
from onboard.errors import ConfigError
from onboard.messages import Floats
from onboard.planning.vine.field import Field, field_of
from onboard.vine_robot import VineRobot

Metres = Annotated[float, Meta(ge=-100.0, le=100.0)]


class Shape(Section, frozen=True):
    """One obstacle."""

    corners_m: Annotated[list[tuple[Metres, Metres]], Meta(min_length=1, max_length=1000)]
    rounding_m: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0


class GrowthTask(Section, frozen=True):
    """The whole file."""

    goal_m: tuple[Metres, Metres]
    obstacles: Annotated[list[Shape], Meta(max_length=1000)] = msgspec.field(default_factory=list)

    @property
    def goal(self) -> Floats:
        """The goal (2,) [m]."""
        return np.array(self.goal_m)

    def field(self, robot: VineRobot) -> Field:
        """Distances over the robot's map."""
        shapes = [(np.array(item.corners_m), item.rounding_m) for item in self.obstacles]
        return field_of(shapes, (robot.map.x_m[0], robot.map.y_m[0]), robot.map.cells, robot.map.cell_m)


def read_task(path: Path) -> GrowthTask:
    """Raises ConfigError that names file and key."""
    try:
        raw = msgspec.json.decode(read_text(path).encode())
    except msgspec.DecodeError as error:
        raise ConfigError(str(path), "", f"is not JSON: {error}") from error
    task = convert(str(path), "", raw, GrowthTask)
    numbers = [*task.goal_m, *(v for item in task.obstacles for corner in item.corners_m for v in corner)]
    if not all(map(math.isfinite, numbers)):
        raise ConfigError(str(path), "", "a coordinate is not finite")
    return task
