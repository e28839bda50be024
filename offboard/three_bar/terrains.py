"""One idea: random ground for data: level, tilted, beside walls, under ceilings, on ramps, and the courses themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import frozen
from sim.three_bar.course import OrientedBox, RampTable, Scene, box, load_course, ramp, scene_of, tilt

TERRAINS = ("flat", "tilted", "walls", "ceiling", "ramp")
TRAINING_COURSES = ("flat_obstacle", "incline", "narrow", "low_clearance")  # the 3D course stays unseen
FRICTIONS = (1.2, 1.8)
HOUSING_U = 0.165  # as on all courses; with the slim housing of the plain plant rods touch less
GAP_U = (1.9, 2.3)  # from the start to the face of a wall or ceiling: the robot reaches 1.8 from its middle
MAX_TILT_RAD = float(np.radians(7.0))


@dataclass(frozen=True, slots=True)
class Ground:
    """A scene and where to put the robot down in it."""

    scene: Scene
    x_u: float
    y_u: float
    yaw_rad: float


def _rotation_z(angle_rad: float) -> np.ndarray:
    c, s = np.cos(angle_rad), np.sin(angle_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _turned(item: OrientedBox, angle_rad: float) -> OrientedBox:
    turn = _rotation_z(angle_rad)
    return OrientedBox(frozen(turn @ item.centre), item.half, frozen(turn @ item.rotation))


def random_ground(rng: np.random.Generator, terrain: str) -> Ground:
    """A drawn ground of one of TERRAINS, or "course:<name>" with a start anywhere near that course's boxes."""
    if terrain.startswith("course:"):
        return _on_course(rng, terrain.removeprefix("course:"))
    friction = float(rng.choice(FRICTIONS))
    level, boxes = np.eye(3), []
    azimuth = rng.uniform(-np.pi, np.pi)
    if terrain == "tilted":
        turn = _rotation_z(azimuth)
        level = turn @ tilt("y", rng.uniform(0.3, 1.0) * MAX_TILT_RAD) @ turn.T
    elif terrain == "walls":  # a corridor, a dead end or a pen: open-loop driving hardly ever finds a single wall
        for side in range(int(rng.integers(2, 5))):
            turn = azimuth + (0.0, np.pi, 0.5 * np.pi, -0.5 * np.pi)[side]
            boxes.append(_turned(box((rng.uniform(*GAP_U) + 0.5, 0.0, 2.0), (0.5, 12.0, 2.0)), turn))
    elif terrain == "ceiling" and rng.random() < 0.5:  # overhead, higher than the robot stands, lower than it rolls
        boxes.append(box((0.0, 0.0, rng.uniform(2.22, 2.45) + 2.5), (12.0, 12.0, 2.5)))
    elif terrain == "ceiling":
        gap, half = rng.uniform(1.35, 1.8), rng.uniform(0.25, 1.0)
        boxes.append(_turned(box((rng.uniform(*GAP_U) + half, 0.0, gap + 2.5), (half, 12.0, 2.5)), azimuth))
    elif terrain == "ramp":
        low, rise = rng.uniform(1.2, 3.0), rng.uniform(0.6, 1.8)
        run = rise / np.tan(rng.uniform(np.radians(3.0), np.radians(8.0)))
        table = RampTable(x_u=(low, low + run), y_u=(-12.0, 12.0), z_u=(0.0, rise), rises="+x")
        top = box((low + run + 5.0, 0.0, rise / 2.0), (5.0, 12.0, rise / 2.0))
        boxes += [_turned(ramp(table), azimuth), _turned(top, azimuth)]
    elif terrain != "flat":
        raise ValueError(f"unknown terrain {terrain!r}")
    scene = Scene(terrain, friction, HOUSING_U, frozen(level), tuple(boxes))
    return Ground(scene, 0.0, 0.0, float(rng.uniform(-np.pi, np.pi)))


def _on_course(rng: np.random.Generator, name: str) -> Ground:
    course = load_course(name)
    scene = scene_of(course)
    (x0, x1), (y0, y1) = course.bounds.x_u, course.bounds.y_u
    yaw = float(rng.uniform(-np.pi, np.pi))
    if rng.random() < 0.5 or not scene.boxes:
        spread = course.start.spread_u
        dx, dy = rng.uniform(-spread, spread, 2)
        return Ground(scene, course.start.x_u + dx, course.start.y_u + dy, yaw)
    item = scene.boxes[int(rng.integers(len(scene.boxes)))]
    reach = item.half[:2] + rng.uniform(1.8, 3.0)
    side = rng.uniform(-1.0, 1.0, 2)
    side[int(rng.integers(2))] = float(rng.choice([-1.0, 1.0]))
    x, y = item.centre[:2] + side * reach
    return Ground(scene, float(np.clip(x, x0 + 1.9, x1 - 1.9)), float(np.clip(y, y0 + 1.9, y1 - 1.9)), yaw)
