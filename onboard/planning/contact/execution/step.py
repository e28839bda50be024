"""One step of a plan carried out: take the load over, let go, measure, move, land, and wait for the seal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.body import Record
from onboard.planning.contact.execution.aim import Aim, Aimer
from onboard.planning.contact.execution.estimate import ChainEstimate, turn_between
from onboard.planning.contact.execution.ports import Flags, Floats
from onboard.planning.contact.plan import State, Step
from onboard.planning.contact.worm import WormSpec

PRESS_M = 0.001  # every further attempt to seal aims this much deeper
STEADY_SHARE = 0.7  # of the tracking limits: beyond them the motion waits for the body
SEAT_S = 0.3


class Phase(Enum):
    """What a step is doing."""

    PREPARE = "prepare"
    RELEASE = "release"
    AIM = "aim"
    MOVE = "move"
    SETTLE = "settle"
    SEAL = "seal"
    SEAT = "seat"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Want:
    """What execution asks for now.

    shape: of the segments (n, 3). holding: pads that carry the weights (n + 1,). suction: pads with vacuum on (n + 1,).
    active: segments whose error is integrated (n,).
    """

    shape: Floats
    holding: NDArray[np.uint8]
    suction: Flags
    active: Flags


class StepRun:
    """Runs one step; `phase` is DONE or FAILED at its end, `reason` then says why, `spoiled` where no seal came about."""

    def __init__(self, spec: WormSpec, body: Record, aimer: Aimer, step: Step, held: Flags, want: Want) -> None:
        assert spec.execution is not None
        self._spec, self._numbers, self._body, self._aimer, self.step, self._want = spec, spec.execution, body, aimer, step, want
        self.holding = held.astype(np.uint8)
        if step.released >= 0:
            self.holding[step.released] = 0
        self.phase = Phase.PREPARE if step.released >= 0 else Phase.AIM
        self.reason = ""
        self.spoiled: Floats | None = None
        self.corrections, self.attempts = 0, 0
        self._since_s: float | None = None
        self._aim: Aim | None = None
        self._share, self._waited_s = 0.0, 0.0

    def tick(self, t_s: float, dt_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        """Advances by one tick; the wish of the executor is updated in place. sealed, vacuum [Pa]: shape (n + 1,)."""
        if self._since_s is None:
            self._since_s = t_s
        act = {
            Phase.PREPARE: self._prepare, Phase.RELEASE: self._release, Phase.AIM: self._aiming, Phase.SETTLE: self._settle,
            Phase.SEAL: self._seal, Phase.SEAT: self._seat,
        }.get(self.phase)  # fmt: skip
        if self.phase is Phase.MOVE:
            self._move(dt_s, estimate)
        elif act is not None:
            act(t_s - self._since_s, estimate, sealed, vacuum)

    def pause(self, dt_s: float) -> None:
        """Shifts the step's own time-outs: nothing is judged while poses are missing."""
        if self._since_s is not None:
            self._since_s += dt_s

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since_s = phase, None

    def _fail(self, reason: str) -> None:
        self.reason = reason
        self._enter(Phase.FAILED)

    def _prepare(self, for_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        """Pressures take over what the pad still carries; then it may go, if the others are known to hold."""
        self._want.holding = self.holding
        if for_s >= self._numbers.prepare_s and np.all(sealed[self.holding.astype(bool)]):
            self._enter(Phase.RELEASE)
        elif for_s > self._numbers.prepare_s + self._numbers.seal_s:
            self._fail("a pad that has to stay is not sealed")

    def _release(self, for_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        self._want.suction[self.step.released] = False
        self._want.active = self._free_segments()
        if vacuum[self.step.released] < self._numbers.released_pa:
            self._enter(Phase.AIM)
        elif for_s > 2.0 * self._numbers.seal_s:
            self._want.suction[self.step.released] = True
            self._fail("a pad does not let go")

    def _aiming(self, for_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        """After a moment's rest the same contact change is solved from where the worm is."""
        self._want.active = self._free_segments()
        if for_s < self._numbers.steady_s:
            return
        step = self.step
        if step.attached < 0 and float(np.abs(step.path[-1] - step.path[0]).max()) < 1e-9:
            self._enter(Phase.DONE)
            return
        link = step.attached if step.attached >= 0 else step.released
        state = estimate.state(self._body, self.holding)
        pose = step.end.frames[link]
        aim, why = self._aimer.aim(state, self.holding, link, pose, step.attached >= 0, PRESS_M * self.attempts)
        if aim is None:
            self._fail(f"the step cannot be corrected ({why})")
            return
        self._aim, self._share, self._waited_s = aim, 0.0, 0.0
        self._enter(Phase.MOVE)

    def _move(self, dt_s: float, estimate: ChainEstimate) -> None:
        assert self._aim is not None
        path, numbers = self._aim.path, self._numbers
        if self._tracks(estimate):
            self._share = min(1.0, self._share + dt_s / max(self._duration(path), dt_s))
            self._waited_s = 0.0
        else:
            self._waited_s += dt_s
            if self._waited_s > numbers.settle_s:
                self._fail("the body does not follow (drift)")
                return
        at = self._share * (len(path) - 1)
        k = min(int(at), len(path) - 2)
        self._want.shape = path[k] + (at - k) * (path[k + 1] - path[k])
        if self._share >= 1.0:
            self._enter(Phase.SETTLE)

    def _settle(self, for_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        assert self._aim is not None
        step, numbers = self.step, self._numbers
        frame = estimate.frames[self._aim.link]
        gap = float(np.linalg.norm(frame[:, 3] - self._aim.pose[:, 3]))
        if step.attached < 0:
            # where exactly a link hovers does not matter: the step that lands it is solved from where it is
            if for_s > (numbers.steady_s if gap < numbers.drift_m else numbers.settle_s):
                self._enter(Phase.DONE)
            return
        near = gap < 0.5 * numbers.drift_m and turn_between(frame[:, :3], self._aim.pose[:, :3]) < np.deg2rad(numbers.drift_deg)
        if near and for_s > numbers.steady_s and self._aimer.landed(frame, numbers.landing_m, numbers.landing_deg):
            self._enter(Phase.SEAL)
        elif for_s > numbers.settle_s:
            pads = self._spec.pads
            if self.corrections < numbers.corrections:
                self.corrections += 1
                self._enter(Phase.AIM)
            elif self._aimer.landed(frame, pads.distance_tolerance_m, pads.angle_tolerance_deg):
                self._enter(Phase.SEAL)
            else:
                self._fail("a pad does not reach the surface (drift)")

    def _seal(self, for_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        pad = self.step.attached
        self._want.suction[pad] = True
        if sealed[pad]:
            self._enter(Phase.SEAT)
        elif for_s > self._numbers.seal_s:
            self._want.suction[pad] = False
            self.attempts += 1
            if self.attempts > self._numbers.corrections:
                self.spoiled = estimate.frames[pad, :, 3].copy()
                self._fail("a pad does not seal")
            else:
                self._enter(Phase.AIM)

    def _seat(self, for_s: float, estimate: ChainEstimate, sealed: Flags, vacuum: Floats) -> None:
        """The pad has taken its place: from here the measured shape is the one to keep."""
        self._want.active = np.zeros(len(estimate.shape), dtype=bool)
        if for_s >= SEAT_S:
            self._want.shape = estimate.shape.copy()
            self._enter(Phase.DONE)

    def _free_segments(self) -> Flags:
        """Segments that may move: those of a tail or head block, and of a block whose inner link is off."""
        held = np.flatnonzero(self.holding)
        n = len(self.holding) - 1
        index = np.arange(n)
        between = np.array([np.any(held <= i) and np.any(held > i) for i in range(n)])
        adjacent = self.holding[index].astype(bool) & self.holding[index + 1].astype(bool)
        out: Flags = ~between | ~adjacent
        return out

    def _tracks(self, estimate: ChainEstimate) -> bool:
        wanted, now, numbers = self._want.shape, estimate.shape, self._numbers
        length = float(np.abs(wanted[:, 0] - now[:, 0]).max())
        turn = float(np.abs(wanted[:, :1] * wanted[:, 1:] - now[:, :1] * now[:, 1:]).max())
        return length < STEADY_SHARE * numbers.drift_m and turn < STEADY_SHARE * np.deg2rad(numbers.drift_deg)

    def _duration(self, path: Floats) -> float:
        length = float(np.abs(np.diff(path[:, :, 0], axis=0)).sum(axis=0).max())
        angle = path[:, :, :1] * path[:, :, 1:]
        turn = float(np.abs(np.diff(angle, axis=0)).sum(axis=0).max())
        return max(length / self._numbers.length_m_per_s, float(np.rad2deg(turn)) / self._numbers.rotation_deg_per_s)


def state_gap(planned: State, frames: Floats, pads: Flags) -> tuple[float, float]:
    """How far the pads in `pads` are from a planned state: largest distance [m] and angle [rad]."""
    indices = np.flatnonzero(pads)
    if indices.size == 0:
        return 0.0, 0.0
    away = max(float(np.linalg.norm(frames[i, :, 3] - planned.frames[i, :, 3])) for i in indices)
    turned = max(turn_between(frames[i, :, :3], planned.frames[i, :, :3]) for i in indices)
    return away, turned
