"""One idea: a model is used only when its manifest, its bytes and the robot's file agree; every refusal says why."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from onboard.config import Section
from onboard.errors import ModelError

FORMAT = 1
MAX_MODEL_BYTES = 64_000_000
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_POINTER = b"version https://git-lfs"


class Port(Section, frozen=True):
    """One input or output of the network, in order."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    shape: Annotated[list[Annotated[int, Meta(ge=1, le=1_000_000)]], Meta(max_length=8)]
    dtype: Literal["float32"]
    unit: str


class StrutMotors(Section, frozen=True):
    """The motor law that the planner integrates outside the network: lengths in the plant's unit u, speeds in rad/s."""

    max_speed_rad_s: Annotated[float, Meta(gt=0.0, le=1e6)]
    spool_radius_u: Annotated[float, Meta(gt=0.0, le=1e3)]
    rest_min_u: Annotated[float, Meta(ge=0.0, le=1e3)]
    rest_max_u: Annotated[float, Meta(gt=0.0, le=1e3)]


class Manifest(Section, frozen=True):
    """models_onnx/<robot>/<name>.json.

    tile: samples a call; chunks of chunk_steps steps of step_s a call; normalisation: scales inside the network, for
    information; data_hash, commit: what it was made from. motors: of strut robots only.
    """

    format: Literal[1]
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    robot: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    file: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\.onnx$")]
    onnx_sha256: Hash
    onnx_bytes: Annotated[int, Meta(ge=1, le=MAX_MODEL_BYTES)]
    opset: Annotated[int, Meta(ge=1, le=1000)]
    physics_hash: Hash
    data_hash: Hash
    commit: str
    inputs: list[Port]
    outputs: list[Port]
    tile: Annotated[int, Meta(ge=1, le=100_000)]
    chunks: Annotated[int, Meta(ge=1, le=1000)]
    chunk_steps: Annotated[int, Meta(ge=2, le=1000)]
    step_s: Annotated[float, Meta(gt=0.0, le=1.0)]
    world_rows: Annotated[int, Meta(ge=1, le=1000)]
    normalisation: dict[str, list[float]]
    parameters: Annotated[int, Meta(ge=1)]
    motors: StrutMotors | None = None

    @property
    def horizon_s(self) -> float:
        """Time one call covers."""
        return self.chunks * self.chunk_steps * self.step_s


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A manifest and the bytes that it vouches for."""

    manifest: Manifest
    onnx: bytes
    path: Path


def load_model_file(path: Path, robot: str, physics_hash: str, sha256: str | None = None) -> ModelFile:
    """Read the manifest at `path` and the model beside it.

    `sha256` is the robot's file's pin of the model, None for none. Raises ModelError with the reason: missing, damaged,
    cut off, changed, of another robot or another file of this robot, a newer format, or a Git LFS pointer.
    """
    raw = _read(path)
    try:
        manifest = msgspec.json.decode(raw, type=Manifest, strict=True)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not a manifest of format {FORMAT}: {error}") from error
    if manifest.robot != robot:
        raise ModelError(f"{path}: is a model of robot {manifest.robot!r}, not of {robot!r}")
    if manifest.physics_hash != physics_hash:
        raise ModelError(
            f"{path}: was trained for other bodies, tendons or actuators (physics {manifest.physics_hash[:12]}, the robot's "
            f"file has {physics_hash[:12]}): train again or go back to the robot's file it belongs to"
        )
    model_path = path.with_name(manifest.file)
    onnx = _read(model_path)
    if len(onnx) != manifest.onnx_bytes:
        raise ModelError(f"{model_path}: has {len(onnx)} bytes, its manifest says {manifest.onnx_bytes}: cut off or another file")
    found = hashlib.sha256(onnx).hexdigest()
    if found != manifest.onnx_sha256:
        raise ModelError(
            f"{model_path}: sha256 {found[:12]} is not its manifest's {manifest.onnx_sha256[:12]}: damaged or changed"
        )
    if sha256 is not None and found != sha256:
        raise ModelError(f"{model_path}: sha256 {found[:12]} is not the one that the robot's file pins, {sha256[:12]}")
    return ModelFile(manifest, onnx, path)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_MODEL_BYTES:
            raise ModelError(f"{path}: has {path.stat().st_size} bytes, at most {MAX_MODEL_BYTES} are read")
        raw = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    if raw.startswith(_POINTER):
        raise ModelError(f"{path}: is a Git LFS pointer, not the file itself: run git lfs pull")
    if not raw:
        raise ModelError(f"{path}: is empty")
    return raw
