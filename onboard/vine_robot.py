"""One idea: robots/vine.toml as a frozen, checked record; SI units, angles in degrees only where the key says so."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.growing.lines import LineMap, Lines, ValveRobot, line_map, valve_robot
from onboard.messages import Floats, frozen
from onboard.resources import root
from onboard.robot import Link, Recording
from onboard.three_bar_robot import Safety

Positive = Annotated[float, Meta(gt=0.0, le=1e7)]
NotNegative = Annotated[float, Meta(ge=0.0, le=1e7)]
Degrees = Annotated[float, Meta(ge=-180.0, le=180.0)]
Hertz = Annotated[float, Meta(ge=0.1, le=1000.0)]


class Name(Section, frozen=True):
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    kind: Literal["vine"]
    title: Annotated[str, Meta(min_length=1, max_length=120)]


class Body(Section, frozen=True):
    """The tube as a chain of `links` links; mass, inertia, drag are a link's, stiffness and damping a joint's."""

    link_m: Annotated[float, Meta(ge=0.002, le=0.5)]
    links: Annotated[int, Meta(ge=4, le=400)]
    radius_m: Annotated[float, Meta(ge=0.001, le=0.25)]
    mass_kg: Annotated[float, Meta(gt=0.0, le=5.0)]
    inertia_kg_m2: Positive
    stiffness_n_m_per_rad: Positive
    damping_n_m_s_per_rad: Positive
    drag_n_s_per_m: NotNegative
    friction: Annotated[float, Meta(ge=0.0, le=2.0)]

    @property
    def length_max_m(self) -> float:
        """All the tube there is [m]."""
        return self.link_m * self.links


class Growth(Section, frozen=True):
    """Rate at which tail is let out [m/s] between min and max while growing; `safe_m_s` on silence."""

    min_m_s: Annotated[float, Meta(ge=0.0, le=10.0)]
    max_m_s: Annotated[float, Meta(gt=0.0, le=10.0)]
    safe_m_s: Annotated[float, Meta(ge=0.0, le=0.0)]


class Pressure(Section, frozen=True):
    """Pressure of the tube [Pa]: sets the force at which growth stalls."""

    min_pa: Annotated[float, Meta(ge=100.0, le=1e6)]
    max_pa: Annotated[float, Meta(ge=100.0, le=1e6)]
    set_pa: Annotated[float, Meta(ge=100.0, le=1e6)]


class BaseHeading(Section, frozen=True):
    """Heading of the base from straight ahead."""

    min_deg: Degrees
    max_deg: Degrees
    slew_deg_s: Annotated[float, Meta(gt=0.0, le=3600.0)]


class Curvature(Section, frozen=True):
    """Curvature at rest that the side muscles give the whole tube, to the left positive."""

    min_per_m: Annotated[float, Meta(ge=-100.0, le=100.0)]
    max_per_m: Annotated[float, Meta(ge=-100.0, le=100.0)]
    slew_per_m_s: Annotated[float, Meta(gt=0.0, le=1e4)]


class Actuators(Section, frozen=True):
    """safe_state "hold_shape": growth stops, pressure, base and muscles stay."""

    safe_state: Literal["hold_shape"]
    command_ttl_ms: Annotated[int, Meta(ge=20, le=2000)]
    growth: Growth
    pressure: Pressure
    base_heading: BaseHeading
    curvature: Curvature


class Camera(Section, frozen=True):
    """Centre line seen from above: a point every `spacing_m`, each off by `noise_m` (one sigma), `delay_ms` old on arrival."""

    rate_hz: Hertz
    delay_ms: Annotated[int, Meta(ge=0, le=1000)]
    noise_m: Annotated[float, Meta(ge=0.0, le=0.1)]
    spacing_m: Annotated[float, Meta(gt=0.0, le=0.5)]
    points: Annotated[int, Meta(ge=4, le=64)]


Span = Annotated[list[Annotated[float, Meta(ge=-100.0, le=100.0)]], Meta(min_length=2, max_length=2)]


class Map(Section, frozen=True):
    """The rectangle, seen from the base, in which obstacles are known; beyond it nobody plans."""

    x_m: Span
    y_m: Span
    cell_m: Annotated[float, Meta(ge=0.001, le=0.1)]

    @property
    def cells(self) -> tuple[int, int]:
        """Grid points (ny, nx)."""
        ny, nx = (round((b - a) / self.cell_m) + 1 for a, b in (self.y_m, self.x_m))
        return ny, nx


class Model(Section, frozen=True):
    """The planner's dynamics; `sha256` pins one file, empty for none."""

    manifest: Annotated[str, Meta(min_length=1, max_length=200)]
    sha256: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""


class Planner(Section, frozen=True):
    """How the vine is steered; see onboard/planning/vine."""

    rate_hz: Annotated[float, Meta(ge=0.5, le=100.0)]
    samples: Annotated[int, Meta(ge=2, le=100_000)]
    iterations: Annotated[int, Meta(ge=1, le=100)]
    knots: Annotated[int, Meta(ge=1, le=100)]
    sigma: Annotated[float, Meta(gt=0.0, le=10.0)]
    temperature_m: Annotated[float, Meta(gt=0.0, le=10.0)]
    keep_off_m: Annotated[float, Meta(ge=0.0, le=0.1)]
    arrive_m: Annotated[float, Meta(gt=0.0, le=0.5)]
    tolerance_m: Annotated[float, Meta(gt=0.0, le=0.5)]
    time_limit_s: Annotated[float, Meta(gt=0.0, le=3600.0)]


class Rates(Section, frozen=True):
    """Loops of the daemon."""

    control_hz: Annotated[float, Meta(ge=10.0, le=200.0)]
    supervisor_hz: Annotated[float, Meta(ge=1.0, le=200.0)]


class VineRobot(Section, frozen=True):
    """The whole file; `file` and `physics_hash` are added on loading."""

    file: str
    physics_hash: str
    format: Literal[1]
    robot: Name
    body: Body
    actuators: Actuators
    camera: Camera
    map: Map
    model: Model
    planner: Planner
    lines: Lines
    rates: Rates
    safety: Safety
    link: Link
    recording: Recording = msgspec.field(default_factory=Recording)

    @property
    def name(self) -> str:
        """The robot's name."""
        return self.robot.name

    def valves(self) -> ValveRobot:
        """What link and boards need to know."""
        return valve_robot(self.name, self.file, self.lines, self.link, self.actuators.command_ttl_ms)

    @property
    def line_map(self) -> LineMap:
        """From values to the lines' pressures."""
        a = self.actuators
        growth, pressure = (a.growth.min_m_s, a.growth.max_m_s), (a.pressure.min_pa, a.pressure.max_pa)
        return line_map(self.lines, growth, pressure, self.low[1:], self.high[1:])

    @property
    def low(self) -> Floats:
        """Least commands (3,): growth [m/s], base heading [rad], curvature [1/m]."""
        a = self.actuators
        return frozen([a.growth.min_m_s, math.radians(a.base_heading.min_deg), a.curvature.min_per_m])

    @property
    def high(self) -> Floats:
        """Greatest commands (3,)."""
        a = self.actuators
        return frozen([a.growth.max_m_s, math.radians(a.base_heading.max_deg), a.curvature.max_per_m])

    @property
    def slew(self) -> Floats:
        """Fastest change a second of base heading [rad/s] and curvature [1/(m s)], (2,)."""
        a = self.actuators
        return frozen([math.radians(a.base_heading.slew_deg_s), a.curvature.slew_per_m_s])

    @property
    def stall_force_n(self) -> float:
        """Tip force at which growth stops: pressure times tip area [N]."""
        return self.actuators.pressure.set_pa * math.pi * self.body.radius_m**2

    @property
    def manifest_path(self) -> Path:
        """Where the planner's model lies."""
        return root() / self.model.manifest

    def summary(self) -> dict[str, object]:
        """What a person checks first."""
        a = self.actuators
        return {
            "name": self.robot.name,
            "title": self.robot.title,
            "kind": self.robot.kind,
            "length_max_m": round(self.body.length_max_m, 6),
            "diameter_m": 2.0 * self.body.radius_m,
            "growth_m_s": [a.growth.min_m_s, a.growth.max_m_s],
            "pressure_pa": a.pressure.set_pa,
            "stall_force_n": round(self.stall_force_n, 3),
            "base_heading_deg": [a.base_heading.min_deg, a.base_heading.max_deg],
            "curvature_per_m": [a.curvature.min_per_m, a.curvature.max_per_m],
            "safe_state": a.safe_state,
            "camera_rate_hz": self.camera.rate_hz,
            "planner_rate_hz": self.planner.rate_hz,
            "physics_hash": self.physics_hash,
        }


def read_vine(path: Path, raw: dict[str, Any]) -> VineRobot:
    """Check a parsed file. Raises ConfigError that names file, key and what would be right."""
    physics = {key: raw.get(key) for key in ("body", "actuators")}
    digest = hashlib.sha256(msgspec.json.encode(physics, order="deterministic")).hexdigest()
    for key in ("file", "physics_hash"):
        if key in raw:
            raise ConfigError(str(path), key, "unknown key")
    spec = convert(str(path), "", {**raw, "file": str(path), "physics_hash": digest}, VineRobot)
    _check(spec)
    return spec


def load_vine(path: Path) -> VineRobot:
    """Read and check a vine's file."""
    return read_vine(path, read_toml(path))


def _check(spec: VineRobot) -> None:
    a, file = spec.actuators, spec.file
    ranges = (
        ("actuators.growth.max_m_s", a.growth.min_m_s, a.growth.max_m_s),
        ("actuators.pressure.max_pa", a.pressure.min_pa, a.pressure.max_pa),
        ("actuators.base_heading.max_deg", a.base_heading.min_deg, a.base_heading.max_deg),
        ("actuators.curvature.max_per_m", a.curvature.min_per_m, a.curvature.max_per_m),
    )
    for key, low, high in ranges:
        if not low < high:
            raise ConfigError(file, key, f"is {high}: must exceed the lower limit {low}")
    if not a.pressure.min_pa <= a.pressure.set_pa <= a.pressure.max_pa:
        raise ConfigError(
            file, "actuators.pressure.set_pa", f"is {a.pressure.set_pa}: must lie in {a.pressure.min_pa} .. {a.pressure.max_pa}"
        )
    if not (spec.low[1:] <= 0.0).all() or not (spec.high[1:] >= 0.0).all():
        raise ConfigError(file, "actuators", "base_heading and curvature must allow 0, where the robot starts")
    for axis, (low_m, high_m) in (("x_m", spec.map.x_m), ("y_m", spec.map.y_m)):
        if not low_m < 0.0 < high_m:
            raise ConfigError(file, f"map.{axis}", f"is {[low_m, high_m]}: must reach from below to above 0, where the base is")
    if spec.map.cells[0] > 1000 or spec.map.cells[1] > 1000:
        raise ConfigError(file, "map.cell_m", f"gives {spec.map.cells} cells: at most 1000 a side")
    spec.valves()  # refuses lines whose pressures contradict each other
    if spec.body.links % 2:
        raise ConfigError(file, "body.links", f"is {spec.body.links}: must be even: two links are one of the planner's model")
    if not np.isfinite(spec.stall_force_n):
        raise ConfigError(file, "actuators.pressure.set_pa", "gives no finite stall force")
