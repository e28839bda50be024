"""The robot's file: TOML in, a checked and frozen specification out."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from onboard.components import resolve
from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.tower import StrutTower

Rate = Annotated[float, Meta(ge=1.0, le=1000.0)]
Milliseconds = Annotated[int, Meta(ge=5, le=60_000)]
Pressure = Annotated[float, Meta(ge=0.0, le=1.2e6)]
Identifier = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class Identity(Section, frozen=True):
    """[robot]: its name, as in topics and folders, and a title for people."""

    name: Identifier
    title: Annotated[str, Meta(min_length=1, max_length=120)]


class Imu(Section, frozen=True):
    """[imu]: the sensor on every strut. mounting_wxyz turns sensor axes into strut axes (z along the strut, upwards)."""

    board: Literal["nano_rp2040", "m5stickc_plus"]
    sensor: Literal["lsm6dsox", "mpu6886"]
    rate_hz: Rate
    batch: Annotated[int, Meta(ge=1, le=8)]
    accel_range_g: Literal[2, 4, 8, 16]
    gyro_range_dps: Literal[125, 250, 500, 1000, 2000]
    max_age_ms: Milliseconds
    mounting_wxyz: Annotated[list[float], Meta(min_length=4, max_length=4)] = msgspec.field(
        default_factory=lambda: [1.0, 0.0, 0.0, 0.0]
    )


class ImuErrors(Section, frozen=True):
    """[simulation.imu]: what virtual sensors get wrong."""

    accel_noise_m_s2: Annotated[float, Meta(ge=0.0, le=10.0)]
    gyro_noise_rad_s: Annotated[float, Meta(ge=0.0, le=1.0)]
    accel_bias_m_s2: Annotated[float, Meta(ge=0.0, le=5.0)]
    gyro_bias_rad_s: Annotated[float, Meta(ge=0.0, le=0.5)]
    misalignment_deg: Annotated[float, Meta(ge=0.0, le=20.0)]
    clock_drift_ppm: Annotated[float, Meta(ge=0.0, le=500.0)]


class Simulation(Section, frozen=True):
    """[simulation]: the plant's own numbers; not read on a real robot."""

    timestep_s: Annotated[float, Meta(gt=0.0, le=0.005)]
    imu: ImuErrors
    valve_time_constant_s: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.0
    pressure_noise_pa: Annotated[float, Meta(ge=0.0, le=1e5)] = 0.0


class ActuatorBoard(Section, frozen=True):
    """One board and the actuators its channels drive: cylinder numbers first .. first + channels - 1."""

    id: Identifier
    first: Annotated[int, Meta(ge=0, le=1023)]
    channels: Annotated[int, Meta(ge=1, le=16)]
    port: str = ""


class Valves(Section, frozen=True):
    """[actuators]: proportional pressure valves on boards. safe_pressure_pa is where every board goes on silence."""

    type: Literal["valve"]
    boards: Annotated[list[ActuatorBoard], Meta(min_length=1, max_length=64)]
    min_pressure_pa: Pressure
    max_pressure_pa: Pressure
    rest_pressure_pa: Pressure
    safe_pressure_pa: Pressure
    max_slew_pa_per_s: Annotated[float, Meta(gt=0.0, le=1e8)]
    deadline_ms: Milliseconds
    command_ttl_ms: Milliseconds
    max_tracking_error_pa: Pressure
    tracking_timeout_ms: Milliseconds


class Link(Section, frozen=True):
    """[link]: how boards are reached."""

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_\-/]{1,64}$")]
    keepalive_s: Annotated[int, Meta(ge=1, le=60)] = 5
    sync_period_ms: Milliseconds = 1000
    queue: Annotated[int, Meta(ge=20, le=10_000)] = 400


class Rates(Section, frozen=True):
    """[rates]: every loop of the daemon, declared once."""

    estimator_hz: Rate
    control_hz: Rate
    supervisor_hz: Rate = 40.0
    display_hz: Rate = 4.0


class Safety(Section, frozen=True):
    """[safety]: when to leave the active state. Times count from the last good value."""

    estimate_max_age_ms: Milliseconds
    estimate_max_sigma_m: Annotated[float, Meta(gt=0.0, le=1.0)]
    max_tilt_deg: Annotated[float, Meta(gt=0.0, le=180.0)]
    degraded_limit_s: Annotated[float, Meta(gt=0.0, le=600.0)]
    board_silence_ms: Milliseconds


class RobotSpec(Section, frozen=True):
    """Everything the daemon needs to know about one robot. `file` is where it came from, for messages."""

    file: str
    format: int
    robot: Identity
    structure: StrutTower
    struts: list[Identifier]
    imu: Imu
    link: Link
    rates: Rates
    safety: Safety
    orientation: Any
    estimator: Any
    simulation: Simulation
    physics_hash: str
    actuators: Valves | None = None
    controller: Any = None

    @property
    def name(self) -> str:
        """The robot's name."""
        return self.robot.name

    def strut_index(self, strut_id: str) -> int | None:
        """Number of a strut by its id, or None for a stranger."""
        try:
            return self.struts.index(strut_id)
        except ValueError:
            return None


_PLAIN: dict[str, Any] = {
    "robot": Identity,
    "imu": Imu,
    "link": Link,
    "rates": Rates,
    "safety": Safety,
    "simulation": Simulation,
    "actuators": Valves,
}
_TYPED = ("structure", "orientation", "estimator", "controller")
_OPTIONAL = {"actuators", "controller"}
_PHYSICS = ("structure", "actuators")


class RobotFile:
    """A robot's TOML, read once; `spec` is the checked result."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw = read_toml(path)

    @cached_property
    def spec(self) -> RobotSpec:
        """The checked specification; raises ConfigError naming file, key, value and range."""
        return build_spec(str(self.path), self.raw)


def load_robot(path: Path | str) -> RobotSpec:
    """Read and check the robot's file at `path`."""
    return RobotFile(Path(path)).spec


def build_spec(file: str, raw: dict[str, Any]) -> RobotSpec:
    """A specification from parsed TOML (used directly by tests and by variants of a file)."""
    if raw.get("format") != 1 or isinstance(raw.get("format"), bool):
        raise ConfigError(file, "format", f"is {raw.get('format')!r}: this version reads format 1")
    known = {"format", "struts", *_PLAIN, *_TYPED}
    for key in raw:
        if key not in known:
            raise ConfigError(file, key, f"unknown section; known are {', '.join(sorted(known))}")
    parts: dict[str, Any] = {}
    for key in (*_TYPED, *_PLAIN):
        if key in raw:
            parts[key] = resolve(file, key, raw[key]) if key in _TYPED else convert(file, key, raw[key], _PLAIN[key])
        elif key not in _OPTIONAL:
            raise ConfigError(file, key, "required section is missing")
    if "struts" not in raw:
        raise ConfigError(file, "struts", "required key is missing: the ids of all struts, module by module")
    struts = convert(file, "struts", raw["struts"], list[Identifier])
    spec = RobotSpec(file=file, format=1, struts=struts, physics_hash=physics_hash(raw), **parts)
    _check(spec)
    return spec


def physics_hash(raw: dict[str, Any]) -> str:
    """sha256 of the canonical JSON of bodies, tendons and actuators; rates, broker and ports do not change it."""
    physics = {key: raw[key] for key in _PHYSICS if key in raw}
    boards = physics.get("actuators", {}).get("boards", [])
    if boards:
        clean = [{k: v for k, v in board.items() if k != "port"} for board in boards if isinstance(board, dict)]
        physics["actuators"] = {**physics["actuators"], "boards": clean}
    return hashlib.sha256(msgspec.json.encode(physics, order="deterministic")).hexdigest()


def _check(spec: RobotSpec) -> None:
    file, tower = spec.file, spec.structure
    tower.check(file)
    seen: set[str] = set()
    for index, strut in enumerate(spec.struts):
        if strut in seen:
            raise ConfigError(file, f"struts[{index}]", f"is {strut!r}: this id is already taken")
        seen.add(strut)
    if len(spec.struts) != tower.struts:
        raise ConfigError(
            file,
            "struts",
            f"has {len(spec.struts)} ids: {tower.modules} modules of {tower.struts_per_module} struts need {tower.struts}",
        )
    pairs = {"nano_rp2040": "lsm6dsox", "m5stickc_plus": "mpu6886"}
    if pairs[spec.imu.board] != spec.imu.sensor:
        raise ConfigError(
            file,
            "imu.sensor",
            f"is {spec.imu.sensor!r}: the {spec.imu.board} carries {pairs[spec.imu.board]}",
        )
    norm = sum(value * value for value in spec.imu.mounting_wxyz)
    if abs(norm - 1.0) > 1e-3:
        raise ConfigError(file, "imu.mounting_wxyz", f"has norm {norm**0.5:.4f}, must be a unit quaternion")
    if re.search(r"//|^/|/$", spec.link.prefix):
        raise ConfigError(file, "link.prefix", f"is {spec.link.prefix!r}: no leading, trailing or double slash")
    _check_actuators(spec)


def _check_actuators(spec: RobotSpec) -> None:
    file, valves, cylinders = spec.file, spec.actuators, spec.structure.cylinders
    if valves is None:
        if cylinders:
            raise ConfigError(file, "actuators", f"required section is missing: {len(cylinders)} cylinders need valves")
        return
    if spec.controller is None:
        raise ConfigError(file, "controller", "required section is missing: the robot has actuators")
    if not valves.min_pressure_pa < valves.max_pressure_pa:
        raise ConfigError(
            file,
            "actuators.max_pressure_pa",
            f"is {valves.max_pressure_pa}: must exceed min_pressure_pa = {valves.min_pressure_pa}",
        )
    for key in ("rest_pressure_pa", "safe_pressure_pa"):
        value = getattr(valves, key)
        if not valves.min_pressure_pa <= value <= valves.max_pressure_pa:
            raise ConfigError(
                file,
                f"actuators.{key}",
                f"is {value}: must lie in {valves.min_pressure_pa} .. {valves.max_pressure_pa}",
            )
    channels = [board.first + k for board in valves.boards for k in range(board.channels)]
    if sorted(channels) != list(range(len(cylinders))):
        raise ConfigError(
            file,
            "actuators.boards",
            f"drive channels {channels}: each of 0 .. {len(cylinders) - 1} exactly once",
        )
    ids = [board.id for board in valves.boards]
    if len({*ids, *spec.struts}) != len(ids) + len(spec.struts):
        raise ConfigError(file, "actuators.boards", f"has an id twice or one that a strut bears: {ids}")
