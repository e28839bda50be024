"""A strut that says itself that its readings are cut off is blamed for a contradiction, not the neighbours it pulls along."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from onboard.estimation.consistency import Consistency
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.so3 import exp_so3
from onboard.messages import EstimateFlag, SensorFlag, frozen
from tests.unit.estimation_support import METHODS, bent, estimator, observed, pose_of, robot

DT = 0.0125
SATURATED = int(SensorFlag.SATURATED)
SEEN = np.ones(8, dtype=bool)
SADDLE = np.array([1.0, -1.0, 1.0, -1.0])


def flags(*struts: int, count: int = 8) -> np.ndarray:
    marked = np.zeros(count, dtype=np.int64)
    marked[list(struts)] = SATURATED
    return marked


def blamed_after(size: dict[int, float], *saturated: int, unit: Consistency | None = None, ticks: int = 200) -> list[int]:
    """Struts of two modules left out after `ticks` of residuals [sigmas]."""
    unit = unit or Consistency(2, SADDLE, 6.0, 0.5)
    residual = np.zeros((8, 2))
    for strut, sigmas in size.items():
        residual[strut, 0] = sigmas
    for _ in range(ticks):
        unit.update(residual, SEEN, flags(*saturated), DT)
    return np.flatnonzero(unit.excluded).tolist()


def test_without_a_flag_the_worst_strut_of_a_module_is_left_out() -> None:
    assert blamed_after({1: 9.0, 2: 7.0}) == [1]


def test_a_saturated_strut_is_left_out_before_a_neighbour_with_a_larger_residual() -> None:
    assert blamed_after({1: 9.0, 2: 7.0}, 2) == [2]
    assert blamed_after({1: 9.0, 2: 2.0}, 2) == [2]


def test_of_two_saturated_struts_the_worse_is_left_out() -> None:
    assert blamed_after({0: 20.0, 1: 7.0, 2: 8.0}, 1, 2) == [2]


def test_a_saturated_strut_that_contradicts_nobody_stays() -> None:
    assert blamed_after({1: 5.0, 2: 3.0}, 2) == []


def test_saturation_in_one_module_excuses_nobody_in_another() -> None:
    assert blamed_after({1: 9.0, 6: 0.5}, 6) == [1]


def test_a_neighbour_blamed_first_comes_back_when_the_saturation_shows() -> None:
    unit = Consistency(2, SADDLE, 6.0, 0.5)
    assert blamed_after({1: 9.0, 2: 7.0}, unit=unit) == [1]
    assert blamed_after({1: 9.0, 2: 7.0}, 2, unit=unit, ticks=1) == [2]
    assert blamed_after({}, unit=unit) == []


@pytest.mark.parametrize("method", ("gradient", "gauss_newton"))
@pytest.mark.parametrize("angle_rad", (0.6, 1.0))
def test_a_clipped_gyroscope_is_found_where_residuals_alone_point_elsewhere(method: str, angle_rad: float) -> None:
    wrongly, rightly = (blamed_on_a_tower(method, angle_rad, known) for known in (False, True))
    assert wrongly - {9} and rightly == {9}


@pytest.mark.parametrize("method", METHODS)
def test_saturation_alone_blames_nobody(method: str) -> None:
    assert blamed_on_a_tower(method, 0.0, known=True) == set()


def blamed_on_a_tower(method: str, angle_rad: float, known: bool) -> set[int]:
    """Struts ever blamed while strut 9's direction wanders off at 1.6 rad/s; `known`: its saturation is flagged."""
    spec = robot()
    true = pose_of(DiscGeometry.of(spec.structure), bent())[2]
    unit, blamed = estimator(method, spec), set()
    for k in range(220):
        wrong = true.copy()
        wrong[9] = exp_so3(np.array([1.0, 1.0, 0.0]) * min(angle_rad, max(k - 60, 0) * 0.02)) @ true[9]
        now = frozen(flags(*([9] if known and k > 60 else []), count=20), dtype=np.int64)
        estimate = unit.update(dataclasses.replace(observed(wrong, DT * k), flags=now))
        found = np.flatnonzero(estimate.strut_flags & int(SensorFlag.INCONSISTENT)).tolist()
        assert not found or estimate.flags & EstimateFlag.DEGRADED
        if k > 60:  # before that the layered estimators are still on their way from the rest pose
            blamed |= set(found)
    return blamed
