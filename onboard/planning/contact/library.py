"""Motion primitives: windows of four validated steps with the key that finds them again, in one file per worm."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onboard.errors import ModelError
from onboard.planning.contact.expansion import project
from onboard.planning.contact.guide import Guide
from onboard.planning.contact.plan import Plan, State
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
HORIZON = 4  # steps in a primitive (paper, Table I)
AHEAD_M = (0.0, 0.04, 0.08, 0.12)  # where the key looks at the guide, from head and tail
POINT_M, NORMAL, GRAVITY = 0.03, 0.5, 1.0  # scales of the key's parts: a difference of this much counts as one
DUPLICATE = 0.05  # two keys of one mode closer than this keep one primitive
_FORMAT = 1


@dataclass(frozen=True)
class Library:
    """N primitives of one body.

    Attributes:
        keys: what `key` gives for the state each primitive starts from. Shape (N, D).
        modes: pads attached at its start. Shape (N, n + 1).
        moves: link released and link attached at each step, -1 for none. Shape (N, 4, 2).
        shapes: shape at each step's end. Shape (N, 4, n, 3).
        body_hash: the body they were planned for.
        projection: what keys have been multiplied by, and queries still have to be, shape (D of `key`, D); None for nothing.
    """

    keys: Floats
    modes: NDArray[np.uint8]
    moves: NDArray[np.int64]
    shapes: Floats
    body_hash: str
    projection: Floats | None = None

    def nearest(self, key: Floats, mode: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
        """Indices of at most `count` primitives that start in `mode`, by distance of their keys."""
        wanted = key if self.projection is None else key @ self.projection
        same = np.flatnonzero(np.all(self.modes == mode, axis=1))
        gap = np.sum((self.keys[same] - wanted) ** 2, axis=1)
        if len(same) > count:
            part = np.argpartition(gap, count)[:count]
            same, gap = same[part], gap[part]
        return same[np.argsort(gap, kind="stable")]


def key(spec: WormSpec, guide: Guide, state: State) -> Floats:
    """The hand-made key: deformation, then guide points and normals and gravity in the frames of head and tail."""
    segments = spec.segments
    span = segments.length_max_m - segments.length_min_m
    unit = (state.shape - [segments.length_min_m, 0.0, 0.0]) / [span, segments.curvature_max_per_m, segments.curvature_max_per_m]
    parts = [unit.ravel()]
    spacing = guide.along[1] - guide.along[0]
    down = spec.gravity / np.linalg.norm(spec.gravity)
    for link, sign in ((-1, 1.0), (0, 1.0)):
        frame = state.frames[link]
        s, _ = project(guide.line, guide.along, *frame[:, 3])
        index = np.clip(np.round((s + sign * np.array(AHEAD_M)) / spacing), 0, len(guide.line) - 1).astype(int)
        place, normal = guide.targets[index, 0, :, 3], guide.targets[index, 0, :, 0]
        parts.append(((place - frame[:, 3]) @ frame[:, :3]).ravel() / POINT_M)
        parts.append((normal @ frame[:, :3]).ravel() / NORMAL)
        parts.append(down @ frame[:, :3] / GRAVITY)
    return np.concatenate(parts)


def collect(spec: WormSpec, rollouts: Iterable[tuple[Plan, Guide]]) -> Library:
    """All windows of validated plans, each with the guide it was planned along; near duplicates dropped."""
    rows = []
    for plan, guide in rollouts:
        states = plan.states
        for first in range(len(plan.steps) - HORIZON + 1):
            window = plan.steps[first : first + HORIZON]
            rows.append(
                (
                    key(spec, guide, states[first]),
                    states[first].attached,
                    [(step.released, step.attached) for step in window],
                    [step.end.shape for step in window],
                )
            )
    if not rows:
        raise ModelError(f"no plan has the {HORIZON} steps a primitive needs: the library would be empty")
    keys, modes = np.array([r[0] for r in rows]), np.array([r[1] for r in rows], dtype=np.uint8)
    moves, shapes = np.array([r[2] for r in rows], dtype=np.int64), np.array([r[3] for r in rows])
    keep: list[int] = []
    for i in range(len(rows)):
        others = [j for j in keep if np.array_equal(modes[j], modes[i])]
        if not others or np.min(np.sum((keys[others] - keys[i]) ** 2, axis=1)) > DUPLICATE**2:
            keep.append(i)
    return Library(keys[keep], modes[keep], moves[keep], shapes[keep], spec.body_hash)


def save_library(library: Library, path: Path) -> None:
    """Writes a library with hand-made keys as one .npz file; a .json beside it has its hash, body and primitives a mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path, format=_FORMAT, keys=library.keys.astype(np.float32), modes=library.modes, moves=library.moves,
        shapes=library.shapes, body_hash=library.body_hash,
    )  # fmt: skip
    raw = path.read_bytes()
    modes = ["".join(str(int(pad)) for pad in mode) for mode in library.modes]
    manifest = {
        "format": _FORMAT,
        "file": path.name,
        "sha256": hashlib.sha256(raw).hexdigest(),
        "bytes": len(raw),
        "body_hash": library.body_hash,
        "primitives": len(modes),
        "horizon": HORIZON,
        "key_size": library.keys.shape[1],
        "modes": {mode: modes.count(mode) for mode in sorted(set(modes))},
    }
    path.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def load_library(path: Path, spec: WormSpec) -> Library:
    """A library for this worm; ModelError when it is missing, damaged, empty or made for another body."""
    _check_hash(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            if int(file["format"]) != _FORMAT:
                raise ModelError(f"{path} has library format {int(file['format'])}; this version reads {_FORMAT}")
            library = Library(
                file["keys"].astype(np.float64), file["modes"], file["moves"], file["shapes"], str(file["body_hash"])
            )
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path} is not a primitive library: {error}") from error
    if library.body_hash != spec.body_hash:
        raise ModelError(f"{path} holds primitives of another worm than {spec.robot.name}: collect them for this body")
    n, count = spec.links.count - 1, len(library.keys)
    if count == 0:
        raise ModelError(f"{path} is an empty library: collect plans first")
    if library.shapes.shape != (count, HORIZON, n, 3) or not np.all(np.isfinite(library.shapes)):
        raise ModelError(f"{path} holds shapes {library.shapes.shape}, must be ({count}, {HORIZON}, {n}, 3) and finite")
    if library.keys.ndim != 2 or not np.all(np.isfinite(library.keys)):
        raise ModelError(f"{path} holds keys {library.keys.shape}, must be (N, D) and finite")
    moves = library.moves
    if library.modes.shape != (count, n + 1) or moves.shape != (count, HORIZON, 2) or np.any((moves < -1) | (moves > n)):
        raise ModelError(f"{path} names pads that {spec.robot.name} does not have")
    return library


def _check_hash(path: Path) -> None:
    """The library's bytes are those its .json vouches for."""
    try:
        manifest: dict[str, Any] = msgspec.json.decode(path.with_suffix(".json").read_bytes(), type=dict[str, Any])
        raw, wanted = path.read_bytes(), str(manifest["sha256"])
    except (OSError, KeyError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not a primitive library with its .json beside it: {error}") from error
    found = hashlib.sha256(raw).hexdigest()
    if found != wanted:
        raise ModelError(f"{path}: sha256 {found[:12]} is not its .json's {wanted[:12]}: damaged, cut off or changed")
