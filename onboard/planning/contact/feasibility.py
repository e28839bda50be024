"""Which lengths and curvatures a loaded segment can hold: convex sections by load moment and gravity angle.

Coordinates are normalised: rho = (L - Lmin) / (Lmax - Lmin), c = (kx, ky) / curvature_max. For gravity bin g and
moment M [N m], with s = 1 - M / capacity[g], facet f demands n_f . c - s beta[g, f] rho <= s alpha[g, f]. At fixed
(M, g) this is a convex polytope in (L, kx, ky), which is what the inverse kinematics freezes (paper, V-C3).
Without stiffening the four-chamber stand-in gives exactly 12 facets: |cx| + |cy| <= 4 rho, |cx| + |cy| <= 4 (1 - rho),
|c_j| <= 1 (reference measurement), times s under load.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onboard.config import Section
from onboard.errors import ConfigError
from onboard.planning.contact.compiled import jit
from onboard.planning.contact.kinematics import segment
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
BINS = 13  # gravity angle 0, 15, ... 180 degrees
BIN_RAD = np.pi / 12.0
_DIAGONAL = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]
_AXES = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)]
TEMPLATE = np.array(_DIAGONAL + _DIAGONAL + _AXES)


@dataclass(frozen=True)
class FeasibleSet:
    """Facets by gravity bin.

    Attributes:
        normals: facet normals in normalised curvature. Shape (F, 2).
        alpha, beta: offset and slope along rho of each facet. Shape (13, F).
        capacity: moment at which nothing is feasible any more. Shape (13,) [N m].
    """

    normals: Floats
    alpha: Floats
    beta: Floats
    capacity: Floats

    def section(self, moment_n_m: float, bin_index: int) -> tuple[Floats, Floats]:
        """(A, b) of the section A (rho, cx, cy) <= b; empty when the moment exceeds the capacity."""
        scale = 1.0 - moment_n_m / self.capacity[bin_index]
        matrix = np.column_stack([-scale * self.beta[bin_index], self.normals])
        return matrix, scale * self.alpha[bin_index]


class _TableFile(Section, frozen=True):
    format: int
    normals: list[list[float]]
    alpha: list[list[float]]
    beta: list[list[float]]
    capacity_n_m: list[float]


def capacities(spec: WormSpec) -> Floats:
    """Moment capacity at the 13 gravity angles, capacity * (mean + cosine * cos(gamma)). Shape (13,) [N m]."""
    load = spec.load
    out: Floats = load.capacity_n_m * (load.mean + load.cosine * np.cos(BIN_RAD * np.arange(BINS)))
    return out


def stand_in(spec: WormSpec) -> FeasibleSet:
    """The feasible set named in the worm's file, or the exact one of four chambers without stiffening."""
    if spec.load.table:
        return load_table((Path(spec.file).parent / spec.load.table).resolve())
    if spec.segments.stiffening > 0.0:
        raise ConfigError(spec.file, "load.table", "is required where segments.stiffening is not 0: fit one first")
    alpha = np.tile(np.array([0.0] * 4 + [4.0] * 4 + [1.0] * 4), (BINS, 1))
    beta = np.tile(np.array([4.0] * 4 + [-4.0] * 4 + [0.0] * 4), (BINS, 1))
    return FeasibleSet(TEMPLATE.copy(), alpha, beta, capacities(spec))


def load_table(path: Path) -> FeasibleSet:
    """A fitted set from its JSON file; raises ConfigError when it is not one or has an empty section."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_TableFile)
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(str(path), "", f"is not a feasible set: {error}") from error
    arrays = [np.array(a, dtype=np.float64) for a in (file.normals, file.alpha, file.beta, file.capacity_n_m)]
    facets = len(file.normals)
    shapes: list[tuple[int, ...]] = [(facets, 2), (BINS, facets), (BINS, facets), (BINS,)]
    for name, array, shape in zip(("normals", "alpha", "beta", "capacity_n_m"), arrays, shapes, strict=True):
        if array.shape != shape or not np.all(np.isfinite(array)):
            raise ConfigError(str(path), name, f"has shape {array.shape}, must be {shape} and finite")
    table = FeasibleSet(*arrays)
    if np.any(table.capacity <= 0.0) or np.any(table.alpha + 0.5 * table.beta <= 0.0):
        raise ConfigError(str(path), "alpha", "leaves a straight, half extended segment outside its feasible set")
    return table


def save_table(table: FeasibleSet, path: Path) -> None:
    """Writes a set so that `load_table` reads it."""
    content: dict[str, Any] = {
        "format": 1,
        "normals": table.normals.tolist(),
        "alpha": table.alpha.tolist(),
        "beta": table.beta.tolist(),
        "capacity_n_m": table.capacity.tolist(),
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))


@jit
def gravity_bin(dx, dy, dz, gravity):  # type: ignore[no-untyped-def]
    """Bin of the angle between a chord and the upward direction, 15 degrees a bin, centred on multiples."""
    size = np.sqrt(dx * dx + dy * dy + dz * dz) * np.sqrt(gravity[0] ** 2 + gravity[1] ** 2 + gravity[2] ** 2)
    cosine = -(dx * gravity[0] + dy * gravity[1] + dz * gravity[2]) / max(size, 1e-12)
    return int(np.arccos(min(1.0, max(-1.0, cosine))) / BIN_RAD + 0.5)


@jit
def load_moments(body, frames, shape, attached, moments, bins):  # type: ignore[no-untyped-def]
    """Load moment [N m] and gravity bin of every segment for a set of attached pads (paper, V-C2).

    A segment carries the weights on its unsupported side about its anchored end; between two anchors it takes the
    smaller of its two cantilever splits. A segment's mass acts at the middle of its arc. The chord runs from the
    carrying end. frames (n + 1, 3, 4), shape (n, 3), attached (n + 1,); moments (n,) and bins (n,) are written.
    """
    n = shape.shape[0]
    middle, half = np.empty((n, 3)), np.empty((3, 4))
    for i in range(n):
        segment(0.5 * shape[i, 0], shape[i, 1], shape[i, 2], half)
        for k in range(3):
            f = frames[i]
            middle[i, k] = f[k, 0] * half[0, 3] + f[k, 1] * half[1, 3] + f[k, 2] * half[2, 3] + f[k, 3]
    forward, backward = 1, -1
    for i in range(n):
        left, right = -1, n + 1
        for j in range(i, -1, -1):
            if attached[j]:
                left = j
                break
        for j in range(i + 1, n + 1):
            if attached[j]:
                right = j
                break
        ahead, behind = np.inf, np.inf
        if left >= 0:
            ahead = _moment(body, frames, middle, i, i, forward, i + 1, min(right, n + 1))
        if right <= n:
            behind = _moment(body, frames, middle, i + 1, i, backward, i, max(left, -1))
        start, end = (i, i + 1) if ahead <= behind else (i + 1, i)
        moments[i] = min(ahead, behind)
        bins[i] = gravity_bin(
            frames[end, 0, 3] - frames[start, 0, 3],
            frames[end, 1, 3] - frames[start, 1, 3],
            frames[end, 2, 3] - frames[start, 2, 3],
            body.gravity,
        )


@jit
def _moment(body, frames, middle, pivot, first, step, link, stop):  # type: ignore[no-untyped-def]
    """|sum (p_j - p_pivot) x m_j g| over segments first.. and links link.. up to, not including, link `stop`."""
    sx, sy, sz = 0.0, 0.0, 0.0
    i, j = first, link
    while j != stop:
        sx += body.segment_mass * (middle[i, 0] - frames[pivot, 0, 3]) + body.link_mass * (frames[j, 0, 3] - frames[pivot, 0, 3])
        sy += body.segment_mass * (middle[i, 1] - frames[pivot, 1, 3]) + body.link_mass * (frames[j, 1, 3] - frames[pivot, 1, 3])
        sz += body.segment_mass * (middle[i, 2] - frames[pivot, 2, 3]) + body.link_mass * (frames[j, 2, 3] - frames[pivot, 2, 3])
        i += step
        j += step
    if 0 <= i < middle.shape[0]:  # the segment that hangs between the last counted link and the far anchor
        sx += body.segment_mass * (middle[i, 0] - frames[pivot, 0, 3])
        sy += body.segment_mass * (middle[i, 1] - frames[pivot, 1, 3])
        sz += body.segment_mass * (middle[i, 2] - frames[pivot, 2, 3])
    g = body.gravity
    mx, my, mz = sy * g[2] - sz * g[1], sz * g[0] - sx * g[2], sx * g[1] - sy * g[0]
    return np.sqrt(mx * mx + my * my + mz * mz)


@jit
def section(body, moment, bin_index, matrix, bound):  # type: ignore[no-untyped-def]
    """Facets of one segment's section, A (rho, cx, cy) <= b, into matrix (F, 3) and bound (F,); its scale s."""
    scale = 1.0 - moment / body.capacity[bin_index]
    for f in range(bound.shape[0]):
        matrix[f, 0] = -scale * body.beta[bin_index, f]
        matrix[f, 1], matrix[f, 2] = body.normals[f, 0], body.normals[f, 1]
        bound[f] = scale * body.alpha[bin_index, f]
    return scale


@jit
def slack(body, length, kx, ky, moment, bin_index):  # type: ignore[no-untyped-def]
    """Smallest facet slack of a segment under load: negative means it cannot hold that shape."""
    scale = 1.0 - moment / body.capacity[bin_index]
    if scale <= 0.0:
        return scale - 1e-9
    rho = (length - body.length_min) / body.length_span
    cx, cy = kx / body.curvature, ky / body.curvature
    least = np.inf
    for f in range(body.normals.shape[0]):
        room = scale * (body.alpha[bin_index, f] + body.beta[bin_index, f] * rho)
        room -= body.normals[f, 0] * cx + body.normals[f, 1] * cy
        least = min(least, room)
    return least
