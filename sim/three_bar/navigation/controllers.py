"""One idea: a controller by name: what navigator, over which model, for one course."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onboard.errors import UsageError
from onboard.messages import Floats
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from onboard.planning.astar_navigator import AstarNavigator
from onboard.planning.hybrid import WavefrontNavigator
from onboard.planning.navigator import GaitOrder, Navigator
from onboard.planning.primitives import read_library
from onboard.planning.settings import PlannerSettings
from onboard.planning.terrain import Terrain, terrain_of
from onboard.planning.value_navigator import ValueNavigator
from onboard.ports import Dynamics
from onboard.resources import root
from sim.three_bar.course import Course
from sim.three_bar.navigation.oracle import LAYOUT, PlantModel
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import CABLES, ThreeBar, physics_hash

CONTROLLERS = ("hybrid", "mppi", "astar_grid", "astar_reverse", "oracle", "plain", "value")
PLANT_MODEL = "plant"


@dataclass(frozen=True, slots=True)
class Choice:
    """A controller and its model: "plant", the name of an exported model, a manifest's path, or "" where none is needed."""

    controller: str
    model: str


def choose(controller: str, model: str | None, iteration: int | None) -> Choice:
    """Which model a controller plans with. Raises UsageError for an unknown controller or a choice that makes no sense.

    Defaults: `oracle` the plant, `plain` the network without a graph, A* none, the others `contact`; a model of a data loop's
    iteration is called `contact_<iteration>`.
    """
    if controller not in CONTROLLERS:
        raise UsageError(f"unknown controller {controller!r}; known: {', '.join(CONTROLLERS)}")
    if iteration is not None and (model is not None or iteration < 0):
        raise UsageError("--iteration picks a model of the data loop: it must be 0 or more and excludes --model")
    fixed = {"oracle": PLANT_MODEL, "astar_grid": "", "astar_reverse": ""}
    if controller in fixed:
        if model not in (None, fixed[controller]) or iteration is not None:
            raise UsageError(
                f"controller {controller!r} plans with {fixed[controller] or 'measured primitives'}; leave --model out"
            )
        return Choice(controller, fixed[controller])
    if iteration is not None:
        return Choice(controller, f"contact_{iteration}")
    return Choice(controller, model or ("plain" if controller == "plain" else "contact"))


def manifest_path(model: str) -> Path:
    """The manifest of a model given by name or path."""
    return Path(model) if model.endswith(".json") else root() / "models_onnx" / "three_bar" / f"{model}.json"


def load_dynamics(choice: Choice, plant: Plant, spec: ThreeBar) -> tuple[Dynamics | None, str]:
    """The model, and the first digits of its hash. Raises ModelError when it is missing, damaged or another robot's."""
    if not choice.model:
        return None, ""
    if choice.model == PLANT_MODEL:
        return PlantModel(plant), PLANT_MODEL
    file = load_model_file(manifest_path(choice.model), spec.robot.name, physics_hash())
    return StrutDynamics(file), file.manifest.onnx_sha256[:16]


def course_terrain(course: Course, world: Floats, settings: PlannerSettings) -> Terrain:
    """The terrain of a course within its bounds."""
    bounds = np.array([course.bounds.x_u, course.bounds.y_u])
    table = settings.terrain
    return terrain_of(bounds, world, table.cell_u, table.standing_u, table.step_u)


def build(
    choice: Choice,
    spec: ThreeBar,
    terrain: Terrain,
    world: Floats,
    settings: PlannerSettings,
    dynamics: Dynamics | None,
    seed: int,
) -> Navigator:
    """The navigator of a choice, its goal not set yet."""
    if choice.controller.startswith("astar"):
        library = read_library(root() / "models_onnx" / "three_bar" / "primitives.json", spec.robot.name, physics_hash())
        gaits = {p.name: (tuple(tuple(step) for step in p.steps), p.min_u) for p in spec.primitives}
        return AstarNavigator(
            settings, LAYOUT, library, gaits, terrain, world, "grid" if choice.controller == "astar_grid" else "reverse"
        )
    if dynamics is None:
        raise UsageError(f"controller {choice.controller!r} needs a model")
    pairs = np.array(spec.tendons.driven.pairs)
    common = (settings, LAYOUT, pairs, spec.bodies.cap_radius_u, dynamics, terrain, spec.plant.step_s, seed)
    if choice.controller in ("hybrid", "mppi"):
        return WavefrontNavigator(*common, turns=turning_orders(spec) if choice.controller == "hybrid" else None)
    return ValueNavigator(*common)


def turning_orders(spec: ThreeBar) -> dict[str, GaitOrder]:
    """The turning primitives of the robot's file as orders."""
    orders = {}
    for name in ("cw", "ccw"):
        item = spec.primitive(name)
        steps = tuple(tuple(step) for step in item.steps)
        orders[name] = GaitOrder(name, steps, item.min_u, np.full(CABLES, item.range_u), 0.0)
    return orders
