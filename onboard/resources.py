"""Where robots' files, firmware and models lie: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

from onboard.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """The folder that holds robots/, firmware/ and models_onnx/."""
    checkout = _PACKAGE.parent
    return checkout if (checkout / "robots").is_dir() else _PACKAGE / "_data"


def cache_dir() -> Path:
    """A folder of the user's for compiled kernels and taught postures."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else _home() / ".cache") / "prestress"


def state_dir() -> Path:
    """A folder of the user's for what must survive: taught postures, sockets' home when there is no runtime folder."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else _home() / ".local" / "state") / "prestress"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise UsageError("this user has no home folder: set HOME, or XDG_STATE_HOME and XDG_CACHE_HOME") from error


def robot_file(name: str) -> Path:
    """The TOML for a robot given by name ("manipulator") or by path ("./my_robot.toml")."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not _is_file(path):
            raise UsageError(f"there is no robot's file at {path}")
        return path
    path = root() / "robots" / f"{name}.toml"
    if not _is_file(path):
        known = ", ".join(sorted(p.stem for p in (root() / "robots").glob("*.toml")))
        raise UsageError(f"there is no robot named {name!r}; known are {known}, or give the path of a TOML file")
    return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or in a folder that may not be entered
        return False
