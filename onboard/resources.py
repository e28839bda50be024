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
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "prestress"


def state_dir() -> Path:
    """A folder of the user's for what must survive: taught postures, sockets' home when there is no runtime folder."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "prestress"


def robot_file(name: str) -> Path:
    """The TOML for a robot given by name ("manipulator") or by path ("./my_robot.toml")."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"there is no robot's file at {path}")
        return path
    path = root() / "robots" / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in (root() / "robots").glob("*.toml")))
        raise UsageError(f"there is no robot named {name!r}; known are {known}, or give the path of a TOML file")
    return path
