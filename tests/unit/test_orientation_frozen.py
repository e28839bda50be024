"""Healthy bus, dead sensor: frozen channels and payloads are found within half a second, quiet sensors are left in peace."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.orientation import VqfConfig
from onboard.estimation.so3 import exp_so3
from onboard.messages import SensorFlag
from tests.unit.orientation_support import DT, RATE_HZ, run_still, sample, sensor, trouble, upright


@pytest.fixture
def spec():
    return sensor(RATE_HZ)


@pytest.fixture
def rest(spec):
    return DiscGeometry.of(spec.structure).rest_direction


def moving(source, rest, seconds: float, start_s: float, freeze=(), channel=None, struts=range(4), quiet=()) -> float:
    """Struts that sway by a few degrees with sensor noise; channels of `freeze` repeat their first value."""
    rng, held = np.random.default_rng(4), {}
    for k in range(round(seconds * RATE_HZ)):
        t_s = start_s + k * DT
        angle = 0.05 * math.sin(6.0 * (t_s - start_s))
        rate = np.array([0.05 * 6.0 * math.cos(6.0 * (t_s - start_s)), 0.0, 0.0])
        for strut in struts:
            sways = strut not in quiet
            turn = exp_so3(np.array([angle if sways else 0.0, 0.0, 0.0])) @ upright(rest[strut])
            noise = rng.normal(0.0, 2.0, 6) if sways else np.zeros(6)
            batch = sample(strut, round(t_s * RATE_HZ), t_s, turn, rate if sways else np.zeros(3), noise=noise)
            if strut in freeze:
                values = np.concatenate([batch.acceleration_m_s2[0], batch.rate_rad_s[0]])
                first = held.setdefault(strut, values.copy())
                where = slice(None) if channel is None else channel
                values[where] = first[where]
                batch = sample(
                    strut, round(t_s * RATE_HZ), t_s, turn, acceleration_m_s2=values[None, :3], rate_rad_s=values[None, 3:]
                )
            source.add(batch)
        source.observe(t_s)
    return t_s


@pytest.mark.parametrize("channel", (0, 2, 4))
def test_one_axis_that_stands_still_while_others_move_is_found_within_half_a_second(spec, rest, channel: int) -> None:
    source = VqfConfig().build(spec)
    moving(source, rest, 1.0, 1.0)
    seen = source.observe(moving(source, rest, 0.49, 2.0, freeze=(1,), channel=channel) + 0.001)
    assert trouble(seen).tolist() == [0, int(SensorFlag.FROZEN), 0, 0] and seen.valid.tolist() == [True, False, True, True]


def test_a_payload_that_repeats_while_neighbours_move_is_found_within_half_a_second(spec, rest) -> None:
    source = VqfConfig().build(spec)
    moving(source, rest, 1.0, 1.0)
    seen = source.observe(moving(source, rest, 0.49, 2.0, freeze=(3,)) + 0.001)
    assert trouble(seen).tolist() == [0, 0, 0, int(SensorFlag.FROZEN)] and not seen.valid[3]


def test_a_strut_that_thaws_is_level_and_valid_again_with_a_doubtful_heading(spec, rest) -> None:
    source = VqfConfig().build(spec)
    moving(source, rest, 1.0, 1.0)
    before = source.observe(moving(source, rest, 3.0, 2.0, freeze=(3,)))
    seen = source.observe(moving(source, rest, 0.5, 5.0))
    assert seen.valid.all() and not trouble(seen).any()
    assert np.degrees(np.abs(seen.direction[3] - rest[3])).max() < 5.0
    assert seen.sigma_azimuth_rad[3] > before.sigma_azimuth_rad[0]


def test_quiet_coarse_sensors_at_rest_raise_no_alarm(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 3.0)  # no noise at all: every channel is constant
    seen = source.observe(end_s)
    assert not trouble(seen).any() and seen.valid.all()


def test_a_coarse_sensor_that_toggles_by_one_of_its_steps_raises_no_alarm(spec, rest) -> None:
    """Resolution 16 times coarser than the file's: at rest one channel flips between two values, the others are constant."""
    source = VqfConfig().build(spec)
    for k in range(300):
        for strut in range(4):
            noise = np.zeros(6)
            noise[1] = 16.0 * (k % 2)
            source.add(sample(strut, k, 1.0 + k * DT, upright(rest[strut]), noise=noise))
        assert not trouble(source.observe(1.0 + k * DT)).any()


def test_a_coarse_arm_that_comes_to_rest_raises_no_alarm(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = moving(source, rest, 1.0, 1.0)
    for k in range(200):
        for strut in range(4):
            source.add(sample(strut, 1000 + k, end_s + (k + 1) * DT, upright(rest[strut])))
        seen = source.observe(end_s + (k + 1) * DT)
        # While the window still holds both movement and a channel's last value, no channel of it is constant.
        assert not trouble(seen).any()
