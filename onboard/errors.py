"""One exception tree for the product: every error says what happened and what a person can do about it."""

from __future__ import annotations


class PrestressError(Exception):
    """Base of all errors a user may see. `exit_code` is the process's exit status."""

    exit_code = 1


class ConfigError(PrestressError):
    """A file is wrong: names the file, the key, the value and what would be right. Nothing has been started."""

    exit_code = 2

    def __init__(self, file: str, key: str, problem: str) -> None:
        self.file, self.key, self.problem = file, key, problem
        where = f"{file}: {key}: " if key else f"{file}: "
        super().__init__(where + problem)


class UsageError(PrestressError):
    """The command line asks for something that does not exist or does not fit."""

    exit_code = 2


class MissingExtraError(PrestressError):
    """A verb needs an optional dependency: carries the pip command that brings it."""

    exit_code = 3

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the '{extra}' extra: pip install 'prestress[{extra}]'")


class LinkError(PrestressError):
    """The broker or a serial port cannot be reached or used."""

    exit_code = 4


class WireError(LinkError):
    """A packet or frame was refused: wrong version, length, checksum or content."""


class NotANumberError(PrestressError):
    """A value that must be finite is not; names where it entered."""


class EstimationError(PrestressError):
    """The estimator has nothing it can stand on (for example: no valid sensor at all)."""


class PlanningError(PrestressError):
    """No plan can be made, and why."""


class ModelError(PrestressError):
    """A learned model is corrupt, truncated, foreign or does not fit the robot's file."""

    exit_code = 2


class CalibrationError(PrestressError):
    """A calibration cannot be made from these data, or does not belong to this robot."""

    exit_code = 2


class SafetyError(PrestressError):
    """A request was refused by the supervisor; nothing has moved."""

    exit_code = 5


class RobotFault(PrestressError):
    """The robot has gone to its safe state because of a fault."""

    exit_code = 6


class RecordingError(PrestressError):
    """A recording cannot be written or read."""

    exit_code = 7
