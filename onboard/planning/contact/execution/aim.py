"""Correcting one step of a plan: the same contact change, solved and checked again from where the worm really is."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.body import Record, make_body, make_weights
from onboard.planning.contact.execution.ports import Floats
from onboard.planning.contact.expansion import COUNTS
from onboard.planning.contact.motion import OK, REASONS, SAMPLES
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.transition import transition
from onboard.planning.contact.worm import WormSpec

START_GRACE_M, START_GRACE_DEG = 0.003, 12.0  # how much worse than planned a pad that already holds may sit
# shares of load capacity and curvature, and of a segment's range at either end, that plans for execution leave to control:
# a plan at the edge of the feasible set cannot be tracked (paper, V-E3)
CAPACITY, CURVATURE, RANGE = 0.8, 0.9, 0.05


def planning_spec(spec: WormSpec) -> WormSpec:
    """The worm as plans for execution see it: pads land closer than they need to, and segments keep room for control."""
    assert spec.execution is not None
    span = spec.segments.length_max_m - spec.segments.length_min_m
    segments = msgspec.structs.replace(
        spec.segments,
        length_min_m=spec.segments.length_min_m + RANGE * span,
        length_max_m=spec.segments.length_max_m - RANGE * span,
        curvature_max_per_m=CURVATURE * spec.segments.curvature_max_per_m,
    )
    load = msgspec.structs.replace(spec.load, capacity_n_m=CAPACITY * spec.load.capacity_n_m)
    pads = msgspec.structs.replace(
        spec.pads, distance_tolerance_m=spec.execution.landing_m, angle_tolerance_deg=spec.execution.landing_deg
    )
    return msgspec.structs.replace(spec, pads=pads, segments=segments, load=load)


def lenient_spec(spec: WormSpec) -> WormSpec:
    """The worm for a second try: a body may start, and so pass, where it already touches."""
    return msgspec.structs.replace(spec, collision_tolerance_m=spec.collision_tolerance_m + START_GRACE_M)


def measured_body(spec: WormSpec) -> Record:
    """The worm as a measured start is judged: a pad that seals holds, whatever noise says about its place."""
    pads = msgspec.structs.replace(
        spec.pads,
        distance_tolerance_m=spec.pads.distance_tolerance_m + START_GRACE_M,
        angle_tolerance_deg=spec.pads.angle_tolerance_deg + START_GRACE_DEG,
    )
    return make_body(msgspec.structs.replace(lenient_spec(spec), pads=pads))


@dataclass(frozen=True)
class Aim:
    """A motion to carry out: shapes on the way (T, n, 3), and the moving link's pose at its end (3, 4)."""

    path: Floats
    pose: Floats
    link: int


class Aimer:
    """Solves steps for one worm in one scene."""

    def __init__(self, spec: WormSpec, scene: Scene) -> None:
        self._spec, self._scene = spec, scene
        self._bodies = (make_body(planning_spec(spec)), make_body(lenient_spec(spec)))
        self._weights = make_weights(spec)

    def aim(
        self, state: State, holding: NDArray[np.uint8], link: int, pose: Floats, landing: bool, press_m: float
    ) -> tuple[Aim | None, str]:
        """The motion that brings `link` from `state` to a planned pose (3, 4) while `holding` stays, and why there is none.

        A landing aims at the surface next to the planned pad, `press_m` into it. Close landings are tried first.
        """
        target = self._onto(pose, press_m) if landing else pose
        n = len(state.shape)
        frames, shape, path = np.empty_like(state.frames), np.empty((n, 3)), np.empty((SAMPLES + 1, n, 3))
        reason = OK
        for body in self._bodies:
            reason = transition(
                body, self._weights, self._scene.solids, state.frames, state.shape, holding, link, landing, target,
                frames, shape, path, np.zeros(COUNTS, dtype=np.int64),
            )  # fmt: skip
            if reason == OK:
                return Aim(path, frames[link].copy(), link), ""
        return None, REASONS[reason]

    def landed(self, frame: Floats, distance_m: float, angle_deg: float) -> bool:
        """Whether a link's pad is within a distance and an angle of a surface."""
        normal = frame[:, 0]
        pad = frame[:, 3] - self._spec.pads.offset_m * normal
        cosine = float(normal @ self._scene.gradient(pad))
        return abs(float(self._scene.distance(pad))) <= distance_m and cosine >= np.cos(np.deg2rad(angle_deg))

    def _onto(self, pose: Floats, press_m: float) -> Floats:
        """A pose with its pad flat on the surface next to it, heading kept."""
        pad = pose[:, 3] - self._spec.pads.offset_m * pose[:, 0]
        normal = self._scene.gradient(pad)
        ahead = pose[:, 2] - normal * (pose[:, 2] @ normal)
        size = float(np.linalg.norm(ahead))
        if size < 0.3:
            return pose
        ahead = ahead / size
        place = pad + normal * (self._spec.pads.offset_m - press_m - self._scene.distance(pad))
        return np.column_stack([normal, np.cross(ahead, normal), ahead, place])
