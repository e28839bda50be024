"""One idea: episodes on disk.

One .npz an episode with schema and provenance inside; bad, foreign or mixed files are refused by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offboard.three_bar.episodes import WORLD_ROWS, Episode
from onboard.errors import PrestressError
from sim.three_bar.course import WORLD_COLUMNS

SCHEMA = 1
SPLITS = ("train", "validate", "test")
_SHAPES: dict[str, tuple[int, ...]] = {"caps_u": (6, 3), "rest_u": (6,), "speed_rad_s": (6,), "command": (6,)}


class DataError(PrestressError):
    """A data set is empty, damaged, mixed or cannot be written; names the file."""

    exit_code = 2


def split_of(index: int) -> str:
    """Which split an episode belongs to: of ten in a row, one validates and one tests."""
    return {8: "validate", 9: "test"}.get(index % 10, "train")


def shard_path(folder: Path, index: int) -> Path:
    """Where episode `index` lies."""
    return folder / f"episode_{index:06d}.npz"


def write_episode(folder: Path, index: int, episode: Episode, physics: str, step_s: float) -> Path:
    """Write atomically: a kill or a full disk leaves whole episodes only. Raises DataError when it cannot be written."""
    path = shard_path(folder, index)
    part = path.with_suffix(".part")
    about = {
        "schema": SCHEMA,
        "physics_hash": physics,
        "step_s": step_s,
        "index": index,
        "split": split_of(index),
        "terrain": episode.terrain,
        "drive": episode.drive,
        "seed": list(episode.seed),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(
                file,
                about=np.frombuffer(json.dumps(about, sort_keys=True).encode(), dtype=np.uint8),
                caps_u=episode.caps_u.astype(np.float32),
                rest_u=episode.rest_u.astype(np.float32),
                speed_rad_s=episode.speed_rad_s.astype(np.float32),
                command=episode.command.astype(np.float32),
                world=episode.world,
            )
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise DataError(f"{path}: {error.strerror or error}; episodes before it are complete, run again to go on") from error
    return path


@dataclass(frozen=True, slots=True)
class Shard:
    """One episode as read back. Arrays as in Episode; about: its provenance."""

    caps_u: np.ndarray
    rest_u: np.ndarray
    speed_rad_s: np.ndarray
    command: np.ndarray
    world: np.ndarray
    about: dict[str, Any]

    @property
    def steps(self) -> int:
        """Plant steps in the episode."""
        return len(self.command)


def read_episode(path: Path) -> Shard:
    """Read and check one episode. Raises DataError naming file and fault."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("caps_u", "rest_u", "speed_rad_s", "command", "world", "about")}
        about = json.loads(arrays.pop("about").tobytes())
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a readable episode ({error}); delete it and collect again") from error
    if about.get("schema") != SCHEMA:
        raise DataError(f"{path}: schema {about.get('schema')}, this version reads {SCHEMA}; collect again")
    steps = len(arrays["command"])
    for name, shape in _SHAPES.items():
        rows = steps if name == "command" else steps + 1
        if arrays[name].shape != (rows, *shape):
            raise DataError(f"{path}: {name} has shape {arrays[name].shape}, expected {(rows, *shape)}")
    if arrays["world"].shape != (WORLD_ROWS, WORLD_COLUMNS):
        raise DataError(f"{path}: world has shape {arrays['world'].shape}")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise DataError(f"{path}: {name} holds values that are not finite; delete the file and collect again")
    return Shard(**arrays, about=about)


def episode_files(folder: Path) -> list[Path]:
    """All episodes of a folder in order of their index."""
    return sorted(folder.glob("episode_*.npz"))


def load_dataset(folders: list[Path], physics: str, splits: tuple[str, ...] = SPLITS) -> list[Shard]:
    """All episodes of `splits` in `folders`.

    Raises DataError when there is none, when one is damaged, or when one comes from a robot with another physics hash
    or from another plant step.
    """
    shards: list[Shard] = []
    step_s = None
    for folder in folders:
        files = episode_files(folder)
        if not files:
            raise DataError(f"{folder}: holds no episodes; run collect first")
        for path in files:
            shard = read_episode(path)
            about = shard.about
            if about["physics_hash"] != physics:
                raise DataError(
                    f"{path}: recorded with another robot (physics {about['physics_hash'][:12]}, the robot's file has "
                    f"{physics[:12]}); collect again or use the robot's file it came from"
                )
            step_s = step_s or about["step_s"]
            if about["step_s"] != step_s:
                raise DataError(f"{path}: plant step {about['step_s']} s among episodes with {step_s} s")
            if about["split"] in splits:
                shards.append(shard)
    if not shards:
        raise DataError(f"no episode of the splits {', '.join(splits)} in {', '.join(map(str, folders))}")
    return shards


def data_hash(folders: list[Path]) -> str:
    """sha256 over the names and bytes of all episodes: what a trained model came from."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in episode_files(folder):
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
