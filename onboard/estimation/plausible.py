"""Which inclinations cannot follow from the ones before: a strut does not turn faster than any gyroscope of it could say."""

from __future__ import annotations

import math

import numpy as np

from onboard.messages import Bools, Floats

FASTEST_RAD_S = 35.0  # 2000 degrees/s, the widest range of the struts' gyroscopes
SHORTEST_TICK_S = 0.0125  # estimators run at 80 Hz; between ticks closer together a reading may still be one sample younger
KNOWN_S = 0.1  # of readings that follow from each other before others are measured against them
NEW_S = 0.5  # a reading that jumped and then stays is the strut's new one after this long
FORGET_S = 0.2  # after a silence this long any reading may follow
UNIT_TOLERANCE = 0.05  # of a direction's length


class Plausible:
    """Lets a strut's reading through when it could follow from the last one let through, or nothing better is known.

    When most struts jump at once, nothing of that tick is believed: what could follow does so by chance.
    For estimators that have no robust loss of their own. State: struts' last good and last seen inclinations [rad].
    """

    def __init__(self, struts: int) -> None:
        self._good, self._seen = np.full(struts, math.nan), np.full(struts, math.nan)
        self._heard_s, self._steady_s = np.full(struts, -math.inf), np.full(struts, -math.inf)
        self._known = np.zeros(struts, dtype=np.bool_)
        self._last_s: float | None = None

    def update(self, t_s: float, direction: Floats, usable: Bools) -> Bools:
        """Of the `usable` readings (n,) of `direction` (n, 3) at `t_s`: those let through."""
        with np.errstate(over="ignore", invalid="ignore"):
            unit = usable & (np.abs(np.linalg.norm(direction, axis=1) - 1.0) <= UNIT_TOLERANCE)
            angle = np.where(unit, np.arccos(np.clip(direction[:, 2], -1.0, 1.0)), math.nan)
        tick_s = SHORTEST_TICK_S if self._last_s is None else max(t_s - self._last_s, SHORTEST_TICK_S)
        self._last_s = t_s
        reach = FASTEST_RAD_S * tick_s
        self._known &= t_s - self._heard_s <= FORGET_S
        self._heard_s[unit] = t_s
        follows = unit & (~self._known | (np.abs(angle - self._good) <= reach))
        moved = ~(np.abs(angle - self._seen) <= reach)
        self._steady_s[unit & moved] = t_s
        steady_s = t_s - self._steady_s
        through: Bools = follows | (unit & (steady_s >= NEW_S))
        if 2 * np.count_nonzero(through) < np.count_nonzero(usable):
            through = np.zeros_like(through)
        self._known |= through & (steady_s >= KNOWN_S)
        self._good[through] = angle[through]
        self._seen = np.where(unit, angle, self._seen)
        return through
