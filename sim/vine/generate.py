"""Random scenes from a seed: loose clutter, narrow slots, funnels and dead ends, all free around the launch."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sim.vine.measure import obstacle_distance
from sim.vine.scene import Obstacle, Scene, box, circle, polygon, wall

LAUNCH_M = 0.036  # the first two links stay clear


def random_scene(seed: int, radius_m: float = 0.012) -> Scene:
    """One of four families by seed; the launch at the origin heads along x, every obstacle is clear of it."""
    rng = np.random.default_rng(seed)
    family = ("clutter", "slot", "funnel", "pocket")[seed % 4]
    made = {"clutter": _clutter, "slot": _slot, "funnel": _funnel, "pocket": _pocket}[family](rng, radius_m)
    launch = np.array([[0.0, 0.0], [LAUNCH_M, 0.0]])
    kept = tuple(item for item in made if obstacle_distance(launch, item) > radius_m + 1e-3)
    return Scene(f"{family}-{seed}", kept, (0.0, 0.0), 0.0, 0.0, float(rng.uniform(0.05, 0.15)), 200)


def _random_shape(rng: np.random.Generator, x: float, y: float) -> Obstacle:
    size = rng.uniform(0.008, 0.05)
    kind = rng.integers(3)
    if kind == 0:
        return circle(x, y, size)
    if kind == 1:
        return box(x - size, y - size * 0.6, 2 * size, 1.2 * size)
    corners = int(rng.integers(3, 7))
    angles = np.sort(2 * math.pi * (np.arange(corners) + rng.uniform(0.0, 0.6, corners)) / corners)
    return polygon(np.stack([x + size * np.cos(angles), y + size * np.sin(angles)], axis=1))


def _clutter(rng: np.random.Generator, radius_m: float) -> list[Obstacle]:
    places = rng.uniform([0.05, -0.25], [0.5, 0.25], (int(rng.integers(6, 16)), 2))
    return [_random_shape(rng, x, y) for x, y in places]


def _slot(rng: np.random.Generator, radius_m: float) -> list[Obstacle]:
    """Two long walls the vine barely fits between, slanted against the launch, and clutter behind."""
    slant, start = rng.uniform(-0.6, 0.6), rng.uniform(0.06, 0.12)
    half = radius_m + rng.uniform(0.0005, 0.006)
    along, across = np.array([math.cos(slant), math.sin(slant)]), np.array([-math.sin(slant), math.cos(slant)])
    length = rng.uniform(0.08, 0.3)
    mouth = np.array([start, rng.uniform(-0.01, 0.01)])
    made = []
    for side in (-1.0, 1.0):
        near = mouth + side * half * across
        thick = rng.uniform(0.005, 0.03) * side * across
        made.append(polygon([near, near + length * along, near + length * along + thick, near + thick]))
        flare = near + 0.05 * (side * across - along * 0.5)
        made.append(wall(near, flare, 0.002))
    end = mouth + (length + 0.05) * along
    return [*made, _random_shape(rng, float(end[0]), float(end[1]))]


def _funnel(rng: np.random.Generator, radius_m: float) -> list[Obstacle]:
    """Two walls closing in to a gap that may be narrower than the vine."""
    start, end = rng.uniform(0.06, 0.1), rng.uniform(0.15, 0.3)
    gap = radius_m * rng.uniform(0.5, 1.5)
    shift = rng.uniform(-0.02, 0.02)
    walls = [wall((start, side * 0.12 + shift), (end, side * gap + shift), 0.004) for side in (-1, 1)]
    return [*walls, _random_shape(rng, end + 0.08, shift + float(rng.uniform(-0.03, 0.03)))]


def _pocket(rng: np.random.Generator, radius_m: float) -> list[Obstacle]:
    """A dead end the vine fills up by buckling."""
    depth, half = rng.uniform(0.1, 0.25), rng.uniform(0.03, 0.09)
    x = rng.uniform(0.05, 0.07)
    corners = [(x, -half), (x + depth, -half), (x + depth, half), (x, half)]
    walls = [wall(a, b, 0.004) for a, b in itertools.pairwise(corners)]
    return [*walls, circle(x + depth * 0.6, float(rng.uniform(-half, half)), 0.01)]
