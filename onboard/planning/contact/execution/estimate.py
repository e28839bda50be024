"""The worm's state from noisy link poses: one chain of screw motions that fits them best, smoothed over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard.errors import NotANumberError
from onboard.planning.contact.body import Record
from onboard.planning.contact.execution.ports import Floats, PoseReading
from onboard.planning.contact.feasibility import load_moments, slack
from onboard.planning.contact.kinematics import chain, chain_jacobian
from onboard.planning.contact.plan import State

POSITION_M, ROTATION_RAD = 0.001, 0.01  # what counts as one in the fit
_ITERATIONS = 2  # every reading starts from the last fit
# a state handed to the planner keeps this much room in every section: with less, the load that changes along the first
# motion already leaves it
_ROOM = 0.04


class ChainEstimate:
    """Fits every new reading, starting from the last fit, and smooths shapes with a time constant of smoothing_s.

    shape: fitted (n, 3); frames: links of that chain (n + 1, 3, 4); residual_m: root mean square distance to the reading.
    """

    def __init__(self, start: State, smoothing_s: float) -> None:
        self.shape, self.frames = start.shape.copy(), start.frames.copy()
        self.residual_m = 0.0
        self.t_s: float | None = None
        self._smoothing_s = smoothing_s

    def update(self, reading: PoseReading) -> None:
        """Takes a reading in; one that is not newer is ignored.

        Raises:
            NotANumberError: the reading holds values that are not finite; the estimate stays as it was.
        """
        if not (np.isfinite(reading.t_s) and np.all(np.isfinite(reading.frames))):
            raise NotANumberError("a pose reading holds values that are not finite")
        if self.t_s is not None and reading.t_s <= self.t_s:
            return
        root, shape, residual = fit_chain(reading.frames, self.frames[0], self.shape)
        share = 1.0 if self.t_s is None else 1.0 - float(np.exp(-(reading.t_s - self.t_s) / self._smoothing_s))
        self.shape = self.shape + share * (shape - self.shape)
        root = _blend(self.frames[0], root, share)
        chain(root, self.shape, self.frames)
        self.residual_m, self.t_s = residual, reading.t_s

    def state(self, body: Record, attached: NDArray[np.uint8]) -> State:
        """The estimate as a state a planner accepts: shapes pulled into their sections where noise put them outside.

        Attached links, and links between them, stay where they were measured; free ends follow from the shapes.
        """
        shape, frames = self.shape.copy(), self.frames.copy()
        n = len(shape)
        moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
        anchors = np.flatnonzero(attached)
        for _ in range(3):
            load_moments(body, frames, shape, attached, moments, bins)
            for i in range(n):
                rho = np.clip((shape[i, 0] - body["length_min"]) / body["length_span"], 0.5 * _ROOM, 1.0 - 0.5 * _ROOM)
                shape[i, 0] = body["length_min"] + rho * body["length_span"]
                for _ in range(40):
                    if slack(body, *shape[i], moments[i], bins[i]) >= _ROOM:
                        break
                    shape[i, 1:] *= 0.95
                    shape[i, 0] += 0.02 * (body["length_min"] + 0.5 * body["length_span"] - shape[i, 0])
            if anchors.size:
                first, last = int(anchors[0]), int(anchors[-1])
                frames[:first] = _around(self.frames[first], shape, first)[:first]
                frames[last + 1 :] = _around(self.frames[last], shape, last)[last + 1 :]
        return State(frames, shape, attached.copy())


def fit_chain(measured: Floats, root: Floats, shape: Floats) -> tuple[Floats, Floats, float]:
    """Least squares of a chain against link poses (n + 1, 3, 4) by Gauss-Newton from a guess.

    Returns its root (3, 4), its shapes (n, 3), and the root mean square distance of its links to the measured ones [m].
    """
    n = len(shape)
    root, shape = root.copy(), shape.copy()
    frames, jacobian = np.empty((n + 1, 3, 4)), np.zeros((6, 3 * n))
    for _ in range(_ITERATIONS):
        chain(root, shape, frames)
        rows, rest = np.zeros((6 * (n + 1), 6 + 3 * n)), np.zeros(6 * (n + 1))
        for i in range(n + 1):
            chain_jacobian(frames, shape, i, jacobian)
            lever = frames[i, :, 3] - root[:, 3]
            at = slice(6 * i, 6 * i + 3)
            turn = slice(6 * i + 3, 6 * i + 6)
            rows[at, :3], rows[at, 3:6], rows[at, 6:] = np.eye(3), -_cross(lever), jacobian[:3]
            rows[turn, 3:6], rows[turn, 6:] = np.eye(3), jacobian[3:]
            rest[at] = measured[i, :, 3] - frames[i, :, 3]
            rest[turn] = _vector(measured[i, :, :3] @ frames[i, :, :3].T)
            rows[at] /= POSITION_M
            rest[at] /= POSITION_M
            rows[turn] /= ROTATION_RAD
            rest[turn] /= ROTATION_RAD
        step = np.linalg.solve(rows.T @ rows + 1e-9 * np.eye(rows.shape[1]), rows.T @ rest)
        root[:, 3] += step[:3]
        root[:, :3] = _rotation(step[3:6]) @ root[:, :3]
        shape += step[6:].reshape(n, 3)
        shape[:, 0] = np.maximum(shape[:, 0], 1e-3)
    chain(root, shape, frames)
    return root, shape, float(np.sqrt(np.mean(np.sum((frames[:, :, 3] - measured[:, :, 3]) ** 2, axis=1))))


def turn_between(first: Floats, second: Floats) -> float:
    """Angle between two rotations (3, 3) [rad]."""
    return float(np.linalg.norm(_vector(first @ second.T)))


def _around(anchor_frame: Floats, shape: Floats, anchor: int) -> Floats:
    """Frames of a chain whose link `anchor` has the given pose."""
    frames = np.empty((len(shape) + 1, 3, 4))
    origin = np.hstack([np.eye(3), np.zeros((3, 1))])
    chain(origin, shape, frames)
    turn = anchor_frame[:, :3] @ frames[anchor, :, :3].T
    root = np.column_stack([turn, anchor_frame[:, 3] - turn @ frames[anchor, :, 3]])
    chain(root, shape, frames)
    return frames


def _blend(old: Floats, new: Floats, share: float) -> Floats:
    out = np.empty((3, 4))
    out[:, 3] = old[:, 3] + share * (new[:, 3] - old[:, 3])
    out[:, :3] = _rotation(share * _vector(new[:, :3] @ old[:, :3].T)) @ old[:, :3]
    return out


def _cross(v: NDArray[np.floating[Any]]) -> Floats:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _vector(rotation: Floats) -> Floats:
    """Rotation vector of a rotation matrix; exact below half a turn."""
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    sine, cosine = 0.5 * float(np.linalg.norm(skew)), 0.5 * (float(np.trace(rotation)) - 1.0)
    angle = float(np.arctan2(sine, cosine))
    return 0.5 * skew if sine < 1e-9 else skew * (angle / (2.0 * sine))


def _rotation(vector: NDArray[np.floating[Any]]) -> Floats:
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3) + _cross(vector)
    k = _cross(vector / angle)
    out: Floats = np.eye(3) + np.sin(angle) * k + (1.0 - np.cos(angle)) * (k @ k)
    return out
