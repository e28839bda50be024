"""One idea: run a gait from measurements, one command at a time: a list of cable targets, each wound to by a tracking loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from onboard.messages import Floats
from onboard.planning.navigator import GaitOrder

SLACK_U = 1e-9


class TrackingLaw(Protocol):
    """Gains and ends of the tracking loop, from the robot's file."""

    @property
    def proportional(self) -> float: ...
    @property
    def integral(self) -> float: ...
    @property
    def derivative(self) -> float: ...
    @property
    def error_done(self) -> float: ...
    @property
    def length_done_u(self) -> float: ...
    @property
    def step_limit_s(self) -> float: ...
    @property
    def settle_s(self) -> float: ...


class Dealing(Protocol):
    """Which entry of a step each cable takes when these caps are the lower ones."""

    @property
    def lower_caps(self) -> Sequence[tuple[int, int, int]]: ...
    @property
    def order(self) -> Sequence[int]: ...


def deal(symmetry: Sequence[Dealing], caps: Floats) -> Sequence[int] | None:
    """The order for caps (C, 3) by the lower cap of each strut; None when the robot stands in no known way."""
    lower = tuple(int(i + (caps[i + 1, 2] < caps[i, 2])) for i in range(0, len(caps), 2))
    for item in symmetry:
        if lower in item.lower_caps:
            return item.order
    return None


class CableTracker:
    """PID on the relative cable length, one instance a gait step: e = (length - min) / range - target."""

    def __init__(self, gait: TrackingLaw, target: Floats, min_u: Floats | float, range_u: Floats | float) -> None:
        self.gait, self.target = gait, np.asarray(target, dtype=float)
        self.min_u, self.range_u = min_u, range_u
        self.done = np.zeros(self.target.size, dtype=bool)
        self._sum = np.zeros(self.target.size)
        self._last: Floats | None = None

    def command(self, length_u: Floats, rest_u: Floats) -> Floats:
        """Motor commands (nu,) for the measured lengths; a cable that has arrived stays off, a slack one is not let out."""
        error = (length_u - self.min_u) / self.range_u - self.target
        self._sum = self._sum + error
        change = np.zeros(self.target.size) if self._last is None else error - self._last
        self._last = error
        gait = self.gait
        u: Floats = np.clip(gait.proportional * error + gait.integral * self._sum + gait.derivative * change, -1.0, 1.0)
        off = np.abs(length_u - (self.min_u + self.range_u * self.target))
        arrived = (np.abs(error) < gait.error_done) & (off < gait.length_done_u)
        short = (self.target == 0.0) & (length_u < self.min_u)
        self.done |= arrived | short
        u[self.done] = 0.0
        slack = length_u < rest_u - SLACK_U
        u[slack & (u < 0.0)] = 0.0
        return u


class GaitPlayer:
    """Plays one order: rest, its steps, rest; targets are dealt out anew before each step by which caps are down."""

    def __init__(self, law: TrackingLaw, symmetry: Sequence[Dealing], step_s: float) -> None:
        self.law, self.symmetry, self.step_s = law, symmetry, step_s
        self.order: GaitOrder | None = None
        self.timeouts = 0
        self._steps: list[tuple[float, ...]] = []
        self._tracker: CableTracker | None = None
        self._ticks, self._settling = 0, 0

    @property
    def running(self) -> bool:
        """Whether an order is being played."""
        return self.order is not None

    def start(self, order: GaitOrder) -> None:
        """Begin an order; one that is being played is dropped."""
        rest = (1.0,) * len(order.range_u)
        self.order, self._steps = order, [rest, *order.steps, *([rest] if order.steps else [])]
        self._tracker, self._ticks, self._settling = None, 0, -1

    def stop(self) -> None:
        """Drop what is being played."""
        self.order = None

    def command(self, caps: Floats, length_u: Floats, rest_u: Floats) -> Floats | None:
        """Motor commands (nu,) of this tick from caps (C, 3), cable lengths and rest lengths (nu,) [u]; None at the end."""
        if self.order is None:
            return None
        still = np.zeros(len(length_u))
        if self._tracker is None:
            if not self._steps:
                self.order = None
                return None
            dealt = deal(self.symmetry, caps)
            if dealt is None and self._settling != 0:
                # let it settle and look again; after that the steps are taken as they stand
                self._settling = round(self.law.settle_s / self.step_s) if self._settling < 0 else self._settling - 1
                return still
            step = self._steps.pop(0)
            order = dealt if dealt is not None else range(len(length_u))
            self._tracker = CableTracker(self.law, np.array([step[k] for k in order]), self.order.min_u, self.order.range_u)
            self._ticks, self._settling = round(self.law.step_limit_s / self.step_s), -1
        u = self._tracker.command(length_u, rest_u)
        self._ticks -= 1
        if self._tracker.done.all() or self._ticks <= 0:
            self.timeouts += int(not self._tracker.done.all())
            self._tracker = None
        return u
