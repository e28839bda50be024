"""The guiding surface path: a smooth line near the surface, and the pad poses a worm may aim at along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard.errors import PlanningError
from onboard.planning.contact.guide_search import shortest_path
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.worm import GuideNumbers, WormSpec

Floats = NDArray[np.float64]
SPACING_M = 0.005
SMOOTHING_M = 0.06
STRAIGHTENING_M = 0.5  # over this length the line is evened out within the surface
LATERAL_M = (0.0, 0.015, -0.015)
_RING = 8


@dataclass(frozen=True)
class Guide:
    """A guide from a worm's tail to its goal.

    Attributes:
        line: points at equal spacing, near pad height. Shape (S, 3) [m].
        along: arc length from the tail. Shape (S,) [m].
        targets: link poses with the pad on the surface, for the lateral offsets 0, +1.5, -1.5 cm. Shape (S, 3, 3, 4):
            columns pad normal, sideways, tangent, position.
        valid: whether the ring of the pad lies on the surface there. Shape (S, 3), 0 or 1.
        cost: of the voxel path, in the weights of the worm's file.
    """

    line: Floats
    along: Floats
    targets: Floats
    valid: NDArray[np.uint8]
    cost: float


def make_guide(scene: Scene, spec: WormSpec, body: Floats, goal: Floats) -> Guide:
    """The guide from a body's links, tail first, shape (n, 3) [m], to a goal on a surface, shape (3,) [m].

    Raises:
        PlanningError: the goal is in the air, inside matter or outside the scene, or no surface path leads there.
    """
    check_goal(scene, spec, goal)
    voxels, cost = voxel_path(scene, spec.guide, body[-1], goal, body[-1] - body[-2])
    distance, outward = scene.distance(goal), scene.gradient(goal)
    end = goal + (spec.pads.offset_m - distance) * outward
    line = resample(np.vstack([body, voxels[1:-1], end[None]]), SPACING_M)
    line = resample(_smooth(line, round(SMOOTHING_M / SPACING_M / 2)), SPACING_M)
    for _ in range(2):
        line = resample(_straighten(scene, line), SPACING_M)
    targets, valid = _targets(scene, spec, line)
    length = float(np.linalg.norm(np.diff(line, axis=0), axis=1).sum())
    along: Floats = np.linspace(0.0, length, len(line), dtype=np.float64)
    return Guide(line, along, targets, valid, cost)


def check_goal(scene: Scene, spec: WormSpec, goal: Floats) -> None:
    """Raises PlanningError unless the goal lies within reach of a surface inside the scene."""
    if np.shape(goal) != (3,) or not np.all(np.isfinite(goal)):
        raise PlanningError(f"the goal must be three finite coordinates in metres, not {goal}")
    if np.any(goal < scene.low - 0.02) or np.any(goal > scene.high + 0.02):
        raise PlanningError(f"the goal {_text(goal)} lies outside the scene {scene.name}")
    distance = float(scene.distance(goal))
    if distance < -spec.pads.distance_tolerance_m:
        raise PlanningError(f"the goal {_text(goal)} lies {-distance:.3f} m inside matter")
    if distance > spec.search.goal_radius_m:
        raise PlanningError(f"the goal {_text(goal)} hangs in the air, {distance:.3f} m from any surface")


def voxel_path(
    scene: Scene, numbers: GuideNumbers, start: Floats, goal: Floats, heading: Floats | None = None
) -> tuple[Floats, float]:
    """Centres of the cheapest path's voxels, shape (T, 3) [m], and its cost; PlanningError where there is none.

    heading (3,) is the direction in which a body lies behind the start: turning away from it costs like any turn.
    """
    ahead = np.zeros(3) if heading is None else heading / np.linalg.norm(heading)
    voxel = numbers.voxel_m
    counts = np.maximum(1, np.round((scene.high - scene.low) / voxel)).astype(np.int64)
    axes = [scene.low[i] + voxel * (np.arange(counts[i]) + 0.5) for i in range(3)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    distance = scene.distance(centres)
    usable = ((distance >= numbers.band_min_m) & (distance <= numbers.band_max_m)).astype(np.uint8)
    near = np.flatnonzero(usable)
    if near.size == 0:
        raise PlanningError(f"the scene {scene.name} has no space between {numbers.band_min_m} m and the band's top")
    normal = np.zeros_like(centres)
    normal[near] = scene.gradient(centres[near])
    ends = []
    for name, point in (("start", start), ("goal", goal)):
        gap = np.linalg.norm(centres[near] - point, axis=1)
        best = int(np.argmin(gap))
        if gap[best] > numbers.band_max_m + 2.0 * voxel:
            raise PlanningError(f"the {name} {_text(point)} is {gap[best]:.3f} m from any place a guide may pass")
        ends.append(int(near[best]))
    weights = np.array([numbers.length, numbers.lift, numbers.sharp, numbers.normal, numbers.bend, numbers.non_coplanar])
    path, cost, _ = shortest_path(
        scene.solids, scene.low, counts, voxel, distance, normal, usable, ends[0], ends[1], ahead, weights,
        numbers.history, numbers.labels == "direction", numbers.scaling == "length",
    )  # fmt: skip
    if len(path) == 0:
        raise PlanningError(f"no surface path leads from {_text(start)} to the goal {_text(goal)}")
    return centres[path], float(cost)


def resample(points: Floats, spacing: float) -> Floats:
    """The same polyline, shape (N, 3), from end to end at the equal spacing nearest to the one asked for."""
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    keep = np.concatenate([[True], steps > 1e-9])
    points, steps = points[keep], steps[steps > 1e-9]
    along = np.concatenate([[0.0], np.cumsum(steps)])
    at = np.linspace(0.0, along[-1], max(1, round(along[-1] / spacing)) + 1)
    return np.column_stack([np.interp(at, along, points[:, i]) for i in range(3)])


def _smooth(line: Floats, half: int) -> Floats:
    """Centred moving average; the window shrinks towards the ends, which stay."""
    total = np.vstack([np.zeros(3), np.cumsum(line, axis=0)])
    index = np.arange(len(line))
    width = np.minimum(half, np.minimum(index, len(line) - 1 - index))
    out: Floats = (total[index + width + 1] - total[index - width]) / (2 * width + 1)[:, None]
    return out


def _straighten(scene: Scene, line: Floats) -> Floats:
    """Evens out turns within the surface only: a voxel path swerves in a few steps, often right at a corner, where a
    worm then has to fold and turn at once. Turns of the surface itself stay as sharp as they are."""
    normal = scene.gradient(line)
    wide = _smooth(line, round(STRAIGHTENING_M / SPACING_M / 2))
    side = _unit(np.cross(normal, np.gradient(wide, axis=0)))
    out: Floats = line + side * np.sum((wide - line) * side, axis=1, keepdims=True)
    return out


def _targets(scene: Scene, spec: WormSpec, line: Floats) -> tuple[Floats, NDArray[np.uint8]]:
    count = len(line)
    targets, valid = np.zeros((count, 3, 3, 4)), np.zeros((count, 3), dtype=np.uint8)
    forward = np.gradient(line, axis=0)
    angle = 2.0 * np.pi * np.arange(_RING) / _RING
    for index, lateral in enumerate(LATERAL_M):
        normal = scene.gradient(line)
        tangent = _unit(forward - normal * np.sum(forward * normal, axis=1, keepdims=True))
        point = line + lateral * np.cross(normal, tangent)
        normal = scene.gradient(point)
        tangent = _unit(tangent - normal * np.sum(tangent * normal, axis=1, keepdims=True))
        side = np.cross(tangent, normal)  # x normal, y side, z tangent: right-handed
        surface = point - normal * scene.distance(point)[:, None]
        targets[:, index, :, 0], targets[:, index, :, 1], targets[:, index, :, 2] = normal, side, tangent
        targets[:, index, :, 3] = surface + spec.pads.offset_m * normal
        ring = surface[:, None] + spec.pads.ring_radius_m * (
            np.cos(angle)[None, :, None] * side[:, None] + np.sin(angle)[None, :, None] * tangent[:, None]
        )
        on_surface = np.all(np.abs(scene.distance(ring)) <= spec.pads.distance_tolerance_m, axis=1)
        inside = np.all((surface >= scene.low - 1e-6) & (surface <= scene.high + 1e-6), axis=1)
        valid[:, index] = on_surface & inside & (np.linalg.norm(tangent, axis=1) > 0.5)
    return targets, valid


def _unit(vectors: Floats) -> Floats:
    size = np.linalg.norm(vectors, axis=1, keepdims=True)
    out: Floats = np.where(size > 1e-9, vectors / np.maximum(size, 1e-12), 0.0)
    return out


def _text(point: Floats) -> str:
    return "(" + ", ".join(f"{value:.3f}" for value in point) + ") m"
