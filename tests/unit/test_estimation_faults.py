"""What the pose estimators do when struts fall silent, lie or send what is not a number."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from onboard.config import convert
from onboard.errors import ConfigError, EstimationError
from onboard.estimation.disc_map import DiscMapConfig
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.report import LOST_AFTER_S
from onboard.estimation.so3 import exp_so3, log_so3
from onboard.messages import EstimateFlag, PoseEstimate, SensorFlag, StrutObservations, frozen
from onboard.resources import robot_file
from onboard.robot import build_spec
from onboard.robot import read_toml as read
from sim.estimation.shapes import Shapes
from tests.unit.estimation_support import METHODS, bent, estimator, observed, pose_of, robot

DT = 0.0125


@pytest.fixture(scope="module")
def spec():
    return robot()


@pytest.fixture(scope="module")
def scene(spec):
    """True positions, rotations and directions of a tower bent by 40 degrees."""
    return pose_of(DiscGeometry.of(spec.structure), bent())


def feed(unit, ticks: int, direction, start: int = 0, **more) -> PoseEstimate:
    """Run `ticks` equal readings through an estimator."""
    for k in range(start, start + ticks):
        estimate = unit.update(observed(direction, DT * k, **more))
    return estimate


def without(*struts: int) -> np.ndarray:
    valid = np.ones(20, dtype=bool)
    valid[list(struts)] = False
    return valid


def error_m(estimate: PoseEstimate, scene) -> float:
    return float(np.linalg.norm(estimate.tip_m - scene[0][-1]))


@pytest.mark.parametrize("method", METHODS)
def test_before_any_strut_has_spoken_there_is_no_estimate(spec, method: str) -> None:
    unit = estimator(method, spec)
    nothing = observed(np.tile([0.0, 0.0, 1.0], (20, 1)), valid=np.zeros(20))
    with pytest.raises(EstimationError, match="none of the 20 struts"):
        unit.update(nothing)


@pytest.mark.parametrize("method", METHODS)
def test_the_estimate_is_complete_and_read_only(spec, scene, method: str) -> None:
    estimate = feed(estimator(method, spec), 5, scene[2])
    shapes = {"position_m": (6, 3), "rotation": (6, 3, 3), "cable_length_m": (40,), "cable_jacobian": (40, 30)}
    for name, shape in (shapes | {"covariance": (30, 30), "strut_flags": (20,)}).items():
        array = getattr(estimate, name)
        assert array.shape == shape and np.isfinite(array).all() and not array.flags.writeable
    assert np.linalg.eigvalsh(estimate.covariance).min() > 0.0
    assert (estimate.covariance == estimate.covariance.T).all()
    assert estimate.age_s == 0.01 and estimate.flags == EstimateFlag.NONE


@pytest.mark.parametrize("method", METHODS)
def test_not_a_number_goes_no_further_and_leaves_no_trace(spec, scene, method: str) -> None:
    clean, hurt = estimator(method, spec), estimator(method, spec)
    good, bad = scene[2], scene[2].copy()
    bad[7] = math.nan
    feed(clean, 400, good), feed(hurt, 400, good)
    one, two = feed(clean, 1, good, start=400), feed(hurt, 1, bad, start=400)
    assert np.isfinite(two.position_m).all() and np.isfinite(two.covariance).all()
    assert two.flags & EstimateFlag.DEGRADED and not one.flags
    one, two = feed(clean, 100, good, start=401), feed(hurt, 100, good, start=401)
    assert np.abs(one.position_m - two.position_m).max() < 1e-4
    assert two.flags == EstimateFlag.NONE
    for field in ("rate_rad_s", "sigma_inclination_rad", "sigma_azimuth_rad"):
        broken = np.array(getattr(observed(good), field))
        broken[3] = math.inf
        tick = dataclasses.replace(observed(good, DT * 501), **{field: frozen(broken)})
        assert np.isfinite(hurt.update(tick).position_m).all()


@pytest.mark.parametrize("method", ("gradient", "gauss_newton"))
def test_numbers_that_overflow_leave_the_last_pose_standing(spec, scene, method: str) -> None:
    unit = estimator(method, spec)
    before = feed(unit, 50, scene[2])
    with np.errstate(over="ignore", invalid="ignore"):
        during = feed(unit, 5, scene[2] * 1e300, start=50)
    assert np.isfinite(during.position_m).all() and np.isfinite(during.rotation).all()
    after = feed(unit, 50, scene[2], start=55)
    assert np.linalg.norm(after.tip_m - before.tip_m) < 0.02


@pytest.mark.parametrize("method", METHODS)
def test_one_missing_strut_degrades_the_estimate_but_it_stays_good(spec, scene, method: str) -> None:
    unit = estimator(method, spec)
    before = feed(unit, 600, scene[2])
    after = feed(unit, 200, scene[2], start=600, valid=without(6))
    assert after.flags & EstimateFlag.DEGRADED and not after.flags & (EstimateFlag.COASTING | EstimateFlag.LOST)
    assert np.linalg.norm(after.tip_m - before.tip_m) < 0.02
    assert np.trace(after.covariance) > np.trace(before.covariance)


@pytest.mark.parametrize("module", (0, 2, 4))
def test_a_module_without_struts_holds_its_bend_and_says_so(spec, scene, module: int) -> None:
    unit = DiscMapConfig(coast_s=100.0).build(spec)
    before = feed(unit, 100, scene[2])
    after = feed(unit, 640, scene[2], start=100, valid=without(*range(4 * module, 4 * module + 4)))
    assert after.flags & EstimateFlag.COASTING
    assert error_m(after, scene) < 0.005 * 1.16
    assert after.tip_sigma_m > 1.2 * before.tip_sigma_m
    back = feed(unit, 200, scene[2], start=740)
    assert back.flags == EstimateFlag.NONE and np.abs(back.position_m - before.position_m).max() < 1e-3


def test_silence_of_all_struts_coasts_then_is_lost_and_ends(spec, scene) -> None:
    unit = DiscMapConfig().build(spec)
    before = feed(unit, 100, scene[2])
    nobody, ages, sigmas = np.zeros(20, dtype=bool), [], []
    for k in range(100, 340):
        estimate = unit.update(observed(scene[2], DT * k, valid=nobody))
        ages.append(estimate.age_s)
        sigmas.append(estimate.tip_sigma_m)
        lost = DT * (k - 99) > LOST_AFTER_S
        assert bool(estimate.flags & EstimateFlag.LOST) == lost
        assert estimate.flags & EstimateFlag.COASTING
    assert np.linalg.norm(estimate.tip_m - before.tip_m) < 0.12  # held, relaxing slowly
    assert np.diff(ages).min() > 0.0 and abs(ages[-1] - (0.01 + 240 * DT)) < 1e-9
    assert np.diff(sigmas).min() >= 0.0 and estimate.flags & EstimateFlag.UNCERTAIN
    back = feed(unit, 200, scene[2], start=340)
    assert back.flags == EstimateFlag.NONE and np.abs(back.position_m - before.position_m).max() < 1e-3


def test_gyros_carry_the_estimate_without_lag(spec) -> None:
    """A tower that bends at 60 degrees/s: exact readings of direction and rate leave next to no error in spite of the memory."""
    geometry = DiscGeometry.of(spec.structure)
    size = np.radians(10.0 + 60.0 * DT * np.arange(60)) / 5.0
    bends = np.zeros((60, 5, 3))
    bends[:, :, 1] = size[:, None]
    shapes = Shapes(geometry, bends, geometry.lower_m, geometry.upper_m)
    turning = np.cross(shapes.direction, np.gradient(shapes.direction, DT, axis=0))
    lag = []
    for rates in (turning, np.zeros_like(turning)):
        unit = DiscMapConfig(memory_s=0.5).build(spec)
        feed(unit, 200, shapes.direction[0])
        for k in range(60):
            estimate = unit.update(observed(shapes.direction[k], DT * (200 + k), rate=rates[k]))
        lag.append(float(np.linalg.norm(estimate.tip_m - shapes.position[-1, -1])))
    assert lag[0] < 0.006 and lag[1] > 10.0 * lag[0]


def test_a_strut_with_a_flipped_axis_is_singled_out_and_left_out(spec, scene) -> None:
    wrong = scene[2].copy()
    wrong[13, 0] *= -1.0
    unit = DiscMapConfig().build(spec)
    feed(unit, 100, scene[2])
    estimate = feed(unit, 200, wrong, start=100)
    flagged = np.flatnonzero(estimate.strut_flags & int(SensorFlag.INCONSISTENT))
    assert flagged.tolist() == [13]
    assert estimate.flags & EstimateFlag.DEGRADED
    assert error_m(estimate, scene) < 0.015 * 1.16
    healed = feed(unit, 400, scene[2], start=300)
    assert not healed.strut_flags.any() and healed.flags == EstimateFlag.NONE


@pytest.mark.parametrize("mode", ("direction", "inclination"))
def test_a_ring_that_is_not_flat_is_reported_and_no_strut_is_blamed(spec, scene, mode: str) -> None:
    """Struts of the third module lean by +-2 degrees in turn, as when its upper ring is a saddle of about 7 mm."""
    for lean_deg, flagged in ((0.5, False), (2.0, True)):
        direction = scene[2].copy()
        for strut in range(8, 12):
            u = direction[strut]
            flat = np.array([-u[1], u[0], 0.0]) / math.hypot(u[0], u[1])
            steep = np.cross(flat, u)
            angle = math.radians(lean_deg) * (-1.0) ** strut
            direction[strut] = math.cos(angle) * u + math.sin(angle) * steep
        estimate = feed(DiscMapConfig(mode=mode).build(spec), 200, direction)
        assert bool(estimate.flags & EstimateFlag.WARPED) == flagged
        assert not estimate.strut_flags.any()
        assert error_m(estimate, scene) < 0.01 * 1.16


@pytest.mark.parametrize("method", METHODS)
def test_all_struts_vertical_is_impossible_but_finite(spec, method: str) -> None:
    estimate = feed(estimator(method, spec), 100, np.tile([0.0, 0.0, 1.0], (20, 1)))
    assert np.isfinite(estimate.position_m).all() and np.isfinite(estimate.covariance).all()
    assert np.abs(np.linalg.det(estimate.rotation) - 1.0).max() < 1e-6


def test_a_tower_that_starts_bent_is_found_and_one_moved_during_silence_is_found_again(spec, scene) -> None:
    unit = DiscMapConfig().build(spec)
    assert error_m(feed(unit, 1, scene[2]), scene) < 0.01 * 1.16
    other = pose_of(DiscGeometry.of(spec.structure), bent(tilt_deg=100.0, heading_rad=-2.5))
    feed(unit, 240, scene[2], start=1, valid=np.zeros(20, dtype=bool))
    assert error_m(feed(unit, 40, other[2], start=241), other) < 0.01 * 1.16


def test_azimuth_drift_is_learnt_and_taken_out(spec, scene) -> None:
    """One strut's heading is 3 degrees off: the estimate finds the strut and most of the angle."""
    turn = exp_so3(np.array([0.0, 0.0, math.radians(3.0)]))
    wrong = scene[2].copy()
    wrong[9] = turn @ wrong[9]
    unit = DiscMapConfig().build(spec)
    estimate = feed(unit, 2400, wrong, sigma_az=math.radians(2.0))
    drift = np.degrees(unit.azimuth_drift_rad)
    assert int(np.argmax(np.abs(drift))) == 9 and 1.5 < drift[9] < 3.5
    assert np.abs(np.delete(drift, 9)).max() < 1.0
    assert error_m(estimate, scene) < 0.005 * 1.16


def test_a_fresh_heading_forgets_the_drift_learnt(spec, scene) -> None:
    turn = exp_so3(np.array([0.0, 0.0, math.radians(3.0)]))
    wrong = scene[2].copy()
    wrong[9] = turn @ wrong[9]
    unit = DiscMapConfig().build(spec)
    feed(unit, 1200, wrong, sigma_az=math.radians(4.0))
    feed(unit, 1, scene[2], start=1200, sigma_az=math.radians(2.0))
    assert abs(unit.azimuth_drift_rad[9]) < math.radians(0.1)


@pytest.mark.parametrize("twist", (45.0, 135.0, 146.7))
def test_a_mirrored_tower_is_estimated_as_mirrored(twist: float) -> None:
    """Handedness comes from the file: with all signs changed, mirrored readings give the mirrored pose."""
    import msgspec

    one = robot(twist)
    tower = msgspec.structs.replace(one.structure, handedness=[-s for s in one.structure.handedness], ring_offset_deg=-45.0)
    two = msgspec.structs.replace(one, structure=tower)
    mirror = np.diag([1.0, -1.0, 1.0])
    _, _, direction = pose_of(DiscGeometry.of(one.structure), bent())
    image = direction.reshape(5, 4, 3)[:, [0, 3, 2, 1]].reshape(20, 3) @ mirror
    a, b = feed(DiscMapConfig().build(one), 5, direction), feed(DiscMapConfig().build(two), 5, image)
    assert np.abs(a.position_m @ mirror - b.position_m).max() < 1e-9


def test_parallel_struts_are_refused_with_the_reason() -> None:
    path = robot_file("manipulator")
    raw = read(path)
    raw["structure"]["strut_twist_deg"] = 0.0
    with pytest.raises(ConfigError, match="parallel struts carry no pose information"):
        build_spec(str(path), raw)


@pytest.mark.parametrize(
    ("key", "value"),
    [("memory_s", -1.0), ("length_sigma_m", 0.0), ("mode", "magic"), ("huber_sigmas", "2"), ("twist_sigma_dg", 5.0)],
)
def test_settings_out_of_range_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        convert("robot.toml", "estimator", {key: value}, DiscMapConfig)


def test_the_one_module_rig_is_estimated_from_its_own_file() -> None:
    rig = robot(name="module_rig")
    geometry = DiscGeometry.of(rig.structure)
    position, rotation, direction = pose_of(geometry, bent(modules=1, tilt_deg=20.0))
    estimate = feed(rig.estimator.build(rig), 100, direction)
    assert estimate.cable_length_m.shape == (4,) and estimate.covariance.shape == (6, 6)
    assert np.linalg.norm(estimate.tip_m - position[-1]) < 0.003
    assert np.abs(log_so3(rotation[-1].T @ estimate.rotation[-1])).max() < 0.03


def test_a_stalled_daemon_does_not_extrapolate_rates(spec, scene) -> None:
    """After 0.3 s without a tick the rate of the last sample is not taken for 0.3 s of turning."""
    unit = DiscMapConfig().build(spec)
    feed(unit, 100, scene[2])
    late: StrutObservations = observed(scene[2], DT * 99 + 0.3, rate=np.tile([1.0, 0.0, 0.0], (20, 1)))
    assert error_m(unit.update(late), scene) < 0.01 * 1.16
