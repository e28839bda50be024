"""The virtual inertial sensors: scales, statistics, own rates, determinism and faults."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.errors import UsageError
from onboard.messages import Floats
from onboard.robot import RobotSpec, load_robot
from sim.imu import FULL, Fault, ImuArray, ImuSamples, accel_scale, gyro_scale

ROBOTS = Path(__file__).parents[2] / "robots"
STEP_S = 0.002


@cache
def spec(robot: str = "manipulator") -> RobotSpec:
    return load_robot(ROBOTS / f"{robot}.toml")


def ideal(**imu: object) -> RobotSpec:
    """The manipulator with sensors that only count, and with other [imu] keys."""
    base = spec()
    zero = {key: 0.0 for key in msgspec.structs.asdict(base.simulation.imu)}
    simulation = msgspec.structs.replace(base.simulation, imu=msgspec.structs.replace(base.simulation.imu, **zero))
    return msgspec.structs.replace(base, simulation=simulation, imu=msgspec.structs.replace(base.imu, **imu))


def record(array: ImuArray, seconds: float, force: Floats | None = None, rate: Floats | None = None) -> list[ImuSamples]:
    force = np.tile([0.0, 0.0, 9.81], (array.count, 1)) if force is None else force
    rate = np.zeros((array.count, 3)) if rate is None else rate
    return [array.update(k * STEP_S, force, rate) for k in range(round(seconds / STEP_S))]


def of_strut(samples: list[ImuSamples], strut: int) -> tuple[Floats, Floats, Floats]:
    """(times (k,), counts (k, 6), counters (k,)) of one strut."""
    rows = [(s, s.strut == strut) for s in samples]
    return (
        np.concatenate([s.t_s[r] for s, r in rows]),
        np.concatenate([np.hstack([s.accel[r], s.gyro[r]]) for s, r in rows]).astype(float),
        np.concatenate([s.counter[r] for s, r in rows]),
    )


def test_counts_have_the_data_sheets_scales() -> None:
    lsm, mpu = spec().imu, spec("module_rig").imu
    assert accel_scale(lsm) == pytest.approx(0.122e-3 * 9.80665)
    assert np.degrees(gyro_scale(lsm)) == pytest.approx(0.0175)  # not 500/32768, which reads 12.8 % low
    assert accel_scale(mpu) == pytest.approx(4 * 9.80665 / 32768)
    assert np.degrees(gyro_scale(mpu)) == pytest.approx(500 / 32768)


def test_an_ideal_sensor_counts_what_is_there() -> None:
    array = ImuArray(ideal(), seed=1)
    rate = np.tile([0.1, -0.2, 0.3], (20, 1))
    _, counts, _ = of_strut(record(array, 0.5, rate=rate), 4)
    expected = np.array([0.0, 0.0, 9.81, 0.1, -0.2, 0.3]) / array.scale
    np.testing.assert_array_equal(counts, np.tile(np.round(expected), (len(counts), 1)))


def test_the_mounting_turns_sensor_axes_into_strut_axes() -> None:
    # A quarter turn about x: the sensor's y axis lies along the strut.
    array = ImuArray(ideal(mounting_wxyz=[np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0]), seed=1)
    _, counts, _ = of_strut(record(array, 0.2), 0)
    np.testing.assert_allclose(counts[-1, :3] * array.scale[:3], [0.0, 9.81, 0.0], atol=0.002)


def test_noise_and_bias_have_the_files_sizes() -> None:
    base = spec()
    deviations, biases = [], []
    for seed in range(4):
        array = ImuArray(base, seed)
        samples = record(array, 4.0)
        deviations += [of_strut(samples, s)[1].std(axis=0) * array.scale for s in range(20)]
        biases.append(array.bias)
    noise = np.mean(deviations, axis=0)
    np.testing.assert_allclose(noise[:3], base.simulation.imu.accel_noise_m_s2, rtol=0.05)
    np.testing.assert_allclose(noise[3:], base.simulation.imu.gyro_noise_rad_s, rtol=0.05)
    np.testing.assert_allclose(np.std(np.vstack(biases)[:, :3]), base.simulation.imu.accel_bias_m_s2, rtol=0.15)


def test_misalignment_has_the_files_size() -> None:
    angles = []
    for seed in range(20):
        array = ImuArray(spec(), seed)
        angles += [np.arccos(np.clip((np.trace(r) - 1.0) / 2.0, -1.0, 1.0)) for r in array.to_sensor]
    assert np.degrees(np.sqrt(np.mean(np.square(angles)))) == pytest.approx(0.3, rel=0.1)


def test_every_sensor_has_its_own_rate_and_phase_and_its_counter_never_skips() -> None:
    array = ImuArray(spec(), seed=5)
    samples = record(array, 5.0)
    tracks = [of_strut(samples, s) for s in range(20)]
    rates = np.array([(len(t) - 1) / (t[-1] - t[0]) for t, _, _ in tracks])
    np.testing.assert_allclose(rates, array.rate_hz, rtol=1e-6)
    assert 0.002 < np.std(rates) / 104.0 < 0.03
    assert len({round(float(t[0]), 6) for t, _, _ in tracks}) == 20
    for times, _, counter in tracks:
        np.testing.assert_array_equal(np.diff(counter), 1)
        assert np.all(np.diff(times) > 0.0)


def test_samples_follow_the_truth_through_the_sensors_filter() -> None:
    array = ImuArray(ideal(), seed=1)
    still, moved = np.zeros((20, 3)), np.full((20, 3), 1.0)
    for k in range(50):
        array.update(k * STEP_S, still, still)
    samples = [array.update((50 + k) * STEP_S, moved, still) for k in range(50)]
    times, counts, _ = of_strut(samples, 3)
    value = counts[:, 0] * array.scale[0]
    delay = times - 49 * STEP_S  # when the filter first saw the change
    np.testing.assert_allclose(value, 1.0 - np.exp(-2.0 * np.pi * 52.0 * delay), atol=0.1)
    assert value[-1] == pytest.approx(1.0, abs=2e-3)


def test_strong_motion_saturates_instead_of_wrapping() -> None:
    array = ImuArray(ideal(), seed=1)
    _, counts, _ = of_strut(record(array, 0.2, force=np.tile([80.0, -80.0, 0.0], (20, 1))), 0)
    assert counts[-1, 0] == FULL
    assert counts[-1, 1] == -FULL - 1


def test_the_same_seed_gives_the_same_samples() -> None:
    one, two, other = (record(ImuArray(spec(), seed), 0.5) for seed in (7, 7, 8))
    assert all(np.array_equal(a.accel, b.accel) and np.array_equal(a.t_s, b.t_s) for a, b in zip(one, two, strict=True))
    assert any(len(a.accel) != len(b.accel) or not np.array_equal(a.accel, b.accel) for a, b in zip(one, other, strict=True))


def test_each_fault_does_what_its_name_says() -> None:
    array = ImuArray(spec(), seed=3)
    array.set_fault(1, Fault.MISSING)
    array.set_fault(2, Fault.SATURATED, axis=4)
    array.set_fault(3, Fault.FLIPPED, axis=2)
    record(array, 0.1)
    array.set_fault(4, Fault.FROZEN, axis=0)
    array.set_fault(5, Fault.FROZEN)
    samples = [array.update(0.1 + k * STEP_S, np.tile([0.0, 0.0, 9.81], (20, 1)), np.zeros((20, 3))) for k in range(200)]
    assert len(of_strut(samples, 1)[0]) == 0
    assert np.all(of_strut(samples, 2)[1][:, 4] == FULL)
    assert np.all(of_strut(samples, 3)[1][:, 2] * array.scale[2] < -9.0)
    frozen = of_strut(samples, 4)
    assert np.ptp(frozen[1][:, 0]) == 0
    assert np.ptp(frozen[1][:, 1]) > 0
    assert np.all(np.ptp(of_strut(samples, 5)[1], axis=0) == 0)
    assert len(of_strut(samples, 5)[0]) > 30  # samples go on
    array.set_fault(1, Fault.NONE)
    healed = [array.update(0.5 + k * STEP_S, np.tile([0.0, 0.0, 9.81], (20, 1)), np.zeros((20, 3))) for k in range(50)]
    assert len(of_strut(healed, 1)[0]) > 5


def test_a_fault_of_a_strut_that_does_not_exist_is_refused() -> None:
    array = ImuArray(spec(), seed=3)
    for strut, axis in ((20, 0), (-1, 0), (0, 6)):
        with pytest.raises(UsageError):
            array.set_fault(strut, Fault.FROZEN, axis)


def test_sensors_faster_than_the_plant_give_every_sample() -> None:
    array = ImuArray(ideal(rate_hz=800.0), seed=1)
    times, _, counter = of_strut(record(array, 1.0), 0)
    np.testing.assert_allclose(np.diff(times), 1.0 / array.rate_hz[0], rtol=1e-9)
    np.testing.assert_array_equal(np.diff(counter), 1)
