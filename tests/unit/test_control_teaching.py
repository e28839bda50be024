"""While taught, the arm yields to a hand, keeps part of where it was led, and never leaves its range."""

import numpy as np
import pytest

from onboard.control.teaching import Teacher, TeachingConfig
from onboard.errors import NotANumberError
from onboard.messages import EstimateFlag, frozen
from tests.unit.control_support import MEASURED, SPEC, TICK_S, VALVES, bent, estimate


def taught(poses, start=3.5e5, **change):
    teacher = Teacher(SPEC)
    teacher.start(np.full(40, start))
    return [teacher.update(k * TICK_S, estimate(k * TICK_S, pose, **change), MEASURED).value for k, pose in enumerate(poses)]


def led(tilt_deg, seconds=6.0):
    steps = round(seconds / TICK_S)
    return [bent(tilt_deg * min(1.0, 2.0 * k / steps)) for k in range(steps)]


def test_it_begins_with_the_pressures_that_are_there():
    assert taught([bent(20.0)], start=2.7e5)[0] == pytest.approx(np.full(40, 2.7e5))


def test_cylinders_that_the_hand_shortens_get_more_pressure_and_lengthened_ones_less():
    out = taught(led(30.0))[-1]
    change = estimate(pose=bent(30.0)).cable_length_m - estimate().cable_length_m
    far = np.abs(change) > 0.003
    assert (np.sign(out[far] - 3.5e5) == -np.sign(change[far])).all()


def test_the_help_stays_below_the_arms_own_stiffness():
    """Reference measurement on the plant: bending takes 6e6 Pa/m and more; with as much help the arm would not come back."""
    out = taught(led(30.0))[-1]
    change = estimate(pose=bent(30.0)).cable_length_m - estimate().cable_length_m
    given = -(out - 3.5e5) @ change / (change @ change)
    assert 1.0e6 < given < 4.5e6
    assert TeachingConfig().assist_pa_per_m < 6.0e6


def test_pressures_drift_to_the_mean_of_the_rest_pressure_without_bending_the_arm():
    out = taught([bent()] * 600, start=2.0e5)
    assert out[-1] == pytest.approx(np.full(40, VALVES.rest_pressure_pa), abs=500.0)
    steps = np.abs(np.diff(np.array(out), axis=0)).max()
    assert steps <= TeachingConfig().max_rate_pa_per_s * TICK_S + 1e-6


def test_range_and_rate_hold_however_wildly_the_arm_is_thrown():
    rng = np.random.default_rng(5)
    out = np.array(taught([bent(rng.uniform(0, 90), rng.uniform(-3, 3)) for _ in range(400)], start=1.2e5))
    assert (out >= VALVES.min_pressure_pa).all() and (out <= VALVES.max_pressure_pa).all()
    assert np.abs(np.diff(out, axis=0)).max() <= TeachingConfig().max_rate_pa_per_s * TICK_S + 1e-6


@pytest.mark.parametrize("flag", [EstimateFlag.UNCERTAIN, EstimateFlag.LOST, EstimateFlag.COASTING])
def test_with_a_poor_estimate_pressures_stay_as_they_are(flag):
    assert taught(led(30.0), flags=flag)[-1] == pytest.approx(np.full(40, 3.5e5))


def test_bad_numbers_are_refused():
    teacher = Teacher(SPEC)
    with pytest.raises(NotANumberError):
        teacher.update(0.0, estimate(cable_length_m=frozen(np.full(40, np.nan))), MEASURED)


def test_starting_anew_forgets_what_was_before():
    teacher = Teacher(SPEC)
    for k, pose in enumerate(led(40.0)):
        teacher.update(k * TICK_S, estimate(k * TICK_S, pose), MEASURED)
    teacher.start(np.full(40, 3.0e5))
    assert teacher.update(100.0, estimate(100.0, bent(40.0)), MEASURED).value == pytest.approx(np.full(40, 3.0e5))
