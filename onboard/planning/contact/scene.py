"""Scenes: solids as analytic primitives, their signed distance (positive in free space) and its gradient.

A scene is an array of primitives, one row each (kind, centre, world-from-solid rotation by rows, three sizes, edge
radius: 17 numbers); the free-space distance is the smallest over the rows. Shapes:
0 half space (point, outward normal), 1 box with rounded edges (centre, axes, half extents, radius),
2 cylinder with rounded rims (centre, axis as local z, radius, half height, rim radius).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.planning.contact.compiled import jit

Floats = NDArray[np.float64]
Vector = Annotated[list[float], Meta(min_length=3, max_length=3)]


class Solid(Section, frozen=True):
    """[[solids]]: one primitive. rotation_deg turns about z, then y, then x (intrinsic)."""

    shape: Literal["half_space", "box", "cylinder"]
    center_m: Vector
    rotation_deg: Vector = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    half_extents_m: Vector = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    radius_m: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    half_height_m: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    edge_radius_m: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.0


class Region(Section, frozen=True):
    """A box in which starts are drawn: worms lie flat on the surface below, heading as given."""

    low_m: Vector
    high_m: Vector
    heading_deg: Annotated[list[float], Meta(min_length=2, max_length=2)]


class Goals(Section, frozen=True):
    """Where goals are drawn: uniformly in the box, then moved onto the nearest surface."""

    low_m: Vector
    high_m: Vector


class SceneFile(Section, frozen=True):
    """A scene's file: bounds of the guide's graph, solids, and where tasks start and end."""

    format: int
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    low_m: Vector
    high_m: Vector
    solids: Annotated[list[Solid], Meta(min_length=1, max_length=64)]
    starts: Region
    goals: Goals


class Scene:
    """Solids ready for compiled code.

    Attributes:
        name: as in the file.
        solids: one row a primitive. Shape (P, 17), read-only.
        low, high: bounds of the space a guide may use. Shape (3,) [m].
        file: the parsed file, for drawing tasks and pictures.
    """

    def __init__(self, file: SceneFile, path: str) -> None:
        self.file = file
        self.name = file.name
        self.low = np.array(file.low_m, dtype=np.float64)
        self.high = np.array(file.high_m, dtype=np.float64)
        if np.any(self.high - self.low <= 0.05):
            raise ConfigError(path, "high_m", "must exceed low_m by more than 5 cm along every axis")
        rows = [_row(path, i, solid) for i, solid in enumerate(file.solids)]
        self.solids = np.array(rows, dtype=np.float64)
        self.solids.setflags(write=False)

    def distance(self, points: Floats) -> Floats:
        """Signed distance of points, shape (..., 3) [m] -> (...) [m]."""
        flat = np.ascontiguousarray(points, dtype=np.float64).reshape(-1, 3)
        out: Floats = distances(self.solids, flat).reshape(np.shape(points)[:-1])
        return out

    def gradient(self, points: Floats) -> Floats:
        """Unit direction of growing distance at points, shape (..., 3) -> (..., 3)."""
        flat = np.ascontiguousarray(points, dtype=np.float64).reshape(-1, 3)
        out: Floats = gradients(self.solids, flat).reshape(np.shape(points))
        return out


def load_scene(path: Path) -> Scene:
    """The scene in a TOML file; raises ConfigError naming file, key and range."""
    file = convert(str(path), "", read_toml(path), SceneFile)
    if file.format != 1:
        raise ConfigError(str(path), "format", f"is {file.format}; this version reads format 1")
    return Scene(file, str(path))


def _row(path: str, index: int, solid: Solid) -> list[float]:
    key = f"solids[{index}]"
    yaw, pitch, roll = np.deg2rad(solid.rotation_deg)
    cz, sz, cy, sy, cx, sx = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch), np.cos(roll), np.sin(roll)
    turn = (
        np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        @ np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    )
    edge = solid.edge_radius_m
    if solid.shape == "half_space":
        kind, size = 0, [0.0, 0.0, 0.0]
    elif solid.shape == "box":
        kind, size = 1, [extent - edge for extent in solid.half_extents_m]
    else:
        kind, size = 2, [solid.radius_m - edge, solid.half_height_m - edge, 0.0]
    needed = {0: 0, 1: 3, 2: 2}[kind]
    if any(value < 0.0 for value in size[:needed]) or (kind and max(size) + edge <= 0.0):
        raise ConfigError(path, f"{key}.edge_radius_m", f"is {edge}, must not exceed the solid's half sizes")
    return [float(kind), *solid.center_m, *turn.ravel().tolist(), *size, edge]


@jit
def distance_gradient(solids, x, y, z):  # type: ignore[no-untyped-def]
    """Signed distance and its unit gradient at one point: (D, gx, gy, gz)."""
    best, gx, gy, gz = 1e9, 0.0, 0.0, 1.0
    for i in range(solids.shape[0]):
        row = solids[i]
        dx, dy, dz = x - row[1], y - row[2], z - row[3]
        # into the solid's axes: transpose of the stored rotation
        u = row[4] * dx + row[7] * dy + row[10] * dz
        v = row[5] * dx + row[8] * dy + row[11] * dz
        w = row[6] * dx + row[9] * dy + row[12] * dz
        nu, nv, nw = 0.0, 0.0, 1.0
        if row[0] == 0.0:
            d = w
        elif row[0] == 1.0:
            d, nu, nv, nw = _box(u, v, w, row[13], row[14], row[15])
            d -= row[16]
        else:
            radial = np.sqrt(u * u + v * v)
            d, nr, _, nw = _box(radial, 0.0, w, row[13], 1e9, row[14])
            d -= row[16]
            if radial > 1e-12:
                nu, nv = nr * u / radial, nr * v / radial
            else:
                nu, nv = nr, 0.0
        if d < best:
            best = d
            gx = row[4] * nu + row[5] * nv + row[6] * nw
            gy = row[7] * nu + row[8] * nv + row[9] * nw
            gz = row[10] * nu + row[11] * nv + row[12] * nw
    return best, gx, gy, gz


@jit
def _box(u, v, w, a, b, c):  # type: ignore[no-untyped-def]
    """Signed distance and gradient of a centred box with half extents a, b, c."""
    qu, qv, qw = abs(u) - a, abs(v) - b, abs(w) - c
    su = 1.0 if u >= 0.0 else -1.0
    sv = 1.0 if v >= 0.0 else -1.0
    sw = 1.0 if w >= 0.0 else -1.0
    if qu <= 0.0 and qv <= 0.0 and qw <= 0.0:
        if qu >= qv and qu >= qw:
            return qu, su, 0.0, 0.0
        if qv >= qw:
            return qv, 0.0, sv, 0.0
        return qw, 0.0, 0.0, sw
    pu, pv, pw = max(qu, 0.0), max(qv, 0.0), max(qw, 0.0)
    d = np.sqrt(pu * pu + pv * pv + pw * pw)
    return d, su * pu / d, sv * pv / d, sw * pw / d


@jit
def distances(solids, points):  # type: ignore[no-untyped-def]
    """Signed distances of points (N, 3) -> (N,)."""
    out = np.empty(points.shape[0])
    for i in range(points.shape[0]):
        out[i] = distance_gradient(solids, points[i, 0], points[i, 1], points[i, 2])[0]
    return out


@jit
def gradients(solids, points):  # type: ignore[no-untyped-def]
    """Unit gradients at points (N, 3) -> (N, 3)."""
    out = np.empty(points.shape)
    for i in range(points.shape[0]):
        _, out[i, 0], out[i, 1], out[i, 2] = distance_gradient(solids, points[i, 0], points[i, 1], points[i, 2])
    return out
