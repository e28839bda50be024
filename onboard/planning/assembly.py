"""One idea: everything a navigator is made of as plain data, so that it can be built here or in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from onboard.planning.astar_navigator import AstarNavigator
from onboard.planning.costs import StrutState
from onboard.planning.hybrid import WavefrontNavigator
from onboard.planning.navigator import GaitOrder, Navigator
from onboard.planning.primitives import Library
from onboard.planning.settings import PlannerSettings
from onboard.planning.terrain import Terrain, terrain_of
from onboard.planning.value_navigator import ValueNavigator
from onboard.ports import Dynamics

Kind = Literal["value", "value_wavefront", "hybrid", "mppi", "astar_grid", "astar_reverse"]


class GaitData(Section, frozen=True):
    """A primitive of the robot's file: cable targets step by step, minimum and range [u]."""

    name: str
    steps: list[list[float]]
    min_u: float
    range_u: float


class NavigatorData(Section, frozen=True):
    """A navigator for one robot in one world (K rows of 16). bounds_u: ((x0, x1), (y0, y1)). A hybrid turns by cw and ccw."""

    kind: Kind
    robot: str
    physics_hash: str
    caps: Annotated[int, Meta(ge=2, le=64)]
    pairs: list[tuple[int, int]]
    cap_radius_u: float
    step_s: float
    bounds_u: tuple[tuple[float, float], tuple[float, float]]
    world: list[list[float]]
    settings: PlannerSettings
    gaits: list[GaitData]
    seed: int
    library: Library | None = None

    @property
    def layout(self) -> StrutState:
        """How its states are laid out."""
        return StrutState(self.caps, len(self.pairs))

    @property
    def terrain(self) -> Terrain:
        """Its world from above."""
        table = self.settings.terrain
        return terrain_of(np.array(self.bounds_u), np.array(self.world), table.cell_u, table.standing_u, table.step_u)


def order_of(gait: GaitData, cables: int) -> GaitOrder:
    """A gait as an order, start not set."""
    return GaitOrder(gait.name, tuple(tuple(step) for step in gait.steps), gait.min_u, np.full(cables, gait.range_u), 0.0)


def load_dynamics(data: NavigatorData, manifest: Path) -> StrutDynamics:
    """The model of a manifest for this robot. Raises ModelError: missing, damaged, another robot's, another layout."""
    return StrutDynamics(load_model_file(manifest, data.robot, data.physics_hash))


def build(data: NavigatorData, dynamics: Dynamics | None, terrain: Terrain | None = None) -> Navigator:
    """The navigator, its goal not set yet. `terrain` spares working it out again. Raises PlanningError for what is missing."""
    terrain = data.terrain if terrain is None else terrain
    orders = {gait.name: order_of(gait, data.layout.cables) for gait in data.gaits}
    if data.kind in ("astar_grid", "astar_reverse"):
        if data.library is None:
            raise PlanningError(f"{data.kind!r} needs a library of measured primitives")
        gaits = {name: (order.steps, order.min_u) for name, order in orders.items()}
        kind: Literal["grid", "reverse"] = "grid" if data.kind == "astar_grid" else "reverse"
        return AstarNavigator(data.settings, data.layout, data.library, gaits, terrain, np.array(data.world), kind)
    if dynamics is None:
        raise PlanningError(f"{data.kind!r} needs a model")
    pairs: Floats = np.array(data.pairs, dtype=float)
    if data.kind in ("value", "value_wavefront"):
        heading = data.kind == "value"
        return ValueNavigator(
            data.settings, data.layout, pairs, data.cap_radius_u, dynamics, terrain, data.step_s, data.seed, heading
        )
    turns = {name: orders[name] for name in ("cw", "ccw")} if data.kind == "hybrid" else None
    return WavefrontNavigator(
        data.settings, data.layout, pairs, data.cap_radius_u, dynamics, terrain, data.step_s, data.seed, turns
    )
