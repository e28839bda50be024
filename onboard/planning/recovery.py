"""One idea: a robot that stands on its end, or winds without getting anywhere, is noticed, and freed by a primitive.

It is apart from a planner's own ways out: it looks at where the robot is, never at a cost, and waits longer than they need. The
primitive is the one whose measured effect ends with most room around the robot; one that was tried in vain comes last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onboard.errors import EstimationError
from onboard.messages import Floats
from onboard.planning.gait import Dealing, deal
from onboard.planning.navigator import GaitOrder
from onboard.planning.planar import planar_pose, wrap
from onboard.planning.primitives import Entry, apply

TIPPED_S = 3.0  # as long as a gait lets the robot settle in an unknown posture
TIPPED_RAD = np.radians(60.0)  # the struts' mean direction above the level; rolling it stays below 35 degrees, on an end it is 90
STUCK_S = 15.0  # a planner's own escape needs up to 11 s: patience, rest step, kick
STUCK_U = 0.3  # driving covers this in less than 2 s, two primitives of no effect do not
STUCK_RAD = np.radians(15.0)
MOST_TRIES = 6  # in a row; then a person is needed
AXIS_HALF_U = 1.5  # half length of the body along its principal axis, as in the planner's settings
ROOM_ENOUGH_U = 2.0  # more room than this makes no primitive better

Kind = Literal["tipped", "stuck"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong, and the words for it. tries: primitives in a row before this one."""

    kind: Kind
    text: str
    tries: int

    @property
    def hopeless(self) -> bool:
        """Whether primitives have been tried often enough."""
        return self.tries >= MOST_TRIES


class Detector:
    """Looks at every pose of a robot that is under way."""

    def __init__(self, symmetry: Sequence[Dealing]) -> None:
        self.symmetry = symmetry
        self._path: deque[tuple[float, Floats]] = deque()
        self._tipped_s: float | None = None
        self.tries = 0

    def forget(self) -> None:
        """It is not driving now, or has just been freed: what was before does not count."""
        self._path.clear()
        self._tipped_s = None

    def look(self, t_s: float, caps_u: Floats) -> Trouble | None:
        """The trouble at `t_s` with caps (C, 3) [u]; after it has been said, only a new stretch of time counts."""
        pose = planar_pose(caps_u)
        if self._on_end(t_s, caps_u):
            self.forget()
            return self._trouble("tipped", f"standing on its end for {TIPPED_S:g} s")
        path = self._path
        if path and t_s - path[-1][0] < 0.1:
            return None
        path.append((t_s, pose))
        if t_s - path[0][0] < STUCK_S:
            return None
        poses = np.array([one for _, one in path])
        moved = float(np.linalg.norm(poses[:, :2] - pose[:2], axis=1).max())
        turned = float(np.abs(wrap(2.0 * (poses[:, 2] - pose[2])) / 2.0).max())  # an axis has no front
        path.popleft()
        if moved >= STUCK_U or turned >= STUCK_RAD:
            self.tries = 0
            return None
        self.forget()
        return self._trouble("stuck", f"moved {moved:.2f} u and turned {np.degrees(turned):.0f} degrees in {STUCK_S:g} s")

    def _on_end(self, t_s: float, caps_u: Floats) -> bool:
        axes = caps_u[1::2] - caps_u[0::2]
        mean = axes.sum(axis=0)
        rise = np.arcsin(np.clip(abs(mean[2]) / max(float(np.linalg.norm(mean)), 1e-9), 0.0, 1.0))
        if rise < TIPPED_RAD or deal(self.symmetry, caps_u) is not None:
            self._tipped_s = None
            return False
        self._tipped_s = t_s if self._tipped_s is None else self._tipped_s
        return t_s - self._tipped_s >= TIPPED_S

    def _trouble(self, kind: Kind, text: str) -> Trouble:
        trouble = Trouble(kind, text, self.tries)
        self.tries += 1
        return trouble


class Recovery:
    """Chooses primitives. gaits: those of the robot's file, start not set; entries: their measured effects, () for unknown."""

    def __init__(self, gaits: Sequence[GaitOrder], entries: Sequence[Entry]) -> None:
        if not gaits:
            raise EstimationError("a robot without primitives cannot be freed")
        self._gaits = list(gaits)
        self._effects: dict[str, Entry] = {}
        for entry in entries:  # a library begins with the robot's file's own range of each primitive
            self._effects.setdefault(entry.name, entry)
        self._tried: dict[str, int] = {}

    def order(self, trouble: Trouble, t_s: float, caps_u: Floats, world: Floats) -> GaitOrder:
        """The primitive to run from `t_s` on, with the robot at caps (C, 3) in a world (K, 16). Same questions, same answers."""
        if trouble.tries == 0:
            self._tried.clear()
        pose = planar_pose(caps_u)
        height = float(caps_u[:, 2].mean())

        def merit(gait: GaitOrder) -> tuple[int, float]:
            effect = self._effects.get(gait.name)
            after = pose if effect is None or trouble.kind == "tipped" else apply(pose, effect)
            return -self._tried.get(gait.name, 0), min(room(after, height, world), ROOM_ENOUGH_U)

        chosen = max(self._gaits, key=merit)
        self._tried[chosen.name] = self._tried.get(chosen.name, 0) + 1
        return GaitOrder(chosen.name, chosen.steps, chosen.min_u, chosen.range_u, t_s)


def room(pose: Floats, height_u: float, world: Floats) -> float:
    """Least distance [u] of the body's middle and ends, at a planar pose (3,) and a height, to the boxes of a world (K, 16).

    What lies beneath a point is ground, not an obstacle; infinite where nothing else is.
    """
    along = AXIS_HALF_U * np.array([np.cos(pose[2]), np.sin(pose[2])])
    points = np.array([[*(pose[:2] + way * along), height_u] for way in (-1.0, 0.0, 1.0)])
    boxes = world[world[:, 15] > 0.0]
    offset = points[:, None] - boxes[:, 0:3]
    local = np.einsum("pki,kij->pkj", offset, boxes[:, 6:15].reshape(-1, 3, 3))
    inside = np.abs(local) - boxes[:, 3:6]
    distance = np.linalg.norm(np.maximum(inside, 0.0), axis=-1) + np.minimum(inside.max(axis=-1), 0.0)
    beneath = (local[..., 2] > 0.0) & (inside[..., :2].max(axis=-1) <= 0.0)
    return float(np.where(beneath, np.inf, distance).min(initial=np.inf))
