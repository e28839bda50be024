"""Kinds of robots: `[robot] kind` names who reads the file; strut towers are read here, others register themselves.

An entry point of the group `prestress.robots`, named by the kind, gives a function `(path, raw) -> robot`: it checks the parsed
TOML as strictly as onboard.robot does and returns something with `summary()`, the figures that a person checks first.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from onboard.config import read_toml
from onboard.errors import ConfigError, MissingExtraError
from onboard.robot import TOWER, RobotSpec, build_spec, kind_of

GROUP = "prestress.robots"


class DescribedRobot(Protocol):
    """What every kind of robot can say of itself."""

    def summary(self) -> dict[str, object]:
        """Name, title, sizes and limits, by key."""
        ...


def kinds() -> list[str]:
    """All kinds that this installation reads, sorted."""
    return sorted({TOWER, *(entry.name for entry in entry_points(group=GROUP))})


def load_any(path: Path) -> RobotSpec | DescribedRobot:
    """Read and check a robot's file of any kind.

    Raises:
        ConfigError: the file, a key or a value is wrong; names all three.
        MissingExtraError: the kind needs an optional package.
    """
    raw: dict[str, Any] = read_toml(path)
    kind = kind_of(str(path), raw)
    if kind == TOWER:
        return build_spec(str(path), raw)
    for entry in entry_points(group=GROUP, name=kind):
        try:
            read = entry.load()
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"robots of kind {kind}", "sim") from error
        robot: DescribedRobot = read(path, raw)
        return robot
    raise ConfigError(str(path), "robot.kind", f"is {kind!r}: known kinds are {', '.join(kinds())}")
