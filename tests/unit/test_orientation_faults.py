"""What strut orientation does with samples that are late, doubled, broken, frozen, saturated or weightless."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from onboard.errors import EstimationError
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.orientation import VqfConfig
from onboard.estimation.so3 import exp_so3
from onboard.messages import SensorFlag
from tests.unit.orientation_support import COUNT, DT, RATE_HZ, run_still, sample, sensor, trouble, upright

ARRAYS = ("t_s", "acceleration_m_s2", "rate_rad_s")


@pytest.fixture
def spec():
    return sensor(RATE_HZ)


@pytest.fixture
def rest(spec):
    return DiscGeometry.of(spec.structure).rest_direction


def test_an_upright_tower_is_seen_upright_with_its_headings(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 2.0, rng=np.random.default_rng(1))
    seen = source.observe(end_s + 0.01)
    assert seen.valid.all() and not trouble(seen).any()
    assert np.degrees(np.abs(seen.direction - rest)).max() < 0.3
    assert np.abs(seen.age_s - 0.01).max() < 1e-9
    assert np.abs(np.linalg.norm(seen.direction, axis=1) - 1.0).max() < 1e-9


def test_the_azimuths_uncertainty_grows_and_the_inclinations_does_not(spec, rest) -> None:
    source = VqfConfig(start_azimuth_sigma_deg=2.0, azimuth_walk_deg_per_sqrt_s=0.1).build(spec)
    first = source.observe(run_still(source, rest, 1.0))
    later = source.observe(run_still(source, rest, 20.0, start_s=2.0))
    grown = np.degrees(np.sqrt(later.sigma_azimuth_rad**2 - first.sigma_azimuth_rad**2))
    assert np.abs(grown - 0.1 * math.sqrt(20.0)).max() < 0.02
    assert np.abs(later.sigma_inclination_rad - first.sigma_inclination_rad).max() < 1e-6


def test_struts_that_never_spoke_are_missing_and_silent_ones_stale(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 1.0, struts=(0, 1, 2))
    seen = source.observe(end_s + 0.01)
    assert trouble(seen).tolist() == [0, 0, 0, int(SensorFlag.MISSING)] and seen.valid.tolist() == [True, True, True, False]
    late = source.observe(end_s + 1e-3 * spec.imu.max_age_ms + 0.01)
    assert (trouble(late)[:3] == int(SensorFlag.STALE)).all() and not late.valid.any()


def test_a_stranger_is_refused(spec, rest) -> None:
    with pytest.raises(EstimationError, match="strut 4"):
        VqfConfig().build(spec).add(sample(4, 0, 1.0, np.eye(3)))


@pytest.mark.parametrize("value", (math.nan, math.inf))
@pytest.mark.parametrize("field", ("acceleration_m_s2", "rate_rad_s", "t_s"))
def test_not_a_number_is_refused_and_forgotten_a_hundred_samples_later(spec, rest, field: str, value: float) -> None:
    clean, hurt = VqfConfig().build(spec), VqfConfig().build(spec)
    turn, rate = upright(rest[0]), np.array([0.3, -0.2, 0.1])
    for k in range(300):
        t_s, now = 1.0 + k * DT, exp_so3(rate * k * DT) @ turn
        good = sample(0, k, t_s, now, rate)
        clean.add(good)
        if k == 199:
            hurt.add(replace(good, **{field: np.full_like(getattr(good, field), value)}))
            assert trouble(hurt.observe(t_s))[0] & SensorFlag.NOT_FINITE
        else:
            hurt.add(good)
    one, two = clean.observe(1.0 + 300 * DT), hurt.observe(1.0 + 300 * DT)
    assert hurt.refused["not_finite"].tolist() == [1, 0, 0, 0]
    assert np.abs(one.direction[0] - two.direction[0]).max() < 2e-4
    assert two.valid[0]


def test_a_stream_of_nothing_but_nan_goes_stale(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 1.0)
    for k in range(50):
        source.add(sample(2, 500 + k, end_s + (k + 1) * DT, np.eye(3), acceleration_m_s2=np.full((1, 3), math.nan)))
    seen = source.observe(end_s + 50 * DT)
    assert not seen.valid[2] and trouble(seen)[2] == int(SensorFlag.STALE | SensorFlag.NOT_FINITE)
    assert np.isfinite(seen.direction).all()


def test_doubled_late_and_impossible_samples_are_counted_and_change_nothing(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 1.0)
    before = source.observe(end_s)
    tilted = upright(np.array([0.5, 0.0, 0.8]))
    source.add(sample(1, 199, end_s + DT, tilted))  # the sequence number of the last packet
    source.add(sample(1, 300, end_s, tilted))  # the time of the last sample
    source.add(sample(1, 301, end_s - 0.2, tilted))  # a burst of old data
    source.add(sample(1, 302, end_s + 5.0, tilted, received_s=end_s + 0.01))  # from the future
    after = source.observe(end_s)
    refused = {reason: int(counts[1]) for reason, counts in source.refused.items()}
    assert refused == {"not_finite": 0, "duplicate": 2, "old": 1, "future": 1}
    assert np.array_equal(before.direction, after.direction)


def test_a_reboot_starts_a_new_time_base_and_keeps_the_orientation(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 3.0)
    before = source.observe(end_s)
    # The board is back after 40 ms; its first times are guesses that lie before the last ones.
    for k in range(20):
        source.add(sample(1, k, end_s - 0.05 + k * DT, upright(rest[1]), boot_id=2))
    seen = source.observe(end_s + 0.14)
    assert source.refused["old"].sum() == 0
    assert seen.valid[1] and np.abs(seen.direction[1] - before.direction[1]).max() < 1e-3
    assert seen.sigma_azimuth_rad[1] > 1.5 * before.sigma_azimuth_rad[1]
    assert seen.sigma_azimuth_rad[0] < 1.1 * before.sigma_azimuth_rad[0]


def test_times_that_were_guessed_too_new_do_not_shut_out_the_right_ones(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 3.0)
    for k in range(10):  # the board is back; its clock is unknown and its samples are 0.3 s older than they seem
        source.add(sample(1, k, end_s + k * DT, upright(rest[1]), boot_id=2, flags=SensorFlag.UNSYNCHRONISED))
    guessed = source.observe(end_s + 0.1)
    assert not guessed.valid[1] and guessed.flags[1] & int(SensorFlag.UNSYNCHRONISED)
    for k in range(10, 20):
        source.add(sample(1, k, end_s - 0.3 + k * DT, upright(rest[1]), boot_id=2, received_s=end_s + k * DT))
    assert source.refused["old"].sum() == 0
    seen = source.observe(end_s - 0.1)
    assert seen.valid[1] and trouble(seen)[1] == 0
    assert seen.age_s[1] == pytest.approx(0.01, abs=1e-6)


def test_after_a_long_silence_the_filter_levels_at_once_and_keeps_the_heading(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 3.0)
    # Meanwhile the strut was tilted by 15 degrees in its own vertical plane.
    flat = np.array([-rest[0, 1], rest[0, 0], 0.0]) / math.hypot(rest[0, 0], rest[0, 1])
    moved = exp_so3(math.radians(15.0) * flat) @ rest[0]
    for k in range(5):
        source.add(sample(0, 900 + k, end_s + 4.0 + k * DT, upright(moved)))
    seen = source.observe(end_s + 4.05)
    assert np.degrees(np.arccos(seen.direction[0] @ moved)) < 0.5
    assert seen.sigma_azimuth_rad[0] > math.radians(4.0)


def test_the_direction_is_carried_to_the_tick(spec, rest) -> None:
    """A strut that turns at 2 rad/s, last sampled 30 ms before the tick."""
    source = VqfConfig().build(spec)
    rate, start = np.array([0.0, 0.0, 2.0]), upright(rest[0])
    run_still(source, rest, 2.0, struts=(0,))
    for k in range(100):
        source.add(sample(0, 500 + k, 3.0 + k * DT, exp_so3(rate * k * DT) @ start, rate if k else np.zeros(3)))
    for late_s in (0.0, 0.03):
        seen = source.observe(3.0 + 99 * DT + late_s)
        true = exp_so3(rate * (99 * DT + late_s)) @ rest[0]
        assert np.degrees(np.arccos(min(1.0, float(seen.direction[0] @ true)))) < 0.5
        assert np.abs(seen.rate_rad_s[0] - rate).max() < 0.02
    assert seen.age_s[0] == pytest.approx(0.03)


def test_headings_near_the_half_turn_average_across_it(spec, rest) -> None:
    """Azimuths of +179 and -179 degrees meet at 180, not at 0."""
    azimuth = np.degrees(np.arctan2(rest[:, 1], rest[:, 0]))
    source = VqfConfig().build(spec)
    rng = np.random.default_rng(3)
    end_s = run_still(source, rest, 2.0, rng=rng)
    got = np.degrees(np.arctan2(source.observe(end_s).direction[:, 1], source.observe(end_s).direction[:, 0]))
    assert np.abs((got - azimuth + 180.0) % 360.0 - 180.0).max() < 1.0
    unit = source._filters[0]
    unit._rest_azimuth, unit._align_until_s, unit._align = math.pi - 1e-4, None, np.zeros(2)
    for k in range(100):
        turn = exp_so3(np.array([0.0, 0.0, math.radians((-1.0) ** k)])) @ upright(rest[0])
        source.add(sample(0, 700 + k, end_s + (k + 1) * DT, turn))
    unit.point()
    assert abs(abs(math.atan2(unit.direction[1], unit.direction[0])) - math.pi) < math.radians(3.0)


def test_saturation_is_flagged_and_widens_the_sigmas(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 1.0)
    before = source.observe(end_s)
    full = 32767.0 * COUNT
    for k in range(10):
        source.add(sample(2, 500 + k, end_s + (k + 1) * DT, upright(rest[2]), rate_rad_s=np.array([[0.0, full[4], 0.0]])))
    seen = source.observe(end_s + 10 * DT)
    assert trouble(seen).tolist() == [0, 0, int(SensorFlag.SATURATED), 0]
    assert seen.sigma_inclination_rad[2] > 2.0 * before.sigma_inclination_rad[2]
    assert seen.sigma_azimuth_rad[2] > 1.2 * before.sigma_azimuth_rad[2]


def test_weightless_turning_goes_on_by_gyroscope_and_is_flagged(spec, rest) -> None:
    """Acceleration 0 for two seconds while the strut turns by 60 degrees."""
    source = VqfConfig().build(spec)
    end_s, rate, start = run_still(source, rest, 3.0), np.array([0.0, math.radians(30.0), 0.0]), upright(rest[0])
    before = source.observe(end_s)
    for k in range(1, 201):
        turn = exp_so3(rate * k * DT) @ start
        source.add(sample(0, 900 + k, end_s + k * DT, turn, rate, acceleration_m_s2=np.zeros((1, 3))))
    seen = source.observe(end_s + 200 * DT)
    assert np.isfinite(seen.direction).all() and trouble(seen)[0] == int(SensorFlag.FREE_FALL) and seen.valid[0]
    assert np.degrees(np.arccos(seen.direction[0] @ (exp_so3(rate * 2.0) @ rest[0]))) < 1.0
    assert seen.sigma_inclination_rad[0] > 1.5 * before.sigma_inclination_rad[0]


def test_a_strut_that_starts_weightless_is_finite(spec, rest) -> None:
    source = VqfConfig().build(spec)
    for k in range(100):
        source.add(sample(0, k, 1.0 + k * DT, np.eye(3), acceleration_m_s2=np.zeros((1, 3))))
    seen = source.observe(2.0)
    assert np.isfinite(seen.direction).all() and trouble(seen)[0] & SensorFlag.FREE_FALL


def test_a_vertical_first_sample_is_finite_and_its_heading_waits(spec, rest) -> None:
    source = VqfConfig().build(spec)
    source.add(sample(0, 0, 1.0, np.eye(3)))
    seen = source.observe(1.01)
    assert np.abs(seen.direction[0] - [0.0, 0.0, 1.0]).max() < 1e-9
    assert seen.sigma_azimuth_rad[0] == pytest.approx(math.pi)


def test_a_bus_error_of_the_board_stays_on_the_strut(spec, rest) -> None:
    source = VqfConfig().build(spec)
    end_s = run_still(source, rest, 1.0)
    source.add(sample(1, 700, end_s + DT, upright(rest[1]), flags=SensorFlag.BUS_ERROR))
    assert trouble(source.observe(end_s + DT)).tolist() == [0, int(SensorFlag.BUS_ERROR), 0, 0]
    source.add(sample(1, 701, end_s + 2 * DT, upright(rest[1])))
    assert not trouble(source.observe(end_s + 2 * DT)).any()


def test_batches_and_single_samples_give_the_same_bits(spec, rest) -> None:
    one, two = VqfConfig().build(spec), VqfConfig().build(spec)
    for k in range(100):
        now = exp_so3(np.array([0.002 * k, 0.0, 0.0])) @ upright(rest[0])
        parts = [sample(0, 2 * k + i, 1.0 + (2 * k + i) * DT, now, (0.1 * i, 0.0, 0.0)) for i in range(2)]
        one.add(replace(parts[1], sequence=k, **{name: np.concatenate([getattr(p, name) for p in parts]) for name in ARRAYS}))
        for part in parts:
            two.add(part)
    a, b = one.observe(4.0), two.observe(4.0)
    assert a.direction.tobytes() == b.direction.tobytes()
