"""Obstacles of a vine's world: convex polygons, circles and walls, checked and laid out flat for the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.vine.kernels.geometry import World
from sim.vine.robot import VineError, finite


@dataclass(frozen=True)
class Obstacle:
    """A convex polygon (corners counter-clockwise, shape (V, 2) [m]) inflated by `rounding_m`."""

    corners: NDArray[np.float64]
    rounding_m: float = 0.0


def polygon(corners: Any, rounding_m: float = 0.0) -> Obstacle:
    """A convex polygon; VineError if it crosses itself, is not convex or has no area."""
    points = finite("corners", corners).reshape(-1, 2)
    if len(points) < 3:
        raise VineError(f"polygon: {len(points)} corners; a wall has two (wall), a circle one (circle)")
    after = np.roll(points, -1, axis=0)
    edges = after - points
    if np.any(np.hypot(*edges.T) < 1e-9):
        raise VineError("polygon: two corners in the same place")
    ahead = np.roll(edges, -1, axis=0)
    turns = np.arctan2(edges[:, 0] * ahead[:, 1] - edges[:, 1] * ahead[:, 0], np.einsum("ij,ij->i", edges, ahead))
    if abs(abs(turns.sum()) - 2 * math.pi) > 1e-6 or not (np.all(turns > -1e-9) or np.all(turns < 1e-9)):
        raise VineError("polygon: crosses itself or is not convex; split it into convex parts")
    if turns.sum() < 0:
        points = points[::-1]
    return Obstacle(np.ascontiguousarray(points), _rounding(rounding_m))


def box(x: float, y: float, width: float, height: float) -> Obstacle:
    """An upright box from its lower left corner."""
    if not (width > 0 and height > 0):
        raise VineError(f"box: width {width} and height {height} must be positive")
    return polygon([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])


def circle(x: float, y: float, radius_m: float) -> Obstacle:
    """A circle."""
    if not radius_m > 0:
        raise VineError(f"circle: radius {radius_m} must be positive")
    return Obstacle(finite("circle", [(x, y)]), _rounding(radius_m))


def wall(start: Any, end: Any, thickness_m: float = 0.0) -> Obstacle:
    """A straight wall; a thin one is kept from being crossed by the vine's own radius."""
    points = finite("wall", [start, end])
    if np.hypot(*(points[1] - points[0])) < 1e-6:
        raise VineError(f"wall: {points[0].tolist()} to {points[1].tolist()} has no length")
    return Obstacle(points, _rounding(0.5 * thickness_m))


def _rounding(value: float) -> float:
    if not (math.isfinite(value) and value >= 0.0):
        raise VineError(f"rounding: {value} must be finite and not negative")
    return float(value)


@dataclass(frozen=True)
class Scene:
    """A named set of obstacles with a launch: base position [m], heading and its spread [rad], growth rate [m/s]."""

    name: str
    obstacles: tuple[Obstacle, ...] = ()
    base: tuple[float, float] = (0.0, 0.0)
    heading_rad: float = 0.0
    spread_rad: float = 0.0
    rate_m_s: float = 0.15
    frames: int = 100


def world(scenes: Sequence[Scene]) -> World:
    """The kernels' flat layout; one scene for each robot (scenes may repeat)."""
    flat: list[Obstacle] = []
    ranges: dict[int, tuple[int, int]] = {}
    for scene in scenes:
        if id(scene) not in ranges:
            ranges[id(scene)] = (len(flat), len(flat) + len(scene.obstacles))
            flat += scene.obstacles
    count = np.array([len(o.corners) for o in flat], dtype=np.int64)
    corners = np.concatenate([o.corners for o in flat]) if flat else np.zeros((0, 2))
    normals = np.zeros_like(corners)
    start = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64) if flat else np.zeros(0, np.int64)
    centre, reach = np.zeros((len(flat), 2)), np.zeros(len(flat))
    for k, item in enumerate(flat):
        edges = np.roll(item.corners, -1, axis=0) - item.corners
        length = np.hypot(*edges.T)
        here = slice(start[k], start[k] + count[k])
        if count[k] > 1:
            normals[here] = np.stack([edges[:, 1], -edges[:, 0]], axis=1) / length[:, None]
        centre[k] = item.corners.mean(axis=0)
        reach[k] = np.hypot(*(item.corners - centre[k]).T).max() + item.rounding_m
    robot = np.array([ranges[id(s)] for s in scenes], dtype=np.int64).reshape(-1, 2)
    rounding = np.array([o.rounding_m for o in flat])
    shape = np.column_stack([rounding, centre, reach]).reshape(-1, 4)
    return World(robot, np.column_stack([start, count]), shape, np.hstack([corners, normals]))
