"""Every pose estimator finds its way back within 0.2 s of readings that no tower can give, and says so while they last."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.estimation.geometry import DiscGeometry
from onboard.messages import EstimateFlag, SensorFlag
from tests.unit.estimation_support import bent, estimator, observed, pose_of, robot

DT = 0.0125
BACK = 16  # ticks: 0.2 s
LAYERED = ("gradient", "gauss_newton")
NONSENSE = ("random", "upside down", "vertical", "level", "far too long")


@pytest.fixture(scope="module")
def spec():
    return robot()


@pytest.fixture(scope="module")
def scene(spec):
    """True positions, rotations and directions of a tower bent by 40 degrees."""
    return pose_of(DiscGeometry.of(spec.structure), bent())


def nonsense(kind: str, true, rng) -> np.ndarray:
    if kind == "random":
        direction = rng.normal(size=true.shape)
        return direction / np.linalg.norm(direction, axis=1)[:, None]
    same = {"vertical": [0.0, 0.0, 1.0], "level": [1.0, 0.0, 0.0]}
    if kind in same:
        return np.tile(same[kind], (len(true), 1))
    return -true if kind == "upside down" else 1e6 * true


@pytest.mark.parametrize("method", LAYERED)
@pytest.mark.parametrize("ticks", (1, 5, 20))
@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_from_all_struts_is_told_and_left_behind(spec, scene, method: str, ticks: int, kind: str) -> None:
    rng = np.random.default_rng(ticks)
    unit = estimator(method, spec)
    for k in range(200):
        before = unit.update(observed(scene[2], DT * k))
    for k in range(200, 200 + ticks):
        during = unit.update(observed(nonsense(kind, scene[2], rng), DT * k))
        assert during.flags & EstimateFlag.DEGRADED
        assert (during.strut_flags & int(SensorFlag.INCONSISTENT)).any()
        assert np.isfinite(during.position_m).all()
    for k in range(200 + ticks, 200 + ticks + 2 * BACK):
        after = unit.update(observed(scene[2], DT * k))
        if k >= 200 + ticks + BACK:
            assert np.linalg.norm(after.tip_m - before.tip_m) < 0.01
            assert after.flags == EstimateFlag.NONE and not after.strut_flags.any()


@pytest.mark.parametrize("method", LAYERED)
def test_nonsense_at_the_start_does_not_stay(spec, scene, method: str) -> None:
    unit = estimator(method, spec)
    rng = np.random.default_rng(8)
    for k in range(10):
        unit.update(observed(nonsense("random", scene[2], rng), DT * k))
    for k in range(10, 10 + BACK):
        after = unit.update(observed(scene[2], DT * k))
    assert np.linalg.norm(after.tip_m - scene[0][-1]) < 0.012 and after.flags == EstimateFlag.NONE


@pytest.mark.parametrize("method", LAYERED)
def test_one_strut_that_jumps_is_left_out_at_once_and_the_others_carry_on(spec, scene, method: str) -> None:
    unit = estimator(method, spec)
    for k in range(200):
        before = unit.update(observed(scene[2], DT * k))
    wild = scene[2].copy()
    wild[9] = -wild[9]
    after = unit.update(observed(wild, DT * 200))
    assert np.flatnonzero(after.strut_flags & int(SensorFlag.INCONSISTENT)).tolist() == [9]
    assert after.flags == EstimateFlag.DEGRADED
    assert np.linalg.norm(after.tip_m - before.tip_m) < 0.002


@pytest.mark.parametrize("method", LAYERED)
def test_one_strut_that_lies_for_ever_is_singled_out_as_by_the_default(spec, scene, method: str) -> None:
    lying = scene[2].copy()
    lying[9] = (math.cos(2.0), 0.0, -math.sin(2.0))
    unit = estimator(method, spec)
    for k in range(600):
        estimate = unit.update(observed(scene[2] if k < 200 else lying, DT * k))
    assert np.flatnonzero(estimate.strut_flags & int(SensorFlag.INCONSISTENT)).tolist() == [9]
    assert estimate.flags & EstimateFlag.DEGRADED
    assert np.linalg.norm(estimate.tip_m - scene[0][-1]) < 0.03 * 1.16


@pytest.mark.parametrize("method", LAYERED)
def test_a_tower_moved_during_silence_is_believed_when_it_speaks_again(spec, scene, method: str) -> None:
    other = pose_of(DiscGeometry.of(spec.structure), bent(tilt_deg=70.0, heading_rad=-2.5))
    unit = estimator(method, spec)
    nobody = np.zeros(20, dtype=bool)
    for k in range(240):
        unit.update(observed(scene[2], DT * k, valid=None if k < 40 else nobody))
    for k in range(240, 640):
        estimate = unit.update(observed(other[2], DT * k))
    assert not estimate.strut_flags.any() and not estimate.flags & (EstimateFlag.DEGRADED | EstimateFlag.COASTING)
    assert np.linalg.norm(estimate.tip_m - other[0][-1]) < 0.1 * 1.16
