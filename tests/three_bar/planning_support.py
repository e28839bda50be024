"""Small worlds and one navigator's data that the planning tests share."""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats
from onboard.planning.settings import PlannerSettings, load_settings
from onboard.planning.terrain import Terrain, terrain_of

BOUNDS = np.array([[-8.0, 8.0], [-6.0, 6.0]])
SETTINGS: PlannerSettings = load_settings("three_bar")


def box_row(x: float, y: float, half_x: float, half_y: float, z: tuple[float, float] = (0.0, 4.0)) -> Floats:
    """An upright box as a row of a world."""
    row = np.zeros(16)
    row[0:3], row[3:6] = (x, y, sum(z) / 2), (half_x, half_y, (z[1] - z[0]) / 2)
    row[6:15], row[15] = np.eye(3).ravel(), 1.8
    return row


def ramp_row(x: tuple[float, float], y: tuple[float, float], rise: float) -> Floats:
    """A slope along +x from 0 to `rise`, deep beneath."""
    angle = np.arctan2(rise, x[1] - x[0])
    c, s = np.cos(angle), np.sin(angle)
    rotation = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
    top = np.array([sum(x) / 2, sum(y) / 2, rise / 2])
    row = np.zeros(16)
    row[3:6] = np.hypot(x[1] - x[0], rise) / 2, (y[1] - y[0]) / 2, 1.0
    row[0:3] = top - rotation[:, 2] * row[5]
    row[6:15], row[15] = rotation.ravel(), 1.2
    return row


FLOOR = box_row(0, 0, 60, 60, (-10.0, 0.0))
WALL = box_row(0.0, -2.0, 0.5, 4.0)  # from the lower bound up to y = 2
BEAM = box_row(0.0, 0.0, 0.25, 6.0, (1.5, 4.0))


def world(*rows: Floats) -> Floats:
    """The floor and what stands on it."""
    return np.stack([FLOOR, *rows])


def terrain(*rows: Floats) -> Terrain:
    """The same from above, over BOUNDS."""
    table = SETTINGS.terrain
    return terrain_of(BOUNDS, world(*rows), table.cell_u, table.standing_u, table.step_u)
