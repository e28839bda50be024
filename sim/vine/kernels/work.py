"""Scratch memory and settings of one robot's step, passed to the inner functions as named tuples of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sim.vine.kernels import columns as col
from sim.vine.kernels import inner
from sim.vine.kernels.geometry import ROWS_PER_LINK

# Places in a frame's control vector.
RATE, PRESSURE, BASE_X, BASE_Y, BASE_HEADING, CURVATURE = range(6)
CONTROLS = 6

# Status bits of a frame.
UNCONVERGED, FULL, INFEASIBLE, OUT_OF_DOMAIN, COARSE, INSERTED, NEAR_SWITCH = 1, 2, 4, 8, 16, 32, 64


class Settings(NamedTuple):
    """What a whole batch shares. Lengths in metres, times in seconds."""

    dt: float
    half: float  # half a link's length
    top_rate: float  # growth rate at which the stall force stops growth [m/s]
    contact_stiffness: float  # [N/m]
    margin: float  # contacts nearer than this enter a step
    joint_tolerance: float  # above it a frame is redone with smaller steps
    penetration_tolerance: float
    law: int
    implicit: bool  # bending at the step's end
    hard: bool  # growth without force limit
    growing_mass: bool  # the tip's mass grows with its extension
    centre_discs: bool  # contact at the links' centres only
    max_substeps: int
    method: int


class Work(NamedTuple):
    """Scratch of one robot with up to N links and R contact rows; the columns are named in `columns`."""

    link: Any  # (N, LINK_COLUMNS)
    row: Any  # (R, ROW_COLUMNS)
    index: Any  # (R, 3)
    first: Any  # (N + 1,) first contact of each link
    extra: Any  # (16,)


@inner
def make_work(links):
    """Scratch for a robot of up to `links` links."""
    rows = 2 * ROWS_PER_LINK * links
    return Work(
        np.zeros((links, col.LINK_COLUMNS)),
        np.zeros((rows, col.ROW_COLUMNS)),
        np.zeros((rows, 3), np.int64),
        np.zeros(links + 1, np.int64),
        np.zeros(16),
    )
