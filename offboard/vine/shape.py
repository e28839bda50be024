"""Robust distance between a vine's shape and tracked points, both ways, with its gradient.

Data to model: every tracked point to the nearest place on the centre line. Model to data: every joint to the nearest
place on the line through the tracked points, less the height of an arc over the gap there. Each distance r costs
2 s^2 (sqrt(1 + (r/s)^2) - 1), about r^2 below s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SOFT_M = 3e-3  # s: outliers beyond it count linearly
LEAST_BEND_M = 0.1  # bending radius whose arc over a gap between tracked points the joints may stand off by


@dataclass(frozen=True)
class Target:
    """Tracked points of F frames, padded: points (F, K, 2) [m], counts (F,)."""

    points: Array
    counts: NDArray[np.int64]


def centre_line(q: Array, links: NDArray[np.int64], half: float) -> tuple[Array, NDArray[np.int64]]:
    """Joint positions (F, N + 1, 2), padded, and how many count (links + 1) for poses q (F, N, 3)."""
    frames, most = q.shape[:2]
    t = np.stack([np.cos(q[..., 2]), np.sin(q[..., 2])], axis=-1)
    line = np.zeros((frames, most + 1, 2))
    line[:, :most] = q[..., :2] - half * t
    row = np.arange(frames)
    line[row, links - 1] = q[row, links - 2, :2] + half * t[row, links - 2]
    line[row, links] = q[row, links - 1, :2]
    return line, links + 1


def centre_line_adjoint(by_line: Array, q: Array, links: NDArray[np.int64], half: float) -> Array:
    """Cotangent (F, N, 3) of the poses for a cotangent of `centre_line`'s positions."""
    frames, most = q.shape[:2]
    row = np.arange(frames)
    normal = np.stack([-np.sin(q[..., 2]), np.cos(q[..., 2])], axis=-1)
    out = np.zeros_like(q)
    full = np.arange(most)[None, :] < (links - 1)[:, None]
    rear = np.where(full[..., None], by_line[:, :most], 0.0)
    out[..., :2] = rear
    out[..., 2] = -half * np.einsum("fnk,fnk->fn", rear, normal)
    front = by_line[row, links - 1]
    out[row, links - 2, :2] += front
    out[row, links - 2, 2] += half * np.einsum("fk,fk->f", front, normal[row, links - 2])
    out[row, links - 1, :2] += by_line[row, links]
    return out


def _nearest(points: Array, line: Array, counts: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64], Array]:
    """Offsets (F, K, 2) of points (F, K, 2) from poly-lines (F, L, 2), the segment and the place (0 to 1) on it."""
    start, along = line[:, :-1], np.diff(line, axis=1)
    length2 = np.maximum(np.einsum("fsk,fsk->fs", along, along), 1e-18)
    offset = points[:, :, None] - start[:, None]
    part = np.clip(np.einsum("fpsk,fsk->fps", offset, along) / length2[:, None], 0.0, 1.0)
    away = offset - part[..., None] * along[:, None]
    distance2 = np.einsum("fpsk,fpsk->fps", away, away)
    distance2[np.broadcast_to((np.arange(along.shape[1]) >= counts[:, None] - 1)[:, None], distance2.shape)] = np.inf
    best = distance2.argmin(axis=2)
    pick = best[..., None]
    place = np.take_along_axis(part, pick, 2)[..., 0]
    return np.take_along_axis(away, pick[..., None], 2)[:, :, 0], best, place


def _cost(offset: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Cost per frame (F,), mean over points, and its gradient by the offsets."""
    count = np.maximum(mask.sum(axis=1), 1)
    root = np.sqrt(1.0 + np.einsum("fpk,fpk->fp", offset, offset) / SOFT_M**2)
    cost = np.where(mask, 2 * SOFT_M**2 * (root - 1.0), 0.0).sum(axis=1) / count
    gradient = np.where(mask[..., None], 2.0 * offset / root[..., None], 0.0) / count[:, None, None]
    return cost, gradient


def distance(q: Array, links: NDArray[np.int64], half: float, target: Target) -> tuple[Array, Array]:
    """Cost per frame (F,) [m^2] and its gradient by the poses (F, N, 3)."""
    line, corners = centre_line(q, links, half)
    by_line = np.zeros_like(line)
    frames = np.arange(len(q))[:, None]
    seen = np.arange(target.points.shape[1]) < target.counts[:, None]
    offset, segment, place = _nearest(target.points, line, corners)
    cost, gradient = _cost(offset, seen)
    np.add.at(by_line, (frames, segment), -(1.0 - place)[..., None] * gradient)
    np.add.at(by_line, (frames, segment + 1), -place[..., None] * gradient)
    counting = np.arange(line.shape[1]) < corners[:, None]
    offset, segment, _ = _nearest(line, target.points, target.counts)
    gaps = np.hypot(*np.moveaxis(np.diff(target.points, axis=1), -1, 0))
    allowed = np.take_along_axis(gaps, segment, 1) ** 2 / (8 * LEAST_BEND_M)
    allowed[np.arange(len(q)), corners - 1] = 0.0  # the tip
    size = np.maximum(np.hypot(offset[..., 0], offset[..., 1]), 1e-15)
    back, gradient = _cost(offset * np.maximum(1.0 - allowed / size, 0.0)[..., None], counting)
    by_line += gradient
    return cost + back, centre_line_adjoint(by_line, q, links, half)


def shape_errors(q: Array, links: NDArray[np.int64], half: float, target: Target) -> Array:
    """Mean distance of each frame's tracked points from the centre line (F,) [m]."""
    line, corners = centre_line(q, links, half)
    seen = np.arange(target.points.shape[1]) < target.counts[:, None]
    offset, _, _ = _nearest(target.points, line, corners)
    return np.where(seen, np.hypot(offset[..., 0], offset[..., 1]), 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)


def lie_on(line: Array, corners: NDArray[np.int64], arc: Array) -> Array:
    """Points (F, K, 2) at arc lengths (F, K) along poly-lines (F, L, 2); beyond the end, the end."""
    out = np.empty((*arc.shape, 2))
    for f in range(len(line)):
        points = line[f, : corners[f]]
        along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
        for k in range(2):
            out[f, :, k] = np.interp(arc[f], along, points[:, k])
    return out


def places(q: Array, links: NDArray[np.int64], half: float, target: Target) -> tuple[Array, Array, Array]:
    """Where the tracked points sit: arc lengths (F, K), unit normals (F, K, 2) and normal offsets (F, K) [m].

    The last point of a frame is the tip; its arc length is infinite.
    """
    line, corners = centre_line(q, links, half)
    offset, segment, part = _nearest(target.points, line, corners)
    frames = np.arange(len(q))
    steps = np.hypot(*np.moveaxis(np.diff(line, axis=1), -1, 0))
    along = np.concatenate([np.zeros((len(q), 1)), np.cumsum(steps, axis=1)], axis=1)
    arc = np.take_along_axis(along, segment, 1) + part * np.take_along_axis(steps, segment, 1)
    arc[frames, target.counts - 1] = np.inf
    heading = np.arctan2(*np.moveaxis(np.diff(line, axis=1), -1, 0)[::-1])
    angle = np.take_along_axis(heading, segment, 1)
    normal = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    return arc, normal, np.einsum("fkd,fkd->fk", offset, normal)
