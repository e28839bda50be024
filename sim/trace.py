"""What a run gives to be judged: true tips from the plant, estimated tips from the recording, laid on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onboard.errors import RecordingError
from onboard.messages import Floats
from onboard.telemetry import schemas
from onboard.telemetry.reader import open_recording
from sim.evaluate.metrics import mean_between, tip_rmse_pct
from sim.tower.feed import Report


class TruthLog:
    """Collects the plant's reports, thinned to what judging needs."""

    def __init__(self) -> None:
        self._t: list[float] = []
        self._tip: list[list[float]] = []
        self._cables: list[list[float]] = []
        self.violation_pa = 0.0
        self.slips = 0
        self.failed = ""

    def take(self, reports: list[Report]) -> None:
        """Add reports, oldest first."""
        for report in reports:
            self.failed = self.failed or report.failed
            self.violation_pa = max(self.violation_pa, report.violation_pa)
            self.slips = max(self.slips, report.slips)
            if report.position_m:
                self._t.append(report.t_s)
                self._tip.append(report.position_m[-1])
                self._cables.append(report.cable_length_m)

    @property
    def t_s(self) -> Floats:
        """Host monotonic times (n,) [s]."""
        return np.array(self._t)

    @property
    def tip_m(self) -> Floats:
        """True tips (n, 3) [m]."""
        return np.array(self._tip).reshape(-1, 3)

    @property
    def cable_length_m(self) -> Floats:
        """True cable lengths (n, C) [m]."""
        return np.array(self._cables)

    def mean_tip(self, start_s: float, end_s: float) -> Floats:
        """Mean true tip (3,) [m] between two times; NaN when nothing was reported then."""
        return mean_between(self.t_s, self.tip_m, start_s, end_s)


@dataclass(frozen=True, slots=True)
class EstimateLog:
    """The recorded estimates: times (n,) [s], tips (n, 3) [m], cable lengths (n, C) [m]."""

    t_s: Floats
    tip_m: Floats
    cable_length_m: Floats

    @classmethod
    def read(cls, path: Path) -> EstimateLog:
        """From a recording; raises RecordingError when it holds none."""
        times, tips, cables = [], [], []
        for topic, fields in open_recording(path):
            if topic == schemas.ESTIMATE:
                times.append(fields["t_s"])
                tips.append(fields["tip_m"])
                cables.append(fields["cable_length_m"])
        if not times:
            raise RecordingError(f"{path}: holds no estimates")
        return cls(np.array(times), np.array(tips), np.array(cables))

    def tip_rmse_pct(self, truth: TruthLog, start_s: float, end_s: float, length_m: float) -> float:
        """RMS distance of estimated from true tips between two times, in per cent of `length_m`; NaN for nothing."""
        inside = (self.t_s >= start_s) & (self.t_s <= end_s)
        return tip_rmse_pct(self.t_s[inside], self.tip_m[inside], truth.t_s, truth.tip_m, length_m)
