"""What the host must know of a robot's motor boards: the file's [motors] section, and the motor law in encoder counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from onboard.config import Section
from onboard.errors import ConfigError
from onboard.robot import Imu, Link

FULL_SCALE = 10_000  # counts of a set-point at full speed (firmware/motor/config.py)
COUNTS_LIMIT = 32_000  # telemetry has 16 bits


class MotorBoardEntry(Section, frozen=True):
    """One entry of motors.boards: a board, and which motors its channels 0, 1, ... drive."""

    id: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    motors: Annotated[list[Annotated[int, Meta(ge=0, le=1023)]], Meta(min_length=1, max_length=16)]


class Motors(Section, frozen=True):
    """[motors]: drives with an encoder on the spool, on boards that hold their own deadline. Their safe state is off: the
    windings are shorted and the spools hold.

    counts_per_turn: encoder counts a turn of the spool. duty_at_full: share of the supply that gives full speed without load.
    """

    boards: Annotated[list[MotorBoardEntry], Meta(min_length=1, max_length=64)]
    counts_per_turn: Annotated[int, Meta(ge=16, le=100_000)]
    duty_at_full: Annotated[float, Meta(ge=0.1, le=1.0)]
    max_slew_per_s: Annotated[float, Meta(gt=0.0, le=1000.0)]  # of full speed, on the board
    deadline_ms: Annotated[int, Meta(ge=20, le=10_000)]  # silence after which a board goes off and latches
    command_ttl_ms: Annotated[int, Meta(ge=5, le=10_000)]
    current_limit_a: Annotated[float, Meta(ge=0.05, le=3.0)]  # a motor is held back above it ...
    overcurrent_ms: Annotated[int, Meta(ge=10, le=10_000)]  # ... and its board latches when that does not help for so long
    stall_ms: Annotated[int, Meta(ge=50, le=10_000)]  # driven and not turning for so long latches the board


@dataclass(frozen=True, slots=True)
class MotorLaw:
    """Spool and cable, in the units of the robot's file: speed at full command, spool radius, travel of the rest length."""

    max_speed_rad_s: float
    spool_radius_u: float
    rest_start_u: float
    rest_min_u: float
    rest_max_u: float


@dataclass(frozen=True, slots=True)
class MotorRobot:
    """A robot whose boards are struts with motors; `struts` are the boards' ids in the order of motors.boards."""

    file: str
    struts: list[str]
    imu: Imu
    link: Link
    motors: Motors
    law: MotorLaw
    name: str = "robot"
    actuators: None = None  # none on serial lines

    @property
    def count(self) -> int:
        """How many motors there are."""
        return sum(len(board.motors) for board in self.motors.boards)

    @property
    def rest_u_per_count(self) -> float:
        """A cable gets shorter by this much with each encoder count [u]."""
        return 2.0 * math.pi * self.law.spool_radius_u / self.motors.counts_per_turn

    @property
    def rad_per_count(self) -> float:
        """Turn of the spool with each encoder count [rad]."""
        return 2.0 * math.pi / self.motors.counts_per_turn

    @property
    def full_counts_s(self) -> int:
        """Encoder counts a second at full command."""
        return round(self.law.max_speed_rad_s / self.rad_per_count)


def motor_robot_of(file: str, name: str, motors: Motors, imu: Imu, link: Link, law: MotorLaw) -> MotorRobot:
    """A checked MotorRobot; ConfigError when boards and motors do not fit together."""
    ids = [board.id for board in motors.boards]
    if len(set(ids)) < len(ids):
        raise ConfigError(file, "motors.boards", "an id is given twice")
    driven = sorted(motor for board in motors.boards for motor in board.motors)
    if driven != list(range(len(driven))):
        raise ConfigError(file, "motors.boards", f"every motor is driven once, numbered from 0; got {driven}")
    robot = MotorRobot(file, ids, imu, link, motors, law, name)
    travel = (law.rest_max_u - law.rest_min_u) / robot.rest_u_per_count
    if travel > COUNTS_LIMIT:
        raise ConfigError(file, "motors.counts_per_turn", f"{travel:.0f} counts of travel: at most {COUNTS_LIMIT}")
    if not 10 <= robot.full_counts_s <= 30_000:
        raise ConfigError(file, "motors.counts_per_turn", f"{robot.full_counts_s} counts/s at full speed: must be 10 .. 30000")
    return robot
