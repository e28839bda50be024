"""The store of taught postures: one JSON file a robot, written whole or not at all, checked when read."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from onboard.config import Section
from onboard.errors import PrestressError, UsageError
from onboard.messages import Floats, Posture, frozen
from onboard.resources import state_dir
from onboard.robot import RobotSpec

FORMAT = 1
MAX_POSTURES = 1000
MAX_FILE_BYTES = 8_000_000
ROUNDING = 1e-6  # of decimal text, in SI units
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")


class PostureError(PrestressError):
    """The file of postures cannot be read, written or used with this robot; it has not been changed."""


class _Entry(Section, frozen=True):
    name: str
    cable_length_m: list[float]
    pressure_pa: list[float]
    tip_m: list[float]
    taught_wall_ns: int


class _File(Section, frozen=True):
    format: int
    robot: str
    physics_hash: str
    postures: list[_Entry]


class PostureStore:
    """Taught postures of one robot. Every call reads the file anew, so that several programs may use it."""

    def __init__(self, spec: RobotSpec, folder: Path | None = None) -> None:
        self._spec = spec
        self.path = (folder or state_dir() / "postures") / f"{spec.name}.json"

    def all(self) -> list[Posture]:
        """All postures in the order they were first taught; raises PostureError for a file that cannot be trusted."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not be waited for
            with io.BufferedReader(io.FileIO(handle)) as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise PostureError(f"{self.path}: is no ordinary file; move it away to start anew")
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PostureError(f"{self.path}: cannot be read: {error.strerror}") from error
        return self._decode(data)

    def get(self, name: str) -> Posture:
        """The posture of that name; raises UsageError naming the known ones."""
        postures = self.all()
        for posture in postures:
            if posture.name == name:
                return posture
        known = ", ".join(posture.name for posture in postures) or "none: 'posture teach NAME' records the first"
        raise UsageError(f"there is no posture {name!r}; known are {known}")

    def put(self, posture: Posture) -> None:
        """Add `posture`, or replace the one of that name. On any error the file is as it was before."""
        check_name(posture.name)
        self._check(posture)
        postures = self.all()
        names = [known.name for known in postures]
        if posture.name in names:
            postures[names.index(posture.name)] = posture
        elif len(postures) >= MAX_POSTURES:
            raise PostureError(f"{self.path}: holds {MAX_POSTURES} postures already; delete one first")
        else:
            postures.append(posture)
        self._write(postures)

    def delete(self, name: str) -> None:
        """Remove the posture of that name; raises UsageError if there is none."""
        self.get(name)
        self._write([posture for posture in self.all() if posture.name != name])

    def _decode(self, data: bytes) -> list[Posture]:
        if len(data) > MAX_FILE_BYTES:
            raise PostureError(f"{self.path}: has more than {MAX_FILE_BYTES} bytes")
        try:
            file = msgspec.json.decode(data, type=_File, strict=True)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PostureError(f"{self.path}: is damaged ({error}); move it away to start anew") from error
        if file.format != FORMAT:
            raise PostureError(f"{self.path}: has format {file.format}, this version reads {FORMAT}")
        if file.robot != self._spec.name:
            raise PostureError(f"{self.path}: was written for robot {file.robot!r}, not {self._spec.name!r}")
        if len(file.postures) > MAX_POSTURES:
            raise PostureError(f"{self.path}: postures holds {len(file.postures)} entries: must lie in 0 .. {MAX_POSTURES}")
        if file.physics_hash != self._spec.physics_hash:
            raise PostureError(
                f"{self.path}: was taught on another build of {self._spec.name} (its bodies or actuators differ from "
                f"{self._spec.file}); move the file away and teach anew"
            )
        postures = [
            Posture(e.name, frozen(e.cable_length_m), frozen(e.pressure_pa), frozen(e.tip_m), e.taught_wall_ns)
            for e in file.postures
        ]
        for posture in postures:
            check_name(posture.name)
            self._check(posture)
        if len({posture.name for posture in postures}) != len(postures):
            raise PostureError(f"{self.path}: has a name twice")
        return postures

    def _check(self, posture: Posture) -> None:
        tower, reach_m = self._spec.structure, self._reach_m()
        limits = self._spec.actuators
        pressure = (limits.min_pressure_pa, limits.max_pressure_pa) if limits else (-math.inf, math.inf)
        wanted = (
            ("cable_length_m", self._cable_ranges_m(), "m"),
            ("pressure_pa", [pressure] * len(tower.cylinders), "Pa"),
            ("tip_m", [(-reach_m, reach_m)] * 3, "m"),
        )
        for key, ranges, unit in wanted:
            values: Floats = getattr(posture, key)
            place = f"{self.path}: posture {posture.name!r}: {key}"
            if values.shape != (len(ranges),):
                raise PostureError(f"{place} has shape {values.shape}, this robot needs {(len(ranges),)}")
            for index, (value, (low, high)) in enumerate(zip(values.tolist(), ranges, strict=True)):
                if not math.isfinite(value):
                    raise PostureError(f"{place}[{index}] is {value}: not a number")
                if not low - ROUNDING <= value <= high + ROUNDING:
                    raise PostureError(f"{place}[{index}] is {value:g}: must lie in {low:g} .. {high:g} {unit}")

    def _cable_ranges_m(self) -> list[tuple[float, float]]:
        """What each cable may measure [m]: its stroke either way from upright, and as much as an estimate may be off."""
        tower, doubt_m = self._spec.structure, self._spec.safety.estimate_max_sigma_m
        lower, upper = tower.rest_joints_m()
        n, ranges = tower.struts_per_module, []
        for index, (m, top, bottom) in enumerate(tower.cable_ends()):
            upright_m = math.dist(upper[m, top], lower[m, bottom])
            travel_m = tower.cables[index // n % len(tower.cables)].stroke_m + doubt_m
            ranges.append((max(1e-3, upright_m - travel_m), upright_m + travel_m))
        return ranges

    def _reach_m(self) -> float:
        """How far from the base a tip can be, each way: all struts in a line and a ring's radius [m]."""
        tower = self._spec.structure
        return tower.modules * tower.strut_length_m + tower.ring_radius_m

    def _write(self, postures: list[Posture]) -> None:
        content: dict[str, Any] = {
            "format": FORMAT,
            "robot": self._spec.name,
            "physics_hash": self._spec.physics_hash,
            "postures": [
                {
                    "name": posture.name,
                    "cable_length_m": posture.cable_length_m.tolist(),
                    "pressure_pa": posture.pressure_pa.tolist(),
                    "tip_m": posture.tip_m.tolist(),
                    "taught_wall_ns": posture.taught_wall_ns,
                }
                for posture in postures
            ],
        }
        data = msgspec.json.format(msgspec.json.encode(content), indent=1)
        temporary = ""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
            temporary = ""
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise PostureError(
                f"{self.path}: cannot be written: {error.strerror}; what was taught before is still there"
            ) from error
        finally:
            if temporary:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()


def check_name(name: str) -> None:
    """Raises UsageError for a name that is not 1 to 48 letters, digits, dots, dashes and underscores."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a posture: use 1 to 48 letters, digits, '.', '-' or '_'")
