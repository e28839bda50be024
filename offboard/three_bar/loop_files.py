"""One idea: what a data loop keeps: its settings, so that a folder never mixes two loops, and one report an iteration."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from offboard.three_bar.terrains import TRAINING_COURSES
from offboard.three_bar.train_settings import TrainSettings
from onboard.config import Section
from onboard.errors import PrestressError, UsageError
from sim.three_bar.robot_file import physics_hash

SETTINGS_FILE = "loop.json"


class LoopError(PrestressError):
    """A data loop cannot start or go on."""

    exit_code = 2


class LoopSettings(Section, frozen=True):
    """What a loop does in every iteration. Iteration 0: random drives and primitives; later ones: `value` on `courses`."""

    seed: int = 0
    variant: str = "contact"
    bootstrap_episodes: int = 700
    bootstrap_s: float = 12.0
    driven_episodes: int = 120
    driven_s: float = 30.0
    updates: int = 9000
    further_updates: int = 5000
    courses: tuple[str, ...] = TRAINING_COURSES
    quick: bool = False
    quick_evaluation: bool = False

    def check(self) -> None:
        """Raises UsageError for what makes no sense."""
        ranges: tuple[tuple[str, float, float, float], ...] = (
            ("seed", self.seed, 0, 2**31 - 1001),
            ("bootstrap episodes", self.bootstrap_episodes, 10, 100_000),
            ("bootstrap seconds", self.bootstrap_s, 3.0, 600.0),
            ("driven episodes", self.driven_episodes, 1, 100_000),
            ("driven seconds", self.driven_s, 3.0, 600.0),
            ("updates", self.updates, 1, 10_000_000),
            ("further updates", self.further_updates, 1, 10_000_000),
        )
        for name, value, least, most in ranges:
            if not least <= value <= most:  # false for what is not a number, too
                raise UsageError(f"{name} is {value}, must be {least}..{most}")
        unknown = [name for name in self.courses if name not in TRAINING_COURSES]
        if unknown or not self.courses:
            words = ", ".join(unknown) or "(none)"
            raise UsageError(f"unknown training course {words}; known: {', '.join(TRAINING_COURSES)}")


class IterationReport(Section, frozen=True):
    """One iteration. errors: the table of `evaluate dynamics` for its model (paper, figure 5). Lengths [u]."""

    format: Literal[1]
    iteration: Annotated[int, Meta(ge=0)]
    model: str
    onnx_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    data_hash: str
    episodes: int
    failed_episodes: int
    robot_minutes: float
    all_robot_minutes: float
    updates: int
    train_cpu_minutes: float
    validation_com_error_u: float
    parity_u: float
    errors: dict[str, Any]
    quick_evaluation: bool


def claim(folder: Path, settings: LoopSettings, train: TrainSettings) -> None:
    """Write the loop's settings into `folder`, or check that those that are there are the same. Raises LoopError."""
    settings.check()
    path = folder / SETTINGS_FILE
    wanted = {"loop": msgspec.to_builtins(settings), "train": msgspec.to_builtins(train), "physics_hash": physics_hash()}
    wanted = json.loads(json.dumps(wanted))
    if path.is_file():
        try:
            there = json.loads(path.read_bytes())
            tables = {key: dict(there[key]) for key in ("loop", "train")} | {"physics_hash": there["physics_hash"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LoopError(f"{path}: is damaged ({error}); give another folder") from error
        for table in ("loop", "train"):
            for key, value in wanted[table].items():
                if tables[table].get(key) != value:
                    was = tables[table].get(key)
                    raise LoopError(f"{path}: a loop with {key} = {was}, not {value}; give another folder (--out)")
        if tables["physics_hash"] != wanted["physics_hash"]:
            raise LoopError(f"{path}: a loop of another version of the robot; give another folder (--out)")
        return
    _write(path, json.dumps(wanted, indent=1).encode())


def report_path(folder: Path, number: int) -> Path:
    """Where an iteration's report lies."""
    return folder / f"iteration_{number}.json"


def keep_report(folder: Path, report: IterationReport) -> None:
    """Write a report, whole or not at all. Raises LoopError."""
    path = report_path(folder, report.iteration)
    _write(path, msgspec.json.format(msgspec.json.encode(report), indent=1))


def read_report(folder: Path, number: int) -> IterationReport | None:
    """The report of an iteration; None when it is missing, damaged or of another iteration: it is then made again."""
    try:
        report = msgspec.json.decode(report_path(folder, number).read_bytes(), type=IterationReport, strict=True)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return report if report.iteration == number else None


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False, suffix=".part") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)
    except OSError as error:
        raise LoopError(f"{path}: cannot be written: {error.strerror or error}; what is there is kept") from error
