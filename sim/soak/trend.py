"""What a soak samples of the daemon, and the trends in it: memory over time, rates against what the robot's file declares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SETTLE_SHARE = 0.25  # the first quarter is left out of the memory's slope: caches fill and pools grow to their size
MIN_SAMPLES = 4


@dataclass(slots=True)
class Trend:
    """Samples of one daemon. t_s: host monotonic [s]; memory_mb: resident; rows: its loops as its status says them."""

    t_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    rows: list[list[dict[str, Any]]] = field(default_factory=list)

    def add(self, t_s: float, memory_mb: float, loops: list[dict[str, Any]]) -> None:
        """One more look."""
        self.t_s.append(t_s)
        self.memory_mb.append(memory_mb)
        self.rows.append(loops)

    def memory_slope_mb_per_h(self) -> float | None:
        """Least-squares slope after the settling share; None for too few samples."""
        t_s, memory = np.array(self.t_s), np.array(self.memory_mb)
        kept = t_s >= t_s[0] + SETTLE_SHARE * (t_s[-1] - t_s[0]) if len(t_s) else np.empty(0, dtype=bool)
        if kept.sum() < MIN_SAMPLES:
            return None
        return float(3600.0 * np.polyfit(t_s[kept] - t_s[0], memory[kept], 1)[0])

    def rate_drift_pct(self) -> float | None:
        """How far the loop that is furthest off runs from its declared rate, ticks run and ticks left out counted alike."""
        return self._worst(lambda row: row["ticks"] + row["overruns"])

    def rate_loss_pct(self) -> float | None:
        """The same for ticks that were run alone: what faults and a busy computer made the loops leave out."""
        return self._worst(lambda row: row["ticks"])

    def _worst(self, count: Any) -> float | None:
        if len(self.t_s) < 2 or self.t_s[-1] <= self.t_s[0]:
            return None
        elapsed_s = self.t_s[-1] - self.t_s[0]
        first, last = self.rows[0], self.rows[-1]
        rates = [(count(b) - count(a)) / elapsed_s / b["rate_hz"] for a, b in zip(first, last, strict=True)]
        return float(100.0 * max(abs(rate - 1.0) for rate in rates))
