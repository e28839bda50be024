"""How good an estimate and a return are, whether they came from a simulated clock or through the whole chain."""

from __future__ import annotations

import math

import numpy as np

from onboard.messages import Floats
from onboard.robot import RobotSpec


def at_times(t_s: Floats, known_t_s: Floats, known: Floats) -> Floats:
    """Values known (n, k) at rising times (n,), linear between them, at times (q,): (q, k). NaN outside."""
    columns = [np.interp(t_s, known_t_s, known[:, axis], left=np.nan, right=np.nan) for axis in range(known.shape[1])]
    return np.stack(columns, axis=-1)


def tip_rmse_pct(estimate_t_s: Floats, estimate_m: Floats, truth_t_s: Floats, truth_m: Floats, length_m: float) -> float:
    """RMS distance of estimated tips (q, 3) from the true ones (n, 3), in per cent of the arm's length.

    Estimates outside the truth's times do not count; NaN when none is left or an estimate is not a number.
    """
    gap = estimate_m - at_times(estimate_t_s, truth_t_s, truth_m)
    inside = (estimate_t_s >= truth_t_s[0]) & (estimate_t_s <= truth_t_s[-1]) if len(truth_t_s) else np.zeros(0, dtype=bool)
    if not inside.any():
        return math.nan
    return float(100.0 * np.sqrt(np.mean(np.sum(gap[inside] ** 2, axis=1))) / length_m)


def mean_between(t_s: Floats, values: Floats, start_s: float, end_s: float) -> Floats:
    """Mean of values (n, k) at times (n,) between two times: (k,); NaN when there are none."""
    inside = (t_s >= start_s) & (t_s <= end_s)
    if not inside.any():
        return np.full(values.shape[1], np.nan)
    mean: Floats = values[inside].mean(axis=0)
    return mean


def settle_s(t_s: Floats, tip_m: Floats, goal_m: Floats, start_s: float, band_m: float) -> float:
    """Time from `start_s` until the tip (n, 3) comes within `band_m` of the goal for good [s]; infinite when it never does."""
    inside = t_s >= start_s
    away = np.linalg.norm(tip_m[inside] - goal_m, axis=1) > band_m
    if not len(away) or away[-1]:
        return math.inf
    last = np.flatnonzero(away)
    return float(t_s[inside][last[-1] + 1] - start_s) if len(last) else 0.0


def pressure_violations(pressure_pa: Floats, spec: RobotSpec, tolerance_pa: float = 1.0) -> int:
    """How many of the pressures (n, A) lie outside the robot's range by more than rounding."""
    valves = spec.actuators
    if valves is None:
        return 0
    low, high = valves.min_pressure_pa - tolerance_pa, valves.max_pressure_pa + tolerance_pa
    return int(np.count_nonzero(~((pressure_pa >= low) & (pressure_pa <= high))))
