"""Synthetic tracked data with the faults of video: noise, missing frames, uneven point counts, pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offboard.vine.problem import Problem
from offboard.vine.shape import Target, centre_line
from offboard.vine.tracks import Trial, pad
from sim.vine import Obstacle, Robot, VineError

Array = NDArray[np.float64]


def excitation(kind: int, frames: int, dt_s: float = 1 / 90) -> tuple[Array, Array]:
    """(times, base poses) of a shaken base: stiffness shows only when something pushes; a resting base tells nothing."""
    times = dt_s * np.arange(frames + 1)
    rate = (1.6, 2.3, 2.0, 2.8)[kind % 4]
    phase = 2 * math.pi * rate * times
    heading = (0.45, 0.35, -0.4, 0.3)[kind % 4] * np.sin(phase) + 0.05 * kind
    side = 0.004 * np.sin(0.7 * phase + kind)
    return times, np.stack([np.zeros_like(times), side - side[0], heading], axis=1)


def synthetic_trial(
    robot: Robot,
    growth_m_s: float,
    kind: int,
    frames: int = 100,
    walls: tuple[Obstacle, ...] = (),
    noise_m: float = 0.0,
    missing: float = 0.0,
    pixel_m: float = 0.0,
    every: int = 3,
    seed: int = 0,
) -> Trial:
    """One growth of a known robot, tracked every few frames; with `pixel_m` its lengths are pixels."""
    rng = np.random.default_rng(seed)
    times, base = excitation(kind, frames)
    blank = Trial(str(kind), times[[0, -1]], Target(np.zeros((2, 2, 2)), np.array([2, 2])), times, base, walls)
    problem = Problem(robot, [blank], (), growth_m_s)
    packed = problem.start()
    packed[0] = 0.031 / robot.half_length_m
    unknowns = problem.unpack(packed)
    run, _ = problem.simulate(unknowns, frames, tape=False)
    lines: list[Array] = []
    stamps: list[float] = []
    start = problem.straight(robot, base[:1], unknowns.length_m, run.q.shape[2])
    for frame in range(-1, frames, every):
        if frame >= 0 and rng.random() < missing:
            continue
        q, links = (start.q, start.links) if frame < 0 else (run.q[frame], run.links[frame])
        line, corners = centre_line(q, links, robot.half_length_m)
        lines.append(_track(line[0, : corners[0]], rng, noise_m))
        stamps.append((frame + 1) / 90)
    scale = 1 / pixel_m if pixel_m else 1.0
    base = base * [scale, scale, 1.0]
    target = pad([line * scale for line in lines])
    return Trial(str(kind), np.array(stamps), target, times, base, walls, not pixel_m)


def _track(line: Array, rng: Any, noise_m: float) -> Array:
    """Points along a line as a tracker gives them: uneven in number and place, ends included."""
    steps = np.hypot(*np.diff(line, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    count = int(rng.integers(8, 25))
    places = np.sort(np.concatenate([[0.0, along[-1]], rng.uniform(0, along[-1], count)]))
    points = np.stack([np.interp(places, along, line[:, k]) for k in range(2)], axis=1)
    return points + noise_m * rng.normal(size=points.shape)


def truth(law: str) -> tuple[Robot, float]:
    """A robot to be recovered and its growth rate [m/s]."""
    if law == "linear":
        return Robot(mass_kg=0.004, inertia_kg_m2=4e-7, stiffness_nm=0.05, damping_nms=1e-3), 0.13
    if law == "wrinkling":
        robot = Robot(law="wrinkling", mass_kg=0.01, inertia_kg_m2=1e-6, damping_nms=1e-3, pressure_pa=1.0e4)
        return robot, 0.13
    raise VineError(f"no synthetic truth for {law!r}")
