"""The only way to a worm's chambers and pads: what is finite and in limits, and never the release of the last holding pad.

A pad is let go only while another pad that stays on is known to be sealed by a fresh report. That rule is checked here and
nowhere else onboard; the suction board repeats it for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.planning.contact.execution.ports import Command, Flags, Floats, SuctionReport, WormSink
from onboard.planning.contact.worm import ExecutionNumbers


@dataclass
class PadCounts:
    """What was prevented since start. clamped and slewed count chamber values, the others count whole requests."""

    issued: int = 0
    not_finite: int = 0
    wrong_shape: int = 0
    clamped: int = 0
    slewed: int = 0
    releases_refused: int = 0
    rescues: int = 0


class PadGovernor:
    """Holds the sink of one worm with n segments; everything sent goes through `issue`.

    Without a request (a dead executor or planner) the last pressures and pads are repeated: nothing moves, nothing lets go.
    After `stop` that is all it does, until `reset`.
    """

    def __init__(self, numbers: ExecutionNumbers, sink: WormSink, pressures: Floats, suction: Flags) -> None:
        self._numbers, self._sink = numbers, sink
        self._pressures, self._suction = np.array(pressures, dtype=np.float64), np.array(suction, dtype=bool)
        self._last_s: float | None = None
        self.stopped = False
        self.counts = PadCounts()

    @property
    def suction(self) -> Flags:
        """Pads whose vacuum is on, as sent last. Shape (n + 1,)."""
        return self._suction.copy()

    @property
    def pressures(self) -> Floats:
        """Chamber pressures as sent last. Shape (n, 4)."""
        return self._pressures.copy()

    def sealed(self, t_s: float) -> Flags:
        """Pads known to hold at t_s: vacuum on, a fresh report, and enough of it. Shape (n + 1,)."""
        return self._sealed(t_s, self._sink.report())

    def stop(self) -> None:
        """Emergency stop: pressures stay, pads stay, requests are ignored."""
        self.stopped = True

    def reset(self) -> None:
        """Leaves the stop; a deliberate act."""
        self.stopped = False

    def issue(self, t_s: float, pressures: Floats | None, suction: Flags | None) -> Command:
        """Sends what may be sent of a request (pressures (n, 4), pads (n + 1,)) and returns it. Call once per tick."""
        report = self._sink.report()
        if pressures is not None and not self.stopped:
            self._take_pressures(t_s, pressures)
        if suction is not None and not self.stopped:
            self._take_suction(t_s, suction, report)
        if not self.stopped and report is not None and not self._sealed(t_s, report).any() and not self._suction.all():
            self._suction[:] = True  # nothing is known to hold: every pad tries
            self.counts.rescues += 1
        self._last_s = t_s
        self.counts.issued += 1
        command = Command(t_s, self._pressures.copy(), self._suction.copy())
        self._sink.send(command)
        return command

    def _take_pressures(self, t_s: float, wanted: Floats) -> None:
        wanted = np.asarray(wanted, dtype=np.float64)
        if wanted.shape != self._pressures.shape:
            self.counts.wrong_shape += 1
            return
        if not np.all(np.isfinite(wanted)):
            self.counts.not_finite += 1
            return
        inside = np.clip(wanted, 0.0, self._numbers.supply)
        elapsed_s = 0.0 if self._last_s is None else min(max(t_s - self._last_s, 0.0), 2.0 / self._numbers.rate_hz)
        step = self._numbers.slew_per_s * elapsed_s
        limited = np.clip(inside, self._pressures - step, self._pressures + step)
        self.counts.clamped += int(np.count_nonzero(inside != wanted))
        self.counts.slewed += int(np.count_nonzero(limited != inside))
        self._pressures = limited

    def _take_suction(self, t_s: float, wanted: Flags, report: SuctionReport | None) -> None:
        wanted = np.asarray(wanted, dtype=bool)
        if wanted.shape != self._suction.shape:
            self.counts.wrong_shape += 1
            return
        self._suction |= wanted
        holding = self._sealed(t_s, report)
        for pad in np.flatnonzero(self._suction & ~wanted):
            others = holding & wanted
            if others.any():
                self._suction[pad] = False
            else:
                self.counts.releases_refused += 1

    def _sealed(self, t_s: float, report: SuctionReport | None) -> Flags:
        if report is None or not 0.0 <= t_s - report.t_s <= self._numbers.report_ttl_s:
            return np.zeros(len(self._suction), dtype=bool)
        good: Flags = self._suction & np.isfinite(report.vacuum_pa) & (report.vacuum_pa >= self._numbers.seal_pa)
        return good
