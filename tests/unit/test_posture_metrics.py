"""What `evaluate posture` counts: tip errors against an interpolated truth, settling for good, pressures out of range."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from onboard.robot import load_robot
from sim.evaluate.metrics import at_times, mean_between, pressure_violations, settle_s, tip_rmse_pct
from sim.evaluate.posture import summarise
from sim.evaluate.trials import TrialResult

ROBOTS = Path(__file__).parents[2] / "robots"
T = np.linspace(0.0, 10.0, 101)
LINE = np.stack([T, 2.0 * T, np.zeros_like(T)], axis=-1)


def trial(kind: str, rmse: float = 0.5, **more: object) -> TrialResult:
    return TrialResult(kind=kind, seed=0, simulated_s=1.0, tip_rmse_pct=rmse, tilt_max_deg=30.0, violations=0, **more)


def test_truth_is_taken_at_the_estimates_own_times() -> None:
    late = np.array([0.05, 3.33])
    np.testing.assert_allclose(at_times(late, T, LINE), [[0.05, 0.1, 0.0], [3.33, 6.66, 0.0]])
    shifted = LINE[:-1] + 0.05 * np.array([1.0, 2.0, 0.0])
    assert tip_rmse_pct(T[:-1] + 0.05, shifted, T, LINE, 1.0) == pytest.approx(0.0, abs=1e-9)


def test_a_constant_offset_is_its_own_rmse() -> None:
    assert tip_rmse_pct(T, LINE + np.array([0.03, 0.0, 0.04]), T, LINE, 2.0) == pytest.approx(2.5)
    assert math.isnan(tip_rmse_pct(T + 100.0, LINE, T, LINE, 1.0))
    broken = LINE.copy()
    broken[4, 1] = np.nan
    assert math.isnan(tip_rmse_pct(T, broken, T, LINE, 1.0))


def test_settling_counts_from_the_start_to_the_last_time_outside() -> None:
    goal = np.zeros(3)
    tip = np.zeros((101, 3))
    tip[:31, 0] = 1.0  # away until 3.0 s
    tip[50, 0] = 1.0  # and once more at 5.0 s
    assert settle_s(T, tip, goal, 1.0, 0.5) == pytest.approx(4.1)
    assert settle_s(T, tip, goal, 6.0, 0.5) == 0.0
    tip[-1, 0] = 1.0
    assert math.isinf(settle_s(T, tip, goal, 1.0, 0.5))
    assert math.isinf(settle_s(T, tip * np.nan, goal, 11.0, 0.5))


def test_means_are_of_what_lies_between() -> None:
    np.testing.assert_allclose(mean_between(T, LINE, 2.0, 4.0), [3.0, 6.0, 0.0])
    assert np.isnan(mean_between(T, LINE, 20.0, 30.0)).all()


def test_pressures_out_of_range_and_nonsense_are_counted() -> None:
    spec = load_robot(ROBOTS / "manipulator.toml")
    pressure = np.full((10, 40), 3.5e5)
    assert pressure_violations(pressure, spec) == 0
    pressure[0, 0], pressure[1, 1], pressure[2, 2] = 6.1e5, 0.9e5, np.nan
    assert pressure_violations(pressure, spec) == 3


def test_the_summary_says_the_worst_and_what_was_missed() -> None:
    shown = trial("taught", errors_pct=[0.2, 0.8], settle_s=[3.0, 4.0], tilt_deg=[20.0, 40.0])
    good = summarise([shown, trial("active"), trial("pushed")], [], [0])
    assert good["posture_error_pct"] == 0.8
    assert good["settle_s"] == 4.0
    assert good["missed"] == []
    never = trial("taught", errors_pct=[0.2, 1.8], settle_s=[3.0, math.inf], tilt_deg=[20.0, 40.0])
    bad = summarise([never, trial("active", rmse=2.5), trial("pushed")], [], [0])
    assert bad["settle_s"] is None
    assert [line.split()[0] for line in bad["missed"]] == ["active.tip_rmse_pct", "posture_error_pct", "settle_s"]
    nothing = summarise([], [{"kind": "active", "seed": 0, "error": "broke down"}], [0])
    assert len(nothing["missed"]) == 4
