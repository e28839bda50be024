"""An independent judge of plans: replays every motion with finer sampling against every constraint.

It shares nothing with the planner but the worm's specification and the scene's distance function: kinematics,
statics, sections and collision are written here again, in plain NumPy, from their definitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.feasibility import FeasibleSet, stand_in
from onboard.planning.contact.plan import Plan, Step
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
BETWEEN = 4  # shapes looked at between two samples of a plan's path
ARC = 13  # points along a segment's arc, its ends and its middle included


@dataclass(frozen=True)
class Violation:
    """One broken constraint: which step, how far along it (0..1), what, and by how much in the constraint's unit."""

    step: int
    share: float
    constraint: str
    where: str
    excess: float


def validate(spec: WormSpec, scene: Scene, plan: Plan, feasible: FeasibleSet | None = None) -> list[Violation]:
    """All constraints a plan breaks; an empty list means none. Constraints: adhesion, stick, hold, load, collision,
    self_collision, continuity, goal (the last only where the plan says it is complete)."""
    table = stand_in(spec) if feasible is None else feasible
    found: list[Violation] = []
    frames, shape, attached = plan.start.frames, plan.start.shape, plan.start.attached.astype(bool)
    _adhesion(spec, scene, frames, attached, -1, found)
    for index, step in enumerate(plan.steps):
        after = step.end.attached.astype(bool)
        _continuity(step, shape, index, found)
        holding = attached & after
        if not holding.any():
            found.append(Violation(index, 0.0, "hold", "all pads", 1.0))
            break
        end = _replay(spec, scene, table, frames, step, holding, index, found)
        moved = np.linalg.norm(end[:, :, 3] - step.end.frames[:, :, 3], axis=1).max()
        if moved > spec.pads.stick_m:
            found.append(Violation(index, 1.0, "continuity", "end state", float(moved)))
        _adhesion(spec, scene, step.end.frames, after, index, found)
        _load(table, spec, end, _arcs(end, step.path[-1]), step.path[-1], after, index, 1.0, found)
        frames, shape, attached = step.end.frames, step.end.shape, after
    if plan.complete:
        gap = float(np.linalg.norm(frames[-1, :, 3] - plan.goal))
        if gap > spec.search.goal_radius_m:
            found.append(Violation(len(plan.steps) - 1, 1.0, "goal", "head", gap - spec.search.goal_radius_m))
    return found


def _replay(
    spec: WormSpec, scene: Scene, table: FeasibleSet, frames: Floats, step: Step, holding: NDArray[np.bool_], index: int,
    found: list[Violation],
) -> Floats:  # fmt: skip
    """Runs one step's path and returns the frames at its end, built from the first holding pad alone."""
    root = int(np.flatnonzero(holding)[0])
    dense = [step.path[0]]
    moving = bool(np.any(step.path != step.path[0]))
    for a, b in zip(step.path[:-1], step.path[1:], strict=True) if moving else ():
        dense.extend(a + (b - a) * (k / BETWEEN) for k in range(1, BETWEEN + 1))
    now = frames
    reported: set[tuple[str, str]] = set()
    for k, shape in enumerate(dense):
        share = k / max(len(dense) - 1, 1)
        now = _chain(frames[root], shape, root)
        batch: list[Violation] = []
        for link in np.flatnonzero(holding):
            shift = float(np.linalg.norm(now[link, :, 3] - frames[link, :, 3]))
            turn = np.degrees(_angle(frames[link, :, :3].T @ now[link, :, :3]))
            if shift > spec.pads.stick_m:
                batch.append(Violation(index, share, "stick", f"link {link}", shift - spec.pads.stick_m))
            if turn > spec.pads.stick_deg:
                batch.append(Violation(index, share, "stick", f"link {link} turn", float(turn - spec.pads.stick_deg)))
        arcs = _arcs(now, shape)
        _load(table, spec, now, arcs, shape, holding, index, share, batch)
        _collisions(spec, scene, now, arcs, shape, index, share, batch)
        for violation in batch:  # each constraint once a step
            if (violation.constraint, violation.where) not in reported:
                reported.add((violation.constraint, violation.where))
                found.append(violation)
    return now


def _exp(segment: Floats) -> Floats:
    """Pose of a segment's end in its start, shape (4, 4), by Rodrigues' formula."""
    w = segment[0] * np.array([segment[1], segment[2], 0.0])
    theta = float(np.linalg.norm(w))
    axis = w / theta if theta > 1e-9 else np.array([1.0, 0.0, 0.0])
    skew = np.array([[0.0, 0.0, axis[1]], [0.0, 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    pose = np.eye(4)
    pose[:3, :3] += np.sin(theta) * skew + (1.0 - np.cos(theta)) * skew @ skew
    pose[:3, 3] = _arc(segment)[-1]
    return pose


def _arc(segment: Floats) -> Floats:
    """Points along a segment in its start's axes, (ARC, 3): a circle of radius 1 / |kappa| in the plane it bends in."""
    along = segment[0] * np.linspace(0.0, 1.0, ARC)
    kappa = float(np.hypot(segment[1], segment[2]))
    out = np.zeros((ARC, 3))
    if kappa < 1e-7:
        out[:, 2] = along
        return out
    side = np.array([segment[2], -segment[1]]) / kappa  # where it bends to
    out[:, :2] = ((1.0 - np.cos(kappa * along)) / kappa)[:, None] * side
    out[:, 2] = np.sin(kappa * along) / kappa
    return out


def _chain(root: Floats, shape: Floats, at: int) -> Floats:
    """Frames of all links, (n + 1, 3, 4), from the pose of link `at`."""
    poses = [np.vstack([root, [0.0, 0.0, 0.0, 1.0]])]
    for segment in shape[at:]:
        poses.append(poses[-1] @ _exp(segment))
    for segment in shape[:at][::-1]:
        poses.insert(0, poses[0] @ np.linalg.inv(_exp(segment)))
    return np.array(poses)[:, :3]


def _arcs(frames: Floats, shape: Floats) -> Floats:
    """World points along all segments, shape (n, ARC, 3)."""
    return np.array([_arc(shape[i]) @ frames[i, :, :3].T + frames[i, :, 3] for i in range(len(shape))])


def _angle(rotation: Floats) -> float:
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    return float(np.arctan2(0.5 * np.linalg.norm(skew), 0.5 * (np.trace(rotation) - 1.0)))


def _continuity(step: Step, shape: Floats, index: int, found: list[Violation]) -> None:
    for share, there, given in ((0.0, shape, step.path[0]), (1.0, step.end.shape, step.path[-1])):
        gap = float(np.abs(there - given).max())
        if gap > 1e-9:
            found.append(Violation(index, share, "continuity", "path end", gap))


def _adhesion(
    spec: WormSpec, scene: Scene, frames: Floats, attached: NDArray[np.bool_], index: int, found: list[Violation]
) -> None:
    for link in np.flatnonzero(attached):
        normal = frames[link, :, 0]
        pad = frames[link, :, 3] - spec.pads.offset_m * normal
        gap = abs(float(scene.distance(pad)))
        tilt = float(np.degrees(np.arccos(np.clip(normal @ scene.gradient(pad), -1.0, 1.0))))
        if gap > spec.pads.distance_tolerance_m:
            found.append(Violation(index, 1.0, "adhesion", f"link {link}", gap - spec.pads.distance_tolerance_m))
        if tilt > spec.pads.angle_tolerance_deg:
            found.append(Violation(index, 1.0, "adhesion", f"link {link} tilt", tilt - spec.pads.angle_tolerance_deg))


def _load(
    table: FeasibleSet, spec: WormSpec, frames: Floats, arcs: Floats, shape: Floats, pads: NDArray[np.bool_],
    index: int, share: float, found: list[Violation],
) -> None:  # fmt: skip
    """Every segment inside its section under the true load: two cantilever splits between anchors, the smaller one."""
    n = len(shape)
    place = frames[:, :, 3]
    middle = arcs[:, ARC // 2]
    up = -spec.gravity / np.linalg.norm(spec.gravity)
    anchors = np.flatnonzero(pads)
    for i in range(n):
        options: list[tuple[float, Floats]] = []
        left, right = anchors[anchors <= i], anchors[anchors > i]
        beyond = right.min() if right.size else n + 1
        before = left.max() if left.size else -1
        if left.size:
            masses = [(middle[j], spec.segments.mass_kg) for j in range(i, min(beyond, n))]
            masses += [(place[j], spec.links.mass_kg) for j in range(i + 1, beyond)]
            options.append((_moment(masses, place[i], spec.gravity), place[i + 1] - place[i]))
        if right.size:
            masses = [(middle[j], spec.segments.mass_kg) for j in range(max(before, 0), i + 1)]
            masses += [(place[j], spec.links.mass_kg) for j in range(before + 1, i + 1)]
            options.append((_moment(masses, place[i + 1], spec.gravity), place[i] - place[i + 1]))
        moment, chord = min(options, key=lambda option: option[0])
        gamma = np.degrees(np.arccos(np.clip(chord @ up / np.linalg.norm(chord), -1.0, 1.0)))
        matrix, bound = table.section(moment, int(gamma / 15.0 + 0.5))
        extension = (shape[i, 0] - spec.segments.length_min_m) / (spec.segments.length_max_m - spec.segments.length_min_m)
        point = np.array([extension, *(shape[i, 1:] / spec.segments.curvature_max_per_m)])
        excess = float(np.max(matrix @ point - bound))
        if moment >= table.capacity[int(gamma / 15.0 + 0.5)] or excess > 1e-9:
            found.append(Violation(index, share, "load", f"segment {i}", excess))


def _moment(masses: list[tuple[Floats, float]], pivot: Floats, gravity: Floats) -> float:
    return float(np.linalg.norm(np.sum([np.cross(p - pivot, m * gravity) for p, m in masses], axis=0)))


def _collisions(
    spec: WormSpec, scene: Scene, frames: Floats, arcs: Floats, shape: Floats, index: int, share: float, found: list[Violation]
) -> None:
    tolerance = spec.collision_tolerance_m
    pads = frames[:, :, 3] - spec.pads.offset_m * frames[:, :, 0]
    for name, points, radius in (
        ("link", frames[:, None, :, 3], spec.links.radius_m),
        ("pad of link", pads[:, None], 0.0),
        ("segment", arcs, spec.segments.radius_m),
    ):
        deepest = radius - tolerance - scene.distance(points).min(axis=1)
        for i in np.flatnonzero(deepest > 1e-9):
            found.append(Violation(index, share, "collision", f"{name} {i}", float(deepest[i])))
    line = np.vstack([arcs[0], *(arc[1:] for arc in arcs[1:])])
    along = np.concatenate([[0.0], np.cumsum(np.repeat(shape[:, 0] / (ARC - 1), ARC - 1))])
    radius = max(spec.links.radius_m, spec.segments.radius_m)
    apart = np.abs(along[:, None] - along[None, :]) > 4.0 * radius
    gaps = np.linalg.norm(line[:, None] - line[None, :], axis=2)
    near = float(np.min(np.where(apart, gaps, np.inf)))
    if near < 2.0 * radius - tolerance:
        found.append(Violation(index, share, "self_collision", "body", 2.0 * radius - tolerance - near))
