"""One idea: a controller by name: what navigator, over which model, for one course."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onboard.errors import UsageError
from onboard.messages import Floats
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from onboard.planning.assembly import GaitData, Kind, NavigatorData
from onboard.planning.primitives import read_library
from onboard.planning.settings import PlannerSettings
from onboard.ports import Dynamics
from onboard.resources import root
from sim.three_bar.course import Course
from sim.three_bar.navigation.oracle import PlantModel
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import CAPS, ThreeBar, physics_hash

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


def navigator_data(
    choice: Choice, spec: ThreeBar, course: Course, world: Floats, settings: PlannerSettings, seed: int
) -> NavigatorData:
    """Everything a navigator is made of, also for a planner process. `oracle` and `plain` are `value` with another model."""
    kind: Kind = "value" if choice.controller in ("oracle", "plain") else choice.controller  # type: ignore[assignment]
    library = None
    if kind in ("astar_grid", "astar_reverse"):
        library = read_library(root() / "models_onnx" / "three_bar" / "primitives.json", spec.robot.name, physics_hash())
    gaits = [GaitData(name=p.name, steps=[list(s) for s in p.steps], min_u=p.min_u, range_u=p.range_u) for p in spec.primitives]
    return NavigatorData(
        kind=kind,
        robot=spec.robot.name,
        physics_hash=physics_hash(),
        caps=CAPS,
        pairs=[(int(a), int(b)) for a, b in spec.tendons.driven.pairs],
        cap_radius_u=spec.bodies.cap_radius_u,
        step_s=spec.plant.step_s,
        bounds_u=(course.bounds.x_u, course.bounds.y_u),
        world=world.tolist(),
        settings=settings,
        gaits=gaits,
        seed=seed,
        library=library,
    )
