"""Robots that have boards to flash and update, of whatever kind: what link, flasher, certificates and updates need of them."""

from __future__ import annotations

from pathlib import Path

from onboard.errors import UsageError
from onboard.link.motor_spec import MotorRobot
from onboard.robot import RobotSpec
from onboard.robot_kinds import DescribedRobot, load_any

BoardRobot = RobotSpec | MotorRobot


def load_boards(path: Path) -> BoardRobot:
    """A robot of any kind that has boards; UsageError for others, ConfigError for a wrong file."""
    robot = boards_of(load_any(path), path)
    if robot is None:
        raise UsageError(f"{path}: robots of this kind have no boards")
    return robot


def boards_of(robot: RobotSpec | DescribedRobot | None, path: Path) -> BoardRobot | None:
    """The boards of a robot that has been read from `path`; None for one without."""
    if isinstance(robot, RobotSpec):
        return robot
    boards = getattr(robot, "motor_boards", None)
    made: MotorRobot | None = None if boards is None else boards(str(path))
    return made


def app_of(spec: BoardRobot, board_id: str) -> str:
    """The application that the robot's board `board_id` runs: strut, motor or valve."""
    if board_id not in spec.struts:
        return "valve"
    return "motor" if isinstance(spec, MotorRobot) else "strut"
