"""Which struts do not fit the others: slow averages of each strut's normalised residual, with hysteresis."""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.messages import Bools, Floats


@compiled
def _average(average: Floats, residual: Floats, seen: Bools, keep: float) -> float:
    """Fade `average` (MN, 2) towards `residual` where `seen`; returns the largest squared norm."""
    worst = 0.0
    for i in range(len(average)):
        size2 = 0.0
        for x in range(2):
            if seen[i]:
                average[i, x] = keep * average[i, x] + (1.0 - keep) * residual[i, x]
            size2 += average[i, x] * average[i, x]
        worst = max(worst, size2)
    return worst


class Consistency:
    """Singles out struts whose direction contradicts the rest of the tower.

    A strut is left out once the average of its normalised residual (over `after_s`) exceeds `limit` and it is the worst of its
    module, and comes back when the average falls under half of that. At most one strut of a module is left out: with two
    contradicting ones nobody can tell which is right.
    """

    def __init__(self, modules: int, n: int, limit: float, after_s: float) -> None:
        self._shape = (modules, n)
        self._limit, self._after_s = limit, after_s
        self.reset()

    def reset(self) -> None:
        """Trust every strut again."""
        self._average = np.zeros((self._shape[0] * self._shape[1], 2))
        self._any = False
        self.excluded: Bools = np.zeros(self._shape[0] * self._shape[1], dtype=np.bool_)

    def update(self, residual: Floats, seen: Bools, dt_s: float) -> None:
        """Take the residuals (MN, 2) of one tick; `seen` (MN,) are the struts that had a direction to compare."""
        worst2 = _average(self._average, residual, seen, math.exp(-max(0.0, dt_s) / self._after_s))
        if worst2 < self._limit**2 and not self._any:
            return
        size = np.hypot(self._average[:, 0], self._average[:, 1])
        self.excluded &= size > 0.5 * self._limit
        by_module = size.reshape(self._shape)
        out = self.excluded.reshape(self._shape)
        for m in range(self._shape[0]):
            worst = int(np.argmax(by_module[m]))
            if by_module[m, worst] > self._limit and not out[m].any():
                out[m, worst] = True
        self._any = bool(self.excluded.any())
