"""One idea: fill a folder with episodes, in parallel, from one seed; what is already there and whole is not done again."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from offboard.three_bar.dataset import DataError, read_episode, shard_path, write_episode
from offboard.three_bar.drive_value import COURSE
from offboard.three_bar.episodes import DRIVES, Episode, run_episode
from offboard.three_bar.terrains import TERRAINS, TRAINING_COURSES
from offboard.three_bar.work import Local, Work
from onboard.errors import ConfigError, PlanningError, RobotFault, UsageError
from onboard.models.manifest import ModelFile, load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from sim.three_bar.robot_file import load_robot, physics_hash

KNOWN_TERRAINS = (*TERRAINS, *(f"{COURSE}{name}" for name in TRAINING_COURSES))


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """What to collect. Episode i has drive and terrain by turns, so that every split sees every combination."""

    seed: int = 0
    episodes: int = 300
    seconds: float = 12.0
    drives: tuple[str, ...] = ("uniform", "bang", "coloured", "primitives")
    terrains: tuple[str, ...] = ("flat", "tilted", "walls", "ceiling", "ramp")
    mppi_samples: int = 16
    model: str = ""  # manifest of an exported model to plan with; empty: MPPI plans with the plant itself

    def check(self) -> None:
        """Raises UsageError for what makes no sense."""
        for name, known, chosen in (("drive", DRIVES, self.drives), ("terrain", KNOWN_TERRAINS, self.terrains)):
            wrong = [item for item in chosen if item not in known]
            if wrong or not chosen:
                raise UsageError(f"unknown {name} {', '.join(wrong) or '(none)'}; known: {', '.join(known)}")
        if "value" in self.drives and not (self.model and all(terrain.startswith(COURSE) for terrain in self.terrains)):
            raise UsageError("drive value needs a model, and courses (course:NAME) to drive on")
        if not 1 <= self.episodes <= 100_000:
            raise UsageError(f"episodes is {self.episodes}, must be 1..100000")
        if not 3.0 <= self.seconds <= 600.0:
            raise UsageError(f"seconds is {self.seconds}, must be 3..600")
        if not 2 <= self.mppi_samples <= 10_000:
            raise UsageError(f"mppi samples is {self.mppi_samples}, must be 2..10000")

    def plan(self, index: int) -> tuple[str, str]:
        """(terrain, drive) of an episode: every drive on every terrain, then once more with new seeds.

        Whole decks of all combinations are dealt, shifted by one every ten, so that no combination always falls into
        the same split.
        """
        pairs = [(terrain, drive) for drive in self.drives for terrain in self.terrains]
        return pairs[(index + index // 10) % len(pairs)]


def collect(
    folder: Path, settings: CollectSettings, workers: int, progress: Callable[[int, int], None], work: Work | None = None
) -> dict[str, int]:
    """Make all episodes of `settings` in `folder`; `progress(done, all)` is called after each.

    Jobs run on `workers` processes, or on `work`; files are written here alone. Returns counts: made, kept (were there), failed
    (the simulation broke down or there was nowhere to go; such an episode is left out). Raises DataError when the folder belongs
    to other settings or cannot be written.
    """
    settings.check()
    work = Local(workers) if work is None else work
    physics = physics_hash()
    model = load_model_file(Path(settings.model), load_robot().robot.name, physics) if settings.model else None
    _claim(folder, settings, physics)
    todo, kept = [], 0
    for index in range(settings.episodes):
        if _is_whole(shard_path(folder, index), physics):
            kept += 1
        else:
            todo.append(index)
    done, counts = kept, {"made": 0, "kept": kept, "failed": 0}
    progress(done, settings.episodes)
    step_s = load_robot().plant.step_s
    for index, episode in work.run(_make, [(index, settings, model) for index in todo]):
        if episode is None:
            counts["failed"] += 1
        else:
            write_episode(folder, index, episode, physics, step_s)
            counts["made"] += 1
        done += 1
        progress(done, settings.episodes)
    return counts


def _make(job: tuple[int, CollectSettings, ModelFile | None]) -> tuple[int, Episode | None]:
    index, settings, model = job
    terrain, drive = settings.plan(index)
    dynamics = _dynamics(model) if model is not None else None
    seed = (settings.seed, index)
    try:
        return index, run_episode(load_robot(), terrain, drive, settings.seconds, seed, settings.mppi_samples, dynamics)
    except (RobotFault, PlanningError):
        return index, None


_LOADED: dict[str, StrutDynamics] = {}


def _dynamics(model: ModelFile) -> StrutDynamics:
    """The model of a job; a process keeps the one it used last."""
    key = model.manifest.onnx_sha256
    if key not in _LOADED:
        _LOADED.clear()
        _LOADED[key] = StrutDynamics(model)
    return _LOADED[key]


def _is_whole(path: Path, physics: str) -> bool:
    if not path.is_file():
        return False
    try:
        return bool(read_episode(path).about["physics_hash"] == physics)
    except DataError:
        return False


def _claim(folder: Path, settings: CollectSettings, physics: str) -> None:
    """Write dataset.json, or check that the one that is there asks for the same (more episodes are welcome)."""
    path = folder / "dataset.json"
    wanted = json.loads(json.dumps({**asdict(settings), "physics_hash": physics}))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            try:
                there = json.loads(path.read_text())
            except ValueError as error:
                raise ConfigError(str(path), "", "is damaged; delete the folder or give another one") from error
            for key, value in wanted.items():
                if key != "episodes" and there.get(key) != value:
                    raise DataError(f"{path}: holds data with {key} = {there.get(key)}, not {value}; give another folder")
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, suffix=".part") as file:
            json.dump(wanted, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
