"""A robot that stands still: gyro biases become known before it may be armed, and headings are kept at the rest pose."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.gyro_offset import GyroOffset
from onboard.estimation.imu_checks import G_M_S2
from onboard.estimation.orientation import VqfConfig
from onboard.estimation.so3 import exp_so3
from onboard.messages import SensorFlag, frozen
from tests.unit.orientation_support import DT, RATE_HZ, run_still, sample, sensor, upright

SPEC = sensor(RATE_HZ)
REST = DiscGeometry.of(SPEC.structure).rest_direction
UPRIGHT = np.eye(3)
BIAS = np.array([0.012, -0.015, 0.010])


def run(source, seconds: float, start_s: float, turn=UPRIGHT, bias=BIAS) -> float:
    rng = np.random.default_rng(3)
    for k in range(round(seconds * RATE_HZ)):
        for strut in range(4):
            batch = sample(
                strut, round(start_s * RATE_HZ) + k, start_s + k * DT, turn @ upright(REST[strut]), noise=rng.normal(0, 8, 6)
            )
            source.add(
                type(batch)(**{**{f: getattr(batch, f) for f in batch.__slots__}, "rate_rad_s": frozen(batch.rate_rad_s + bias)})
            )
    return start_s + k * DT


def azimuth_error_deg(source, t_s: float) -> float:
    seen = source.observe(t_s).direction
    gap = np.arctan2(seen[:, 1], seen[:, 0]) - np.arctan2(REST[:, 1], REST[:, 0])
    return float(np.degrees(np.abs((gap + np.pi) % (2 * np.pi) - np.pi)).max())


def test_struts_settle_within_ten_seconds_of_rest_and_not_before_their_bias_is_known() -> None:
    source = VqfConfig().build(SPEC)
    end_s = run(source, 2.0, 1.0)
    assert (source.observe(end_s).flags & int(SensorFlag.SETTLING)).all()
    end_s = run(source, 8.0, end_s + DT)
    assert not (source.observe(end_s).flags & int(SensorFlag.SETTLING)).any()


def test_a_strut_that_keeps_moving_does_not_settle() -> None:
    source = VqfConfig().build(SPEC)
    for k in range(round(10.0 * RATE_HZ)):
        t_s = 1.0 + k * DT
        rate = 0.6 * np.cos(6.0 * t_s) * np.array([1.0, 0.0, 0.0])
        turn = exp_so3(0.1 * np.sin(6.0 * t_s) * np.array([1.0, 0.0, 0.0]))
        for strut in range(4):
            source.add(sample(strut, k, t_s, turn @ upright(REST[strut]), rate_world=rate))
    assert (source.observe(t_s).flags & int(SensorFlag.SETTLING)).all()


def test_headings_are_brought_back_while_the_robot_rests() -> None:
    source = VqfConfig().build(SPEC)
    end_s = run(source, 3.0, 1.0)  # the unknown bias turns the headings
    drifted = azimuth_error_deg(source, end_s)
    for _ in range(8):
        start_s, end_s = end_s + DT, run(source, 0.5, end_s + DT)
        for k in range(40):
            source.align_at_rest(start_s + 0.0125 * k)
    assert drifted > 1.0
    assert azimuth_error_deg(source, end_s) < 0.3


def test_a_leaning_robot_is_not_aligned() -> None:
    source = VqfConfig().build(SPEC)
    end_s = run_still(source, REST, 2.0)
    assert source.align_at_rest(end_s)
    lean = exp_so3(np.radians(8.0) * np.array([1.0, 0.0, 0.0]))
    end_s = run(source, 6.0, end_s + DT, turn=lean, bias=np.zeros(3))
    assert not source.align_at_rest(end_s)


def test_a_gyroscope_far_off_zero_settles_too_and_keeps_its_heading() -> None:
    offset = np.radians([3.1, -0.4, 6.0])
    source = VqfConfig().build(SPEC)
    end_s = run(source, 10.0, 1.0, bias=offset)
    assert not (source.observe(end_s).flags & int(SensorFlag.SETTLING)).any()
    for k in range(40):
        source.align_at_rest(end_s + 0.0125 * k)
    end_s = run(source, 60.0, end_s + DT, bias=offset)
    assert azimuth_error_deg(source, end_s) < 3.6  # a minute at the standard deviation that counts as settled


def test_the_offset_is_that_of_the_first_still_second_only() -> None:
    rng = np.random.default_rng(5)
    finder, still = GyroOffset(), np.array([0.0, 0.0, G_M_S2])
    swing = [np.radians(30.0) * np.sin(0.1 * k) * np.ones(3) for k in range(300)]
    assert not any(finder.take(rate, still, DT) for rate in swing)
    true = np.radians([4.0, -2.5, 0.3])
    found = [finder.take(true + rng.normal(0.0, 0.003, 3), still, DT) for _ in range(200)]
    assert sum(found) == 1
    assert np.abs(finder.value - true).max() < np.radians(0.1)
    kept = finder.value.copy()
    assert not any(finder.take(np.radians([9.0, 0.0, 0.0]), still, DT) for _ in range(300))
    assert (finder.value == kept).all()


@pytest.mark.parametrize("rate_deg_s", [0.0, 1.4, 25.0])
def test_small_rates_are_the_filters_business_and_large_ones_are_motion(rate_deg_s: float) -> None:
    finder = GyroOffset()
    for _ in range(300):
        finder.take(np.radians([0.0, rate_deg_s, 0.0]), np.array([0.0, 0.0, G_M_S2]), DT)
    assert not finder.value.any()
