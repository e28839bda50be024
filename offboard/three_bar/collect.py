"""One idea: fill a folder with episodes, in parallel, from one seed; what is already there and whole is not done again."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from offboard.three_bar.dataset import DataError, read_episode, shard_path, write_episode
from offboard.three_bar.episodes import DRIVES, run_episode
from offboard.three_bar.terrains import TERRAINS, TRAINING_COURSES
from onboard.errors import ConfigError, RobotFault, UsageError
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from sim.three_bar.robot_file import load_robot, physics_hash

KNOWN_TERRAINS = (*TERRAINS, *(f"course:{name}" for name in TRAINING_COURSES))


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """What to collect. Episode i has drive and terrain by turns, so that every split sees every combination."""

    seed: int = 0
    episodes: int = 300
    seconds: float = 12.0
    drives: tuple[str, ...] = ("uniform", "bang", "coloured", "primitives")
    terrains: tuple[str, ...] = ("flat", "tilted", "walls", "ceiling", "ramp")
    mppi_samples: int = 16
    model: str = ""  # manifest of an exported model that MPPI plans with; empty: the plant itself

    def check(self) -> None:
        """Raises UsageError for what makes no sense."""
        for name, known, chosen in (("drive", DRIVES, self.drives), ("terrain", KNOWN_TERRAINS, self.terrains)):
            wrong = [item for item in chosen if item not in known]
            if wrong or not chosen:
                raise UsageError(f"unknown {name} {', '.join(wrong) or '(none)'}; known: {', '.join(known)}")
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


def collect(folder: Path, settings: CollectSettings, workers: int, progress: Callable[[int, int], None]) -> dict[str, int]:
    """Make all episodes of `settings` in `folder`; `progress(done, all)` is called after each.

    Returns counts: made, kept (were there), failed (the simulation broke down; such an episode is left out). Raises
    DataError when the folder belongs to other settings or cannot be written.
    """
    settings.check()
    physics = physics_hash()
    if settings.model:
        _model(settings.model)  # a model that does not load is said before anything is done
    _claim(folder, settings, physics)
    todo, kept = [], 0
    for index in range(settings.episodes):
        if _is_whole(shard_path(folder, index), physics):
            kept += 1
        else:
            todo.append(index)
    done, counts = kept, {"made": 0, "kept": kept, "failed": 0}
    progress(done, settings.episodes)
    for result in _work([(folder, index, settings, physics) for index in todo], workers):
        counts[result] += 1
        done += 1
        progress(done, settings.episodes)
    return counts


def _work(jobs: list[tuple[Path, int, CollectSettings, str]], workers: int) -> Iterator[str]:
    if workers <= 1:
        yield from map(_make, jobs)
        return
    with mp.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(_make, jobs)


def _make(job: tuple[Path, int, CollectSettings, str]) -> str:
    folder, index, settings, physics = job
    spec = load_robot()
    terrain, drive = settings.plan(index)
    model = _model(settings.model) if settings.model else None
    try:
        episode = run_episode(spec, terrain, drive, settings.seconds, (settings.seed, index), settings.mppi_samples, model)
    except RobotFault:
        return "failed"
    write_episode(folder, index, episode, physics, spec.plant.step_s)
    return "made"


@lru_cache(maxsize=1)
def _model(path: str) -> StrutDynamics:
    return StrutDynamics(load_model_file(Path(path), load_robot().robot.name, physics_hash()))


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
