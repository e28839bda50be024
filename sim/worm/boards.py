"""The boards of the simulated worm: valves with lag, dead time and play, and a suction board that keeps its last sealed pad."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.worm import ExecutionNumbers
from sim.worm.faults import Faults, Imperfections

Floats = NDArray[np.float64]
VACUUM_PA = 50_000.0  # a tight pad at full vacuum
PUMP_S, VENT_S, LEAK_S, WEAK_S = 0.12, 0.08, 0.7, 3.0
WEAK_SHARE = 0.65  # of full vacuum while a seal only weakens


class ValveBoard:
    """Chamber pressures (n, 4) [units] behind dead time, lag and play; on silence the last command stays."""

    def __init__(self, imperfections: Imperfections, pressures: Floats) -> None:
        self._i = imperfections
        self.pressure, self.effective = pressures.copy(), pressures.copy()
        self._queue: deque[tuple[float, Floats]] = deque()
        self._wanted = pressures.copy()

    def command(self, t_s: float, pressures: Floats) -> None:
        """A command that arrived at t_s."""
        self._queue.append((t_s + self._i.delay_s, pressures.copy()))

    def advance(self, t_s: float, dt_s: float) -> None:
        """Pressures after dt_s more."""
        while self._queue and self._queue[0][0] <= t_s:
            self._wanted = self._queue.popleft()[1]
        self.pressure += (self._wanted * self._i.gain - self.pressure) * (1.0 - np.exp(-dt_s / self._i.lag_s))
        half = 0.5 * self._i.hysteresis  # play: deformation follows pressure only past its own slack
        self.effective = np.clip(self.effective, self.pressure - half, self.pressure + half)


class SuctionBoard:
    """Vacuum of n + 1 pads. Refuses to vent its last sealed pad, whatever it is told; on silence it changes nothing."""

    def __init__(
        self, numbers: ExecutionNumbers, imperfections: Imperfections, faults: Faults, on: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._numbers, self._i, self._faults, self._rng = numbers, imperfections, faults, rng
        self.on = on.copy()
        self.vacuum_pa = np.where(on, VACUUM_PA, 0.0)
        self.tight = on.copy()  # whether this grip of the pad seals; drawn anew at every touch
        self._leak_until_s = np.zeros(len(on))
        self._total = np.zeros(len(on), dtype=bool)
        self._tried = on.copy()
        self.refused = 0

    @property
    def sealed(self) -> NDArray[np.bool_]:
        """Pads that hold. Shape (n + 1,)."""
        out: NDArray[np.bool_] = self.on & (self.vacuum_pa >= self._numbers.seal_pa)
        return out

    def command(self, on: NDArray[np.bool_]) -> None:
        """Switches pads; the last sealed one stays on."""
        self.on |= on
        for pad in np.flatnonzero(self.on & ~on):
            others = self.sealed.copy()
            others[pad] = False
            if not others.any() and self.sealed[pad]:
                self.refused += 1
                continue
            self.on[pad] = False

    def advance(self, t_s: float, dt_s: float, quality: Floats) -> None:
        """quality (n + 1,): 1 for a pad flat on a surface, 0 for one past its tolerances; seals and leaks follow from it."""
        for pad in range(len(self.on)):
            touching = quality[pad] > 0.0
            if self.on[pad] and touching and not self._tried[pad]:
                self._tried[pad] = True
                self.tight[pad] = self._rng.uniform(0.0, 100.0) < self._i.seal_pct * min(1.0, 0.5 + quality[pad])
            elif not self.on[pad] or not touching:
                self._tried[pad], self.tight[pad] = False, False
            if self.tight[pad] and self._rng.uniform() < self._i.leak_per_s * dt_s and t_s > self._leak_until_s[pad]:
                self._leak_until_s[pad] = t_s + WEAK_S
                self._total[pad] = self._rng.uniform(0.0, 100.0) < self._i.total_pct
            leaking = t_s < self._leak_until_s[pad]
            goal, time_s = (VACUUM_PA, PUMP_S) if self.on[pad] and self.tight[pad] else (0.0, VENT_S)
            if self.on[pad] and self.tight[pad] and leaking:
                goal, time_s = (0.0 if self._total[pad] else WEAK_SHARE * VACUUM_PA), LEAK_S
            if pad in self._faults.dead_pads or pad in self._faults.leaking:
                goal, time_s = 0.0, LEAK_S
            self.vacuum_pa[pad] += (goal - self.vacuum_pa[pad]) * (1.0 - np.exp(-dt_s / time_s))
