"""One idea: robots/three_bar.toml as a frozen, checked record in plant units (lengths u, masses g, times s)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.link.motor_spec import MotorLaw, MotorRobot, Motors, motor_robot_of
from onboard.messages import Floats, frozen
from onboard.resources import robot_file
from onboard.robot import Imu, Link, Recording

Positive = Annotated[float, Meta(gt=0.0, le=1e7)]
Cap = Annotated[int, Meta(ge=0, le=5)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
NAME = "three_bar"
CABLES = 6
CAPS = 6
RODS = 3


class Robot(Section, frozen=True):
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    kind: Literal["three_bar"] = "three_bar"


class Units(Section, frozen=True):
    """What one unit of length and mass is in SI; gravity as the plant has it."""

    unit_length_m: Positive
    unit_mass_kg: Positive
    gravity_u_s2: Positive


class Bodies(Section, frozen=True):
    rods: Annotated[list[tuple[Cap, Cap]], Meta(min_length=RODS, max_length=RODS)]
    start_caps_u: Annotated[list[tuple[float, float, float]], Meta(min_length=CAPS, max_length=CAPS)]
    cap_distance_u: Positive
    cap_radius_u: Positive
    cap_mass_g: Positive
    shaft_radius_u: Positive
    shaft_mass_g: Positive
    motor_radius_u: Positive
    motor_length_u: Positive
    motor_offset_u: Positive
    motor_mass_g: Positive
    housing_radius_u: Positive
    housing_length_u: Positive
    housing_mass_g: Positive

    @property
    def rod_mass_g(self) -> float:
        """Mass of one rod with its caps, motors and housing."""
        return self.shaft_mass_g + 2 * self.cap_mass_g + 2 * self.motor_mass_g + self.housing_mass_g


class Driven(Section, frozen=True):
    pairs: Annotated[list[tuple[Cap, Cap]], Meta(min_length=CABLES, max_length=CABLES)]
    stiffness_g_s2: Positive
    damping_g_s: Annotated[float, Meta(ge=0.0, le=1e6)]
    cap_site_radius_u: Positive
    motor_site_radius_u: Positive
    motor_site_offset_u: Positive


class Passive(Section, frozen=True):
    pairs: Annotated[list[tuple[Cap, Cap]], Meta(min_length=1)]
    stiffness_g_s2: Positive
    damping_g_s: Annotated[float, Meta(ge=0.0, le=1e6)]
    rest_u: Positive


class Tendons(Section, frozen=True):
    driven: Driven
    beside: Passive
    long: Passive


class Actuators(Section, frozen=True):
    rated_speed_rpm: Positive
    speed_fraction: Annotated[float, Meta(gt=0.0, le=1.0)]
    spool_radius_u: Positive
    rest_start_u: Positive
    rest_min_u: Positive
    rest_max_u: Positive
    safe_state: Literal["off"]

    @property
    def max_speed_rad_s(self) -> float:
        """Spool speed at full command [rad/s]."""
        return self.speed_fraction * self.rated_speed_rpm * 2.0 * np.pi / 60.0


class Contact(Section, frozen=True):
    friction: Annotated[float, Meta(gt=0.0, le=10.0)]
    stiffness_1_s2: Positive
    damping_1_s: Positive


class PlantTable(Section, frozen=True):
    step_s: Annotated[float, Meta(gt=0.0, le=0.05)]


class Gait(Section, frozen=True):
    proportional: Positive
    integral: Annotated[float, Meta(ge=0.0, le=10.0)]
    derivative: Annotated[float, Meta(ge=0.0, le=10.0)]
    error_done: Positive
    length_done_u: Positive
    step_limit_s: Positive
    settle_s: Positive


class Symmetry(Section, frozen=True):
    lower_caps: Annotated[list[tuple[Cap, Cap, Cap]], Meta(min_length=1)]
    order: Annotated[list[Annotated[int, Meta(ge=0, le=5)]], Meta(min_length=CABLES, max_length=CABLES)]


class Primitive(Section, frozen=True):
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    steps: Annotated[list[Annotated[list[Fraction], Meta(min_length=CABLES, max_length=CABLES)]], Meta(min_length=1)]
    min_u: Positive
    range_u: Positive


class Rates(Section, frozen=True):
    """Loops of the daemon. Control runs once a plant step: plans and the model count in such steps."""

    control_hz: Annotated[float, Meta(ge=10.0, le=1000.0)]
    supervisor_hz: Annotated[float, Meta(ge=1.0, le=1000.0)]
    display_hz: Annotated[float, Meta(ge=0.1, le=50.0)]


class Safety(Section, frozen=True):
    """When to leave the active state; what the supervisor needs of every robot."""

    pose_max_age_ms: Annotated[int, Meta(ge=20, le=60_000)]
    plan_silence_ms: Annotated[int, Meta(ge=20, le=60_000)]
    board_silence_ms: Annotated[int, Meta(ge=20, le=60_000)]
    degraded_limit_s: Annotated[float, Meta(gt=0.0, le=600.0)]
    degraded_budget_s: Annotated[float, Meta(gt=0.0, le=3600.0)]
    degraded_window_s: Annotated[float, Meta(ge=1.0, le=3600.0)]


class Drive(Section, frozen=True):
    """A plan takes effect `lead_ms` after it was asked for."""

    lead_ms: Annotated[int, Meta(ge=0, le=1000)]


class ThreeBar(Section, frozen=True):
    """The whole robot file."""

    format: Literal[1]
    robot: Robot
    units: Units
    bodies: Bodies
    tendons: Tendons
    actuators: Actuators
    contact: Contact
    plant: PlantTable
    gait: Gait
    symmetry: list[Symmetry]
    primitives: list[Primitive]
    rates: Rates
    safety: Safety
    drive: Drive
    motors: Motors
    imu: Imu
    link: Link
    recording: Recording = msgspec.field(default_factory=Recording)

    def primitive(self, name: str) -> Primitive:
        """The primitive called `name`; raises ConfigError listing the known ones."""
        for item in self.primitives:
            if item.name == name:
                return item
        known = ", ".join(p.name for p in self.primitives)
        raise ConfigError("robots/three_bar.toml", "primitives", f"no primitive {name!r}; known: {known}")

    @property
    def name(self) -> str:
        """The robot's name."""
        return self.robot.name

    def motor_boards(self, file: str) -> MotorRobot:
        """What link and flasher need to know of its boards; errors name `file`."""
        return motor_robot(self, file)

    @property
    def start_caps(self) -> Floats:
        """Cap centres at the start (6, 3) [u]."""
        return frozen(self.bodies.start_caps_u)

    def summary(self) -> dict[str, object]:
        """The figures a person checks first, in plant units."""
        return {
            "robot": self.robot.name,
            "title": self.robot.title,
            "rods": len(self.bodies.rods),
            "cap_distance_u": self.bodies.cap_distance_u,
            "rod_mass_g": self.bodies.rod_mass_g,
            "motors": CABLES,
            "rest_length_u": [self.actuators.rest_min_u, self.actuators.rest_max_u],
            "primitives": [primitive.name for primitive in self.primitives],
        }

    @property
    def steps_per_second(self) -> float:
        """Plant steps per simulated second."""
        return 1.0 / self.plant.step_s


def load_robot(path: Path | None = None) -> ThreeBar:
    """Read and check the robot's file. Raises ConfigError naming file, key and range."""
    path = path or robot_file(NAME)
    return read_robot(path, read_toml(path))


def read_robot(path: Path, raw: dict[str, Any]) -> ThreeBar:
    """A robot from parsed TOML; errors name `path`. This is how the kind `three_bar` is registered."""
    spec = convert(str(path), "", raw, ThreeBar)
    _check(str(path), spec)
    return spec


def motor_robot(spec: ThreeBar, where: str = "robots/three_bar.toml") -> MotorRobot:
    """What the link needs to know of the motor boards; ConfigError naming `where` when a board winds another rod's cable."""
    motors = spec.actuators
    law = MotorLaw(motors.max_speed_rad_s, motors.spool_radius_u, motors.rest_start_u, motors.rest_min_u, motors.rest_max_u)
    robot = motor_robot_of(where, spec.robot.name, spec.motors, spec.imu, spec.link, law)
    if robot.count != CABLES:
        raise ConfigError(where, "motors.boards", f"drive {robot.count} motors, must be {CABLES}")
    for board in spec.motors.boards:
        caps = {spec.tendons.driven.pairs[motor][1] for motor in board.motors}
        if not any(caps <= set(rod) for rod in spec.bodies.rods):
            raise ConfigError(where, "motors.boards", f"{board.id}: its motors {board.motors} do not sit on one rod")
    return robot


def _check(where: str, spec: ThreeBar) -> None:
    seen = sorted(cap for rod in spec.bodies.rods for cap in rod)
    if seen != list(range(CAPS)):
        raise ConfigError(where, "bodies.rods", f"every cap belongs to one rod once, got {spec.bodies.rods}")
    caps = spec.start_caps
    for left, right in spec.bodies.rods:
        length = float(np.linalg.norm(caps[right] - caps[left]))
        if abs(length - spec.bodies.cap_distance_u) > 0.01:
            raise ConfigError(
                where, "bodies.start_caps_u", f"rod {left}-{right} is {length:.3f} u long, not {spec.bodies.cap_distance_u}"
            )
    motors = spec.actuators
    if not motors.rest_min_u < motors.rest_start_u < motors.rest_max_u:
        raise ConfigError(where, "actuators.rest_start_u", "must lie between rest_min_u and rest_max_u")
    if abs(spec.rates.control_hz * spec.plant.step_s - 1.0) > 1e-6:
        raise ConfigError(where, "rates.control_hz", f"must be one over plant.step_s, {1.0 / spec.plant.step_s:g}")
    for item in spec.symmetry:
        if sorted(item.order) != list(range(CABLES)):
            raise ConfigError(where, "symmetry.order", f"{item.order} is not a permutation of 0..5")
    names = [p.name for p in spec.primitives]
    if len(set(names)) != len(names):
        raise ConfigError(where, "primitives.name", f"names repeat: {names}")
    motor_robot(spec, where)


def physics_hash(path: Path | None = None) -> str:
    """sha256 of the canonical JSON of bodies, tendons and actuators: what a model of the robot depends on."""
    raw = read_toml(path or robot_file(NAME))
    physics = {key: raw[key] for key in ("bodies", "tendons", "actuators")}
    return hashlib.sha256(msgspec.json.encode(physics, order="deterministic")).hexdigest()
