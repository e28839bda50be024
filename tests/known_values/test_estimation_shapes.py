"""Shapes whose pose is known in closed form, and symmetries that every estimate must share."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
import pytest

from onboard.estimation.converge import Problem, converge
from onboard.estimation.disc_gauss_newton import DiscGaussNewtonConfig
from onboard.estimation.disc_gradient import DiscGradientConfig
from onboard.estimation.disc_map import DiscMapConfig
from onboard.estimation.equations import DIRECTION, INCLINATION
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.layer import loss_and_gradient
from onboard.estimation.so3 import exp_so3, log_so3
from onboard.messages import StrutObservations, frozen
from tests.unit.estimation_support import METHODS, bent, estimator, observed, pose_of, robot, yaw

TWISTS = (45.0, 135.0, 146.7)
FREE = np.array([1e6, 1e-9, 1e-9, 1e6, 1e9])  # weights: lengths and a flat ring, no priors worth the name


def one_module(twist_deg: float) -> DiscGeometry:
    tower = msgspec.structs.replace(robot(twist_deg).structure, modules=1, handedness=[1])
    return DiscGeometry.of(tower)


def test_pure_twist_is_recovered_in_closed_form_within_five_iterations() -> None:
    geometry, gamma, r = one_module(45.0), math.radians(49.0), 0.1
    length = geometry.strut_length_m[0, 0]
    assert abs(length - 0.244298720) < 1e-9
    height = math.sqrt(length**2 - 4 * r**2 * math.sin(gamma / 2) ** 2)
    assert abs(height - 0.229789132) < 1e-9
    cosine = height / length
    for mode in (INCLINATION, DIRECTION):
        direction = np.zeros((4, 3))
        b = geometry.upper_m[0] @ yaw(math.radians(4.0)).T
        direction[:] = (b + np.array([0.0, 0.0, height]) - geometry.lower_m[0]) / length
        assert np.abs(direction[:, 2] - cosine).max() < 1e-12
        problem = Problem(geometry, direction, np.full((2, 4), 1e6), np.ones(4), mode, FREE, np.zeros((1, 3)))
        position, rotation = geometry.rest_position_m.copy(), np.tile(np.eye(3), (2, 1, 1))
        converge(problem, position, rotation, np.zeros(1), 5)
        assert np.abs(position[1] - [0.0, 0.0, height]).max() < 1e-9
        assert abs(log_so3(rotation[1])[2] - math.radians(4.0)) < 1e-7


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("twist", TWISTS)
def test_an_upright_chain_of_constant_twist_stands_upright(twist: float, method: str) -> None:
    spec = robot(twist)
    geometry, more = DiscGeometry.of(spec.structure), 2.0
    bends = np.zeros((5, 3))
    bends[:, 2] = np.radians(more)
    position, _, direction = pose_of(geometry, bends)
    unit = estimator(method, spec)
    if method.startswith("map"):  # without priors, or they would pull the twist towards its rest
        config = DiscMapConfig(mode=method.removeprefix("map_"), twist_sigma_deg=180.0, memory_s=0.0, warp_sigma_m=1e-5)
        unit = config.build(spec)
    for k in range({"gradient": 4000, "gauss_newton": 600}.get(method, 60)):
        estimate = unit.update(observed(direction, t_s=0.0125 * k))
    # The gradient step creeps along directions that inclinations see weakly; the others are exact.
    limit_m, limit_rad = (2e-3, 0.15) if method == "gradient" else (2e-5, 4e-3)
    assert np.abs(estimate.tip_m - position[-1]).max() < limit_m
    assert np.abs(estimate.tip_m[:2]).max() < 1e-9
    assert abs(log_so3(estimate.rotation[-1])[2] - 5 * math.radians(more)) < limit_rad


@pytest.mark.parametrize("twist", TWISTS)
@pytest.mark.parametrize("mode", ("direction", "inclination"))
def test_turning_the_base_turns_the_solution(twist: float, mode: str) -> None:
    spec = robot(twist)
    plain = DiscGeometry.of(spec.structure)
    turn = yaw(0.7)
    turned = dataclasses.replace(
        plain,
        lower_m=frozen(plain.lower_m @ turn.T),
        upper_m=frozen(plain.upper_m @ turn.T),
        rest_direction=frozen(plain.rest_direction @ turn.T),
    )
    direction = noisy(plain)
    one, two = DiscMapConfig(mode=mode).on(plain, 0.08), DiscMapConfig(mode=mode).on(turned, 0.08)
    for k in range(5):
        a = one.update(observed(direction, 0.0125 * k))
        b = two.update(observed(direction @ turn.T, 0.0125 * k))
    assert np.abs(a.position_m @ turn.T - b.position_m).max() < 1e-9
    assert np.abs(turn @ a.rotation @ turn.T - b.rotation).max() < 1e-8
    assert np.abs(a.cable_length_m - b.cable_length_m).max() < 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_renumbering_struts_by_a_quarter_turn_changes_nothing(method: str) -> None:
    spec = robot()
    plain = DiscGeometry.of(spec.structure)
    rolled = dataclasses.replace(
        plain, lower_m=frozen(np.roll(plain.lower_m, 1, axis=1)), upper_m=frozen(np.roll(plain.upper_m, 1, axis=1))
    )
    direction = noisy(plain)
    moved = np.roll(direction.reshape(5, 4, 3), 1, axis=1).reshape(20, 3)
    configs = {
        "gradient": DiscGradientConfig(),
        "gauss_newton": DiscGaussNewtonConfig(),
        "map_inclination": DiscMapConfig(mode="inclination"),
        "map_direction": DiscMapConfig(),
    }
    one, two = configs[method].on(plain, 0.08), configs[method].on(rolled, 0.08)
    for k in range(20):
        a, b = one.update(observed(direction, 0.0125 * k)), two.update(observed(moved, 0.0125 * k))
    assert np.abs(a.position_m - b.position_m).max() < 1e-9
    assert np.abs(a.rotation - b.rotation).max() < 1e-8


def noisy(geometry: DiscGeometry) -> np.ndarray:
    _, _, direction = pose_of(geometry, bent())
    direction = direction + np.random.default_rng(8).normal(0.0, 0.005, direction.shape)
    return direction / np.linalg.norm(direction, axis=1)[:, None]


def test_both_hands_fit_inclinations_equally_and_the_prior_keeps_the_sign() -> None:
    geometry = one_module(45.0)
    gradient = np.empty(6)
    losses, cosine = [], np.full(4, 0.232 / geometry.strut_length_m[0, 0])
    for hand in (1.0, -1.0):
        # Discs turned against each other by +-45 degrees: the mirror image differs from the rest by -90 degrees.
        pose = np.array([0.0, 0.0, 0.232, 0.0, 0.0, math.radians(45.0 * hand - 45.0)])
        arguments = (geometry.lower_m[0], geometry.upper_m[0], geometry.strut_length_m[0], cosine, np.ones(4, dtype=bool))
        losses.append(loss_and_gradient(np.zeros(3), np.eye(3), pose, *arguments, 1.0, 1.0, gradient))
    assert max(losses) < 1e-24
    spec = robot(45.0)
    unit = DiscMapConfig(mode="inclination").build(spec)
    estimate = unit.update(observed(DiscGeometry.of(spec.structure).rest_direction))
    assert np.abs(estimate.rotation - np.eye(3)).max() < 1e-9


@pytest.mark.parametrize("twist", TWISTS)
def test_a_bent_tower_is_found_from_one_reading(twist: float) -> None:
    spec = robot(twist)
    geometry = DiscGeometry.of(spec.structure)
    position, rotation, direction = pose_of(geometry, bent(tilt_deg=70.0))
    estimate = DiscMapConfig().build(spec).update(observed(direction))
    assert np.linalg.norm(estimate.tip_m - position[-1]) < 0.01 * 1.16  # the priors and the warp's cost 1 % at most
    assert np.abs(log_so3(rotation[-1].T @ estimate.rotation[-1])).max() < 0.03


@pytest.mark.parametrize(
    ("mode", "twist", "noise"), (("direction", 146.7, 1.0), ("direction", 45.0, 1.0), ("inclination", 45.0, 0.1))
)
def test_without_model_mismatch_the_covariance_is_right(mode: str, twist: float, noise: float) -> None:
    """Normalised error squared of all 30 unknowns over 200 draws: its mean lies in the 99.9 % bounds of chi-square / 200.

    Inclination alone has several solutions that fit, so its draws stay near the upright tower, where the start lies.
    """
    spec, sigma_incl, sigma_az = robot(twist), 0.01 * noise, 0.02 * noise
    # Priors so weak that drawing poses from elsewhere does no harm; no memory: every tick stands alone.
    config = DiscMapConfig(
        mode=mode, memory_s=0.0, twist_sigma_deg=180.0, bend_sigma_deg=180.0, warp_sigma_m=1e-5, huber_sigmas=100.0,
        length_sigma_m=0.002 * noise, inclination_floor_deg=0.0, azimuth_floor_deg=0.0,
    )  # fmt: skip
    rng, draws, total = np.random.default_rng(9), 200, 0.0
    nominal, size = DiscGeometry.of(spec.structure), 1.0 if mode == "direction" else 0.2
    for _ in range(draws):
        bends = size * rng.normal(0.0, [0.08, 0.08, 0.03], (5, 3))
        position, rotation = [np.zeros(3)], [np.eye(3)]
        for m in range(5):
            position.append(position[-1] + rotation[-1] @ np.array([0.005 * size, -0.003 * size, 0.232]))
            rotation.append(rotation[-1] @ exp_so3(bends[m]))
        q, r = np.array(position), np.array(rotation)
        lower = np.einsum("mij,mkj->mki", r[:-1], nominal.lower_m) + q[:-1, None]
        upper = np.einsum("mij,mkj->mki", r[1:], nominal.upper_m) + q[1:, None]
        strut = upper - lower
        length = np.linalg.norm(strut, axis=2)
        geometry = dataclasses.replace(nominal, strut_length_m=length + rng.normal(0.0, config.length_sigma_m, length.shape))
        direction = misread((strut / length[..., None]).reshape(20, 3), sigma_incl, sigma_az, rng)
        unit = config.on(geometry, 0.08)
        estimate = unit.update(observed(direction, sigma_incl=sigma_incl, sigma_az=sigma_az))
        error = np.concatenate(
            [np.concatenate([estimate.position_m[m] - q[m], log_so3(estimate.rotation[m] @ r[m].T)]) for m in range(1, 6)]
        )
        total += error @ np.linalg.solve(estimate.covariance, error)
    mean, spread = total / draws / 30.0, 3.3 * math.sqrt(2.0 / (30.0 * draws))
    assert 1.0 - spread < mean < 1.0 + spread


def misread(direction: np.ndarray, sigma_incl: float, sigma_az: float, rng: np.random.Generator) -> np.ndarray:
    """Directions with noise: sigma_incl across the strut both ways, plus sigma_az of heading."""
    flat = np.stack([-direction[:, 1], direction[:, 0], np.zeros(len(direction))], axis=1)
    flat /= np.linalg.norm(flat, axis=1)[:, None]
    steep, n = np.cross(flat, direction), len(direction)
    sine = np.hypot(direction[:, 0], direction[:, 1])
    level = sigma_incl * rng.normal(size=n) + sine * sigma_az * rng.normal(size=n)
    out = direction + level[:, None] * flat + sigma_incl * rng.normal(size=n)[:, None] * steep
    return out / np.linalg.norm(out, axis=1)[:, None]


def test_without_memory_one_tick_is_one_gauss_newton_step() -> None:
    """From the last pose a small change of all readings is followed within a hundredth of it in a single tick."""
    spec = robot()
    geometry = DiscGeometry.of(spec.structure)
    config = DiscMapConfig(memory_s=0.0)
    before, after = pose_of(geometry, bent(tilt_deg=40.0))[2], pose_of(geometry, bent(tilt_deg=41.0))[2]
    unit = config.build(spec)
    start, stepped = unit.update(observed(before, 0.0)), unit.update(observed(after, 0.0125))
    goal = config.build(spec).update(observed(after, 0.0))
    whole = np.linalg.norm(goal.position_m - start.position_m)
    assert whole > 0.005
    assert np.linalg.norm(goal.position_m - stepped.position_m) < 0.01 * whole


@pytest.mark.parametrize("memory_s", (0.1, 0.4))
def test_a_step_that_no_gyro_saw_fades_in_with_the_memorys_time_constant(memory_s: float) -> None:
    """What is missing after one time constant is 1/e: the averaging is a first-order low-pass and nothing else."""
    spec = robot()
    geometry = DiscGeometry.of(spec.structure)
    before, after = pose_of(geometry, bent(tilt_deg=40.0))[2], pose_of(geometry, bent(tilt_deg=41.0))[2]
    unit = DiscMapConfig(memory_s=memory_s).build(spec)
    for k in range(200):
        start = unit.update(observed(before, 0.0125 * k)).tip_m
    for k in range(200, 200 + round(memory_s / 0.0125)):
        now = unit.update(observed(after, 0.0125 * k)).tip_m
    goal = DiscMapConfig().build(spec).update(observed(after, 0.0)).tip_m
    left = np.linalg.norm(goal - now) / np.linalg.norm(goal - start)
    assert abs(left - math.exp(-1.0)) < 0.03


@pytest.mark.parametrize("method", METHODS)
def test_the_same_readings_give_the_same_bits(method: str) -> None:
    spec = robot()
    geometry = DiscGeometry.of(spec.structure)
    rng = np.random.default_rng(10)
    _, _, direction = pose_of(geometry, bent())
    ticks: list[StrutObservations] = []
    for k in range(50):
        noise = direction + rng.normal(0.0, 0.01, direction.shape)
        ticks.append(observed(noise / np.linalg.norm(noise, axis=1)[:, None], 0.0125 * k, rate=rng.normal(0, 0.1, (20, 3))))
    runs = []
    for _ in range(2):
        unit = estimator(method, spec)
        runs.append([unit.update(tick) for tick in ticks])
    unit.reset()
    runs.append([unit.update(tick) for tick in ticks])  # after a reset too
    for a, b, c in zip(*runs, strict=True):
        for field in ("position_m", "rotation", "cable_length_m", "cable_jacobian", "covariance"):
            assert getattr(a, field).tobytes() == getattr(b, field).tobytes() == getattr(c, field).tobytes()
