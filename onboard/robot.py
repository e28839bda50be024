"""The robot's file: TOML in, a checked and frozen specification out."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from onboard.components import resolve
from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.robot_checks import check
from onboard.tower import StrutTower

TOWER: Final = "strut_tower"
Identifier = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


def _number(low: float, high: float, text: str, *, above: bool = False) -> Meta:
    return Meta(gt=low, le=high, description=text) if above else Meta(ge=low, le=high, description=text)


class Identity(Section, frozen=True):
    """[robot]: what it is called."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$", description="name in topics, folders and messages")]
    title: Annotated[str, Meta(min_length=1, max_length=120, description="title for people")]
    kind: Annotated[Literal["strut_tower"], Meta(description="what reads this file; other kinds have commands of their own")] = (
        TOWER
    )


class Imu(Section, frozen=True):
    """[imu]: the sensor on every strut."""

    board: Annotated[Literal["nano_rp2040", "m5stickc_plus"], Meta(description="board on every strut")]
    sensor: Annotated[Literal["lsm6dsox", "mpu6886"], Meta(description="its inertial sensor")]
    rate_hz: Annotated[float, _number(1, 1000, "the sensor's own sampling rate")]
    batch: Annotated[int, _number(1, 8, "samples a packet; more save bandwidth and cost age")]
    accel_range_g: Annotated[Literal[2, 4, 8, 16], Meta(description="accelerometer range, +-")]
    gyro_range_dps: Annotated[Literal[125, 250, 500, 1000, 2000], Meta(description="gyro range, +- degrees a second")]
    max_age_ms: Annotated[int, _number(5, 60_000, "a strut whose newest sample is older is left out of the estimate")]
    mounting_wxyz: Annotated[
        list[float],
        Meta(min_length=4, max_length=4, description="unit quaternion, sensor axes to strut axes (z along the strut, up)"),
    ] = msgspec.field(default_factory=lambda: [1.0, 0.0, 0.0, 0.0])


class ImuErrors(Section, frozen=True):
    """[simulation.imu]: what virtual sensors get wrong, drawn once a run from the seed."""

    accel_noise_m_s2: Annotated[float, _number(0, 10, "white noise a sample, standard deviation")]
    gyro_noise_rad_s: Annotated[float, _number(0, 1, "white noise a sample, standard deviation")]
    accel_bias_m_s2: Annotated[float, _number(0, 5, "constant bias an axis, standard deviation")]
    gyro_bias_rad_s: Annotated[float, _number(0, 0.5, "constant bias an axis, standard deviation")]
    misalignment_deg: Annotated[float, _number(0, 20, "sensor turned against the strut, standard deviation an axis")]
    clock_drift_ppm: Annotated[float, _number(0, 500, "board clocks off by up to this")]


class Simulation(Section, frozen=True):
    """[simulation]: the plant's own numbers; not read on a real robot."""

    timestep_s: Annotated[float, _number(0, 0.005, "step of the plant; 2 ms is right, above 4 ms it is wrong", above=True)]
    imu: ImuErrors
    valve_time_constant_s: Annotated[float, _number(0, 2, "lag of valve and chamber together")] = 0.0
    pressure_noise_pa: Annotated[float, _number(0, 1e5, "noise of pressure sensors, standard deviation")] = 0.0


class ActuatorBoard(Section, frozen=True):
    """One entry of actuators.boards: a board and the cylinders that its channels drive."""

    id: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$", description="the board's id")]
    first: Annotated[int, _number(0, 1023, "cylinder number of its channel 0")]
    channels: Annotated[int, _number(1, 16, "number of channels in use")]
    port: Annotated[str, Meta(max_length=200, description="serial port on the robot's computer; empty: virtual only")] = ""


class Valves(Section, frozen=True):
    """[actuators], type "valve": proportional pressure valves on boards that hold their own deadline."""

    type: Annotated[Literal["valve"], Meta(description="kind of actuator")]
    boards: Annotated[list[ActuatorBoard], Meta(min_length=1, max_length=64, description="the boards")]
    min_pressure_pa: Annotated[float, _number(0, 1.2e6, "least set-point, clamped here and on the board")]
    max_pressure_pa: Annotated[float, _number(0, 1.2e6, "greatest set-point, clamped here and on the board")]
    rest_pressure_pa: Annotated[float, _number(0, 1.2e6, "pressure of the upright rest posture")]
    safe_pressure_pa: Annotated[float, _number(0, 1.2e6, "where every valve goes by itself on silence, stop or fault")]
    max_slew_pa_per_s: Annotated[float, _number(0, 1e8, "fastest change of a set-point", above=True)]
    deadline_ms: Annotated[int, _number(5, 60_000, "silence after which a board goes to the safe pressure and latches")]
    command_ttl_ms: Annotated[int, _number(5, 60_000, "age beyond which a board refuses a command")]
    max_tracking_error_pa: Annotated[float, _number(0, 1.2e6, "measured pressure further off than this is a fault ...")]
    tracking_timeout_ms: Annotated[int, _number(5, 60_000, "... when it lasts longer than this")]


class Link(Section, frozen=True):
    """[link]: how boards are reached."""

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_\-/]{1,64}$", description="first part of all topics")]
    keepalive_s: Annotated[int, _number(1, 60, "a silent broker is noticed after 1.5 times this")] = 5
    sync_period_ms: Annotated[int, _number(5, 60_000, "how often a board's clock is compared")] = 1000
    queue: Annotated[int, _number(20, 10_000, "packets kept when the daemon is busy; the oldest go first")] = 400


class Rates(Section, frozen=True):
    """[rates]: every loop of the daemon, declared once."""

    estimator_hz: Annotated[float, _number(1, 1000, "pose estimates")]
    control_hz: Annotated[float, _number(1, 1000, "commands")]
    supervisor_hz: Annotated[float, _number(1, 1000, "checks of all conditions")] = 40.0
    display_hz: Annotated[float, _number(1, 1000, "status lines and views")] = 4.0


class Safety(Section, frozen=True):
    """[safety]: when to leave the active state."""

    estimate_max_age_ms: Annotated[int, _number(5, 60_000, "oldest sample an estimate may stand on")]
    estimate_max_sigma_m: Annotated[float, _number(0, 1, "largest standard deviation of the tip", above=True)]
    max_tilt_deg: Annotated[float, _number(0, 180, "largest tilt of the tip", above=True)]
    degraded_limit_s: Annotated[float, _number(0, 600, "time in the degraded state before the safe state", above=True)]
    board_silence_ms: Annotated[int, _number(5, 60_000, "an actuator board not heard for this long is silent")]
    degraded_budget_s: Annotated[
        float, _number(0, 3600, "time degraded within the window below, all times together, before the safe state", above=True)
    ] = 15.0
    degraded_window_s: Annotated[float, _number(1, 3600, "what degraded_budget_s is counted over, since arming")] = 60.0


class Recording(Section, frozen=True):
    """[recording]: what one recording may take of the disk. Beyond it the oldest parts are removed (an eighth at a time)."""

    max_bytes: Annotated[int, _number(1_000_000, 10**13, "all parts of one recording together")] = 8_000_000_000
    min_free_bytes: Annotated[int, _number(0, 10**13, "free space that must stay on the disk; 0: none")] = 200_000_000


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
    recording: Recording = msgspec.field(default_factory=Recording)
    actuators: Valves | None = None
    controller: Any = None
    calibration: Any = None  # onboard.calibration.file.Calibration, where one was given

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


PLAIN_SECTIONS: dict[str, type[Section]] = {
    "robot": Identity,
    "imu": Imu,
    "link": Link,
    "rates": Rates,
    "safety": Safety,
    "simulation": Simulation,
    "actuators": Valves,
    "recording": Recording,
}
TYPED_SECTIONS = ("structure", "orientation", "estimator", "controller")
_OPTIONAL = {"actuators", "controller", "recording"}
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


def kind_of(file: str, raw: dict[str, Any]) -> str:
    """What kind of robot parsed TOML describes; a file that does not say is a strut tower's."""
    identity = raw.get("robot")
    kind = identity.get("kind", TOWER) if isinstance(identity, dict) else TOWER
    if not isinstance(kind, str):
        raise ConfigError(file, "robot.kind", f"is {kind!r}: must be the name of a kind of robot")
    return kind


def build_spec(file: str, raw: dict[str, Any]) -> RobotSpec:
    """A specification from parsed TOML (used directly by tests and by variants of a file)."""
    if raw.get("format") != 1 or isinstance(raw.get("format"), bool):
        raise ConfigError(file, "format", f"is {raw.get('format')!r}: this version reads format 1")
    kind = kind_of(file, raw)
    if kind != TOWER:
        raise ConfigError(file, "robot.kind", f"is {kind!r}: this command takes robots of kind {TOWER}; see prestress run --help")
    known = {"format", "struts", *PLAIN_SECTIONS, *TYPED_SECTIONS}
    for key in raw:
        if key not in known:
            raise ConfigError(file, key, f"unknown section; known are {', '.join(sorted(known))}")
    parts: dict[str, Any] = {}
    for key in (*TYPED_SECTIONS, *PLAIN_SECTIONS):
        if key in raw:
            parts[key] = (
                resolve(file, key, raw[key]) if key in TYPED_SECTIONS else convert(file, key, raw[key], PLAIN_SECTIONS[key])
            )
        elif key not in _OPTIONAL:
            raise ConfigError(file, key, "required section is missing")
    if "struts" not in raw:
        raise ConfigError(file, "struts", "required key is missing: the ids of all struts, module by module")
    struts = convert(file, "struts", raw["struts"], list[Identifier])
    spec = RobotSpec(file=file, format=1, struts=struts, physics_hash=physics_hash(raw), **parts)
    check(spec)
    return spec


def physics_hash(raw: dict[str, Any]) -> str:
    """sha256 of the canonical JSON of bodies, tendons and actuators; rates, broker and ports do not change it."""
    physics = {key: raw[key] for key in _PHYSICS if key in raw}
    boards = physics.get("actuators", {}).get("boards", [])
    if boards:
        clean = [{k: v for k, v in board.items() if k != "port"} for board in boards if isinstance(board, dict)]
        physics["actuators"] = {**physics["actuators"], "boards": clean}
    return hashlib.sha256(msgspec.json.encode(physics, order="deterministic")).hexdigest()
