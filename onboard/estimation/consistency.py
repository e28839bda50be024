"""Which struts do not fit the others, and which rings are not flat: slow averages of normalised residuals, with hysteresis."""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.messages import Bools, Floats, Ints, SensorFlag

OWN_TROUBLE = int(SensorFlag.SATURATED | SensorFlag.NOT_FINITE | SensorFlag.BUS_ERROR)  # what a strut says of itself


@compiled
def _average(average: Floats, residual: Floats, seen: Bools, keep: float, saddle: Floats) -> tuple[float, float]:
    """Fade `average` (MN, 2) towards `residual` where `seen`; returns the largest squared norm and the strongest alternation.

    A module's alternation is what all its inclination residuals share when every second one changes its sign.
    """
    worst, n = 0.0, len(saddle)
    for i in range(len(average)):
        size2 = 0.0
        for x in range(2):
            if seen[i]:
                average[i, x] = keep * average[i, x] + (1.0 - keep) * residual[i, x]
            size2 += average[i, x] * average[i, x]
        worst = max(worst, size2)
    strongest = 0.0
    for m in range(len(average) // n):
        up = down = math.inf
        for k in range(n):
            share = saddle[k] * average[m * n + k, 0]
            up, down = min(up, share), min(down, -share)
        strongest = max(strongest, up, down)
    return worst, strongest


class Consistency:
    """Singles out struts whose direction contradicts the rest of the tower.

    A strut is left out once the average of its normalised residual (over `after_s`) exceeds `limit` and it is the worst of its
    module, and comes back when the average falls under half of that. At most one strut of a module is left out: with two
    contradicting ones nobody can tell which is right. A strut whose own flags say that its readings are cut off or broken is
    blamed before its neighbours: a fit spreads one strut's error over its module.

    alternation: what the residuals of some module's struts share with alternating sign [sigmas]: the mark of a ring that is
    not flat, on which no single strut is to blame.
    """

    def __init__(self, modules: int, saddle: Floats, limit: float, after_s: float) -> None:
        self._shape, self._saddle = (modules, len(saddle)), saddle
        self._limit, self._after_s = limit, after_s
        self.reset()

    def reset(self) -> None:
        """Trust every strut again."""
        self._average = np.zeros((self._shape[0] * self._shape[1], 2))
        self._any, self.alternation = False, 0.0
        self.excluded: Bools = np.zeros(self._shape[0] * self._shape[1], dtype=np.bool_)

    def update(self, residual: Floats, seen: Bools, flags: Ints, dt_s: float) -> None:
        """Take the residuals (MN, 2) of one tick; `seen` (MN,) are the struts that had a direction to compare.

        flags (MN,): messages.SensorFlag that the struts' sensors carry at this tick.
        """
        keep = math.exp(-max(0.0, dt_s) / self._after_s)
        worst2, self.alternation = _average(self._average, residual, seen, keep, self._saddle)
        if worst2 < self._limit**2 and not self._any:
            return
        size = np.hypot(self._average[:, 0], self._average[:, 1])
        suspect = seen & ((flags & OWN_TROUBLE) != 0)
        self.excluded &= (size > 0.5 * self._limit) | suspect
        by_module, doubtful = size.reshape(self._shape), suspect.reshape(self._shape)
        out = self.excluded.reshape(self._shape)
        for m in range(self._shape[0]):
            if by_module[m].max() > self._limit or out[m].any():
                self._blame(by_module[m], doubtful[m], out[m])
        self._any = bool(self.excluded.any())

    def to_blame(self, bad: Bools, flags: Ints) -> Bools:
        """Of the struts (MN,) that fit badly just now: in a module where some say themselves that they are in trouble, those."""
        doubtful = ((flags & OWN_TROUBLE) != 0).reshape(self._shape)
        here = bad.reshape(self._shape)
        own = here.any(axis=1) & doubtful.any(axis=1)
        blamed: Bools = np.where(own[:, None], doubtful, here).reshape(-1)
        return blamed

    def _blame(self, size: Floats, doubtful: Bools, out: Bools) -> None:
        """Decide on one module, `out` (N,) in place: a doubtful strut takes the place of one that was left out before it."""
        if doubtful.any():
            if not (out & doubtful).any():
                out[:] = False
                out[int(np.argmax(np.where(doubtful, size, -1.0)))] = True
        elif not out.any():
            out[int(np.argmax(size))] = True
