"""One idea: motion primitives as a planner sees them: what each does to the planar pose, from a hashed library."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import ModelError
from onboard.messages import Floats

FORMAT = 1
MAX_BYTES = 1_000_000
Finite = Annotated[float, Meta(ge=-1e6, le=1e6)]
Spread = Annotated[float, Meta(ge=0.0, le=1e6)]


class Entry(Section, frozen=True):
    """Mean effect of one primitive and its standard deviation over `samples` cycles.

    dx along the robot's principal axis, dy to its left [u], turn [rad], seconds; left_u, right_u: ranges of even and odd
    cables [u]; timeouts: gait steps that did not arrive in time, over all samples.
    """

    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    left_u: Annotated[float, Meta(gt=0.0, le=1e3)]
    right_u: Annotated[float, Meta(gt=0.0, le=1e3)]
    dx_u: Finite
    dy_u: Finite
    turn_rad: Finite
    seconds: Annotated[float, Meta(gt=0.0, le=1e6)]
    dx_sd_u: Spread
    dy_sd_u: Spread
    turn_sd_rad: Spread
    timeouts: Annotated[int, Meta(ge=0)]
    samples: Annotated[int, Meta(ge=1)]


class Library(Section, frozen=True):
    """All primitives of a robot, what they were measured with, and the hash of it all."""

    format: Literal[1]
    robot: str
    physics_hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    measured_with: str
    scene: str
    friction: Spread
    housing_radius_u: Spread
    seed: int
    entries: Annotated[list[Entry], Meta(min_length=1)]
    sha256: str = ""


def content_hash(library: Library) -> str:
    """sha256 of the canonical JSON of everything but the hash itself."""
    bare = msgspec.structs.replace(library, sha256="")
    return hashlib.sha256(msgspec.json.encode(bare, order="deterministic")).hexdigest()


def read_library(path: Path, robot: str, physics_hash: str) -> Library:
    """Read and check a library. Raises ModelError: unreadable, damaged or edited, of another robot or another version of it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise ModelError(f"{path}: has {len(raw)} bytes, at most {MAX_BYTES} are read")
    try:
        library = msgspec.json.decode(raw, type=Library, strict=True)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not a primitive library of format {FORMAT}: {error}") from error
    if library.sha256 != content_hash(library):
        raise ModelError(f"{path}: its content does not match its hash: damaged or edited")
    if library.robot != robot:
        raise ModelError(f"{path}: is a library of robot {library.robot!r}, not of {robot!r}")
    if library.physics_hash != physics_hash:
        raise ModelError(f"{path}: was measured with other bodies, tendons or actuators: measure again")
    return library


def apply(pose: Floats, entry: Entry) -> Floats:
    """Planar pose (..., 3) = (x, y, axis angle) after a primitive."""
    c, s = np.cos(pose[..., 2]), np.sin(pose[..., 2])
    x = pose[..., 0] + c * entry.dx_u - s * entry.dy_u
    y = pose[..., 1] + s * entry.dx_u + c * entry.dy_u
    angle = (pose[..., 2] + entry.turn_rad + np.pi) % (2.0 * np.pi) - np.pi
    moved: Floats = np.stack([x, y, angle], axis=-1)
    return moved


def undo(pose: Floats, entry: Entry) -> Floats:
    """The pose (..., 3) from which the primitive leads to `pose`: for searches that grow backwards from the goal."""
    angle = pose[..., 2] - entry.turn_rad
    c, s = np.cos(angle), np.sin(angle)
    x = pose[..., 0] - c * entry.dx_u + s * entry.dy_u
    y = pose[..., 1] - s * entry.dx_u - c * entry.dy_u
    before: Floats = np.stack([x, y, (angle + np.pi) % (2.0 * np.pi) - np.pi], axis=-1)
    return before
