"""Exact clearances and joint errors of a vine, written apart from the solver's geometry, to judge the solver by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.vine.robot import Robot
from sim.vine.scene import Obstacle, Scene

Array = NDArray[np.float64]


def joints(q: Array, count: int, half: float) -> Array:
    """Points of the centre line from the first link's rear to the tip, (count + 1, 2) [m], from the headings alone."""
    t = np.stack([np.cos(q[:count, 2]), np.sin(q[:count, 2])], axis=1)
    rear = q[: count - 1, :2] - half * t[:-1]
    front = q[count - 2 : count - 1, :2] + half * t[-2:-1]
    return np.concatenate([rear, front, q[count - 1 : count, :2]])


def joint_gaps(q: Array, count: int, half: float, base: Array) -> float:
    """Largest gap between neighbouring links' ends, and of the tip from its link's line [m]."""
    t = np.stack([np.cos(q[:count, 2]), np.sin(q[:count, 2])], axis=1)
    front = np.concatenate([base[None, :2], q[: count - 1, :2] + half * t[:-1]])
    rear = q[: count - 1, :2] - half * t[:-1]
    gaps = np.hypot(*(front[:-1] - rear).T)
    offset = q[count - 1, :2] - front[-1]
    sideways = abs(t[-1, 0] * offset[1] - t[-1, 1] * offset[0])
    return float(max(gaps.max(), sideways))


def segment_distances(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Distances of segments a-b from segments c-d, all (K, 2); crossing segments have distance zero."""

    def to_segment(p: Array, s: Array, e: Array) -> Any:
        along = e - s
        length = np.maximum(np.einsum("ij,ij->i", along, along), 1e-300)
        part = np.clip(np.einsum("ij,ij->i", p - s, along) / length, 0, 1)
        return np.hypot(*(p - s - part[:, None] * along).T)

    def side(p: Array, s: Array, e: Array) -> Any:
        return (e[:, 0] - s[:, 0]) * (p[:, 1] - s[:, 1]) - (e[:, 1] - s[:, 1]) * (p[:, 0] - s[:, 0])

    near = np.minimum.reduce([to_segment(a, c, d), to_segment(b, c, d), to_segment(c, a, b), to_segment(d, a, b)])
    crossing = (side(a, c, d) * side(b, c, d) < 0) & (side(c, a, b) * side(d, a, b) < 0)
    return np.where(crossing, 0.0, near)


def obstacle_distance(line: Array, obstacle: Obstacle) -> float:
    """Signed distance of a poly-line (K, 2) from an obstacle [m]; inside a polygon minus the way out of it."""
    corners = obstacle.corners
    k, v = len(line) - 1, len(corners)
    nxt = np.roll(corners, -1, axis=0)
    a, b = np.repeat(line[:-1], v, axis=0), np.repeat(line[1:], v, axis=0)
    distance = segment_distances(a, b, np.tile(corners, (k, 1)), np.tile(nxt, (k, 1))).min()
    if v > 2:
        edge = nxt - corners
        outward = np.stack([edge[:, 1], -edge[:, 0]], axis=1) / np.hypot(*edge.T)[:, None]
        deep = ((line[:, None, :] - corners) * outward).sum(axis=2).max(axis=1).min()
        if deep < 0:
            distance = deep
    return float(distance - obstacle.rounding_m)


def clearance(state: Any, b: int, scene: Scene, robot: Robot, half: float) -> float:
    """Smallest gap between robot b's skin and the scene's obstacles [m]; negative inside."""
    line = joints(state.q[b], int(state.links[b]), half)
    gaps = [obstacle_distance(line, item) for item in scene.obstacles]
    return min(gaps, default=np.inf) - robot.radius_m
