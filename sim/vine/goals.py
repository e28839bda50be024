"""One idea: steering tasks from a seed: a goal 300 to 600 mm away, an obstacle on the straight line to it, clutter beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.vine.generate import LAUNCH_M
from sim.vine.measure import obstacle_distance
from sim.vine.scene import Obstacle, Scene, box, circle, polygon

GOAL_M = (0.3, 0.6)
BEARING_RAD = math.radians(30.0)
ROOM_M = 0.012  # free space around the goal beyond the tube's own radius


@dataclass(frozen=True)
class Task:
    """A scene and the goal (2,) [m] the tip is to reach; the launch is at the origin, straight ahead."""

    scene: Scene
    goal: NDArray[np.float64]


def _shape(rng: np.random.Generator, x: float, y: float, size: float) -> Obstacle:
    kind = rng.integers(3)
    if kind == 0:
        return circle(x, y, size)
    if kind == 1:
        return box(x - size, y - 0.6 * size, 2 * size, 1.2 * size)
    corners = int(rng.integers(3, 7))
    angles = 2 * math.pi * (np.arange(corners) + rng.uniform(0.0, 0.6, corners)) / corners
    return polygon(np.stack([x + size * np.cos(angles), y + size * np.sin(angles)], axis=1))


def steering_task(seed: int, radius_m: float = 0.012) -> Task:
    """The task of a seed: one obstacle of 20 to 50 mm half width across the straight line, two to six more anywhere."""
    rng = np.random.default_rng([seed, 20_240_901])
    while True:
        distance, bearing = rng.uniform(*GOAL_M), rng.uniform(-BEARING_RAD, BEARING_RAD)
        goal = distance * np.array([math.cos(bearing), math.sin(bearing)])
        across = np.array([-math.sin(bearing), math.cos(bearing)])
        middle = rng.uniform(0.35, 0.7) * goal + rng.uniform(-0.015, 0.015) * across
        obstacles = [_shape(rng, *middle, float(rng.uniform(0.02, 0.05)))]
        for place in rng.uniform([0.08, -0.3], [0.65, 0.3], (int(rng.integers(2, 7)), 2)):
            obstacles.append(_shape(rng, *place, float(rng.uniform(0.01, 0.04))))
        launch, spot = np.array([[0.0, 0.0], [LAUNCH_M, 0.0]]), np.array([goal, goal + 1e-6])
        kept = [
            item
            for k, item in enumerate(obstacles)
            if k == 0 or (obstacle_distance(launch, item) > radius_m + 1e-3 and obstacle_distance(spot, item) > radius_m + ROOM_M)
        ]
        line = np.array([np.zeros(2), goal])
        blocked = obstacle_distance(line, kept[0]) < 0.0 or _crosses(line, kept[0])
        free = obstacle_distance(launch, kept[0]) > radius_m + 1e-3 and obstacle_distance(spot, kept[0]) > radius_m + ROOM_M
        if blocked and free:
            return Task(Scene(f"goal-{seed}", tuple(kept), (0.0, 0.0), 0.0, 0.0, 0.15, 900), goal)


def _crosses(line: NDArray[np.float64], obstacle: Obstacle) -> bool:
    """Whether a straight line passes through an obstacle: some point of it lies inside."""
    spots = line[0] + np.linspace(0.0, 1.0, 301)[:, None] * (line[1] - line[0])
    return min(obstacle_distance(np.array([p, p + 1e-7]), obstacle) for p in spots) < 0.0
