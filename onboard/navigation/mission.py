"""One idea: where to drive and by which controller, worked out from names: course, controller, model."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from onboard.errors import ModelError, RecordingError, UsageError
from onboard.messages import Floats
from onboard.models.manifest import load_model_file
from onboard.planning.assembly import GaitData, Kind, NavigatorData, order_of
from onboard.planning.course import Course, load_course, scene_of
from onboard.planning.primitives import read_library
from onboard.planning.recovery import Recovery
from onboard.planning.settings import PlannerSettings, load_settings
from onboard.resources import root
from onboard.three_bar_robot import CAPS, Primitive, ThreeBar, physics_hash

CONTROLLERS: tuple[Kind, ...] = ("value", "hybrid", "mppi", "astar_grid", "astar_reverse")
MODEL = "contact"


@dataclass(frozen=True, slots=True)
class Mission:
    """A course's goal (2,) [u] and world (K, 16), and everything a planner process is made of. manifest: "" for no model."""

    course: Course
    settings: PlannerSettings
    world: Floats
    goal: Floats
    data: NavigatorData
    manifest: str


def plan_mission(spec: ThreeBar, path: Path, course: str, controller: str, model: str, seed: int) -> Mission:
    """The mission of the robot in the file at `path`. model: an exported model's name or manifest.

    Raises UsageError for an unknown controller, ConfigError for course or settings, ModelError for a model that is missing,
    damaged or another robot's.
    """
    kind: Kind | None = next((one for one in CONTROLLERS if one == controller), None)
    if kind is None:
        raise UsageError(f"unknown controller {controller!r}; known: {', '.join(CONTROLLERS)}")
    table, settings = load_course(course), load_settings(spec.robot.name)
    world = scene_of(table).world()
    models = root() / "models_onnx" / spec.robot.name
    physics = physics_hash(path)
    astar = kind in ("astar_grid", "astar_reverse")
    manifest = Path(model) if model.endswith(".json") else models / f"{model}.json"
    if not astar:
        load_model_file(manifest, spec.robot.name, physics)  # refused here, before anything moves
    data = NavigatorData(
        kind=kind,
        robot=spec.robot.name,
        physics_hash=physics,
        caps=CAPS,
        pairs=[(int(a), int(b)) for a, b in spec.tendons.driven.pairs],
        cap_radius_u=spec.bodies.cap_radius_u,
        step_s=spec.plant.step_s,
        bounds_u=(table.bounds.x_u, table.bounds.y_u),
        world=world.tolist(),
        settings=settings,
        gaits=[_gait(primitive) for primitive in spec.primitives],
        seed=seed,
        library=read_library(models / "primitives.json", spec.robot.name, physics) if astar else None,
    )
    goal = np.array([table.goal.x_u, table.goal.y_u])
    return Mission(table, settings, world, goal, data, "" if astar else str(manifest))


def with_library(data: NavigatorData) -> NavigatorData:
    """The same with the robot's library of measured primitives, where there is one."""
    if data.library is not None:
        return data
    path = root() / "models_onnx" / data.robot / "primitives.json"
    with contextlib.suppress(ModelError):  # without one they are tried in the order of the robot's file
        return msgspec.structs.replace(data, library=read_library(path, data.robot, data.physics_hash))
    return data


def recovery_of(data: NavigatorData) -> Recovery:
    """What frees the robot: its primitives, by their measured effects where they are known."""
    orders = [order_of(gait, data.layout.cables) for gait in data.gaits]
    return Recovery(orders, () if data.library is None else data.library.entries)


def mission_text(data: NavigatorData) -> str:
    """What a replay needs of a mission, as JSON."""
    return msgspec.json.encode(data).decode()


def mission_from(text: str) -> NavigatorData:
    """A recorded mission; raises RecordingError for what is none."""
    try:
        return msgspec.json.decode(text, type=NavigatorData)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise RecordingError(f"the recorded mission is damaged or of another version: {error}") from error


def _gait(primitive: Primitive) -> GaitData:
    steps = [list(step) for step in primitive.steps]
    return GaitData(name=primitive.name, steps=steps, min_u=primitive.min_u, range_u=primitive.range_u)
