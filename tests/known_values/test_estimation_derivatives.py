"""Gradients and Jacobians of the estimators against central differences and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.estimation.cables import cable_lengths
from onboard.estimation.converge import Problem
from onboard.estimation.equations import DIRECTION, INCLINATION
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.layer import loss_and_gradient, residuals
from onboard.estimation.so3 import exp_so3, inverse_left_jacobian, log_so3, multiply, right_jacobian
from tests.unit.estimation_support import bent, pose_of, robot

TWISTS = (45.0, 135.0, 146.7)
SIZES = (0.0, 1e-6, 1e-3, 0.3, 2.0, math.pi - 1e-6, math.pi - 1e-3)


def unit(rng: np.random.Generator) -> np.ndarray:
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


@pytest.mark.parametrize("size", SIZES)
def test_the_logarithm_undoes_the_exponential_up_to_pi(size: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        w = size * unit(rng)
        r = exp_so3(w)
        assert np.abs(r @ r.T - np.eye(3)).max() < 1e-14
        assert np.abs(log_so3(r) - w).max() < 1e-9


def test_a_half_turn_about_each_axis_has_a_logarithm_of_length_pi() -> None:
    for axis in np.eye(3):
        w = log_so3(exp_so3(math.pi * axis))
        assert abs(np.linalg.norm(w) - math.pi) < 1e-12
        assert abs(abs(w @ axis) - math.pi) < 1e-12


@pytest.mark.parametrize("size", SIZES)
def test_so3_jacobians_match_central_differences(size: float) -> None:
    rng, eps = np.random.default_rng(2), 1e-6
    w = size * unit(rng)
    right, left = np.empty((3, 3)), np.empty((3, 3))
    for i, axis in enumerate(np.eye(3)):
        plus, minus = exp_so3(w + eps * axis), exp_so3(w - eps * axis)
        right[:, i] = log_so3(exp_so3(w).T @ plus) - log_so3(exp_so3(w).T @ minus)
        if size < 3.0:
            left[:, i] = log_so3(exp_so3(eps * axis) @ exp_so3(w)) - log_so3(exp_so3(-eps * axis) @ exp_so3(w))
    assert np.abs(right / (2 * eps) - right_jacobian(w)).max() < 1e-8
    if size < 3.0:
        assert np.abs(left / (2 * eps) - inverse_left_jacobian(w)).max() < 1e-8


def test_a_long_chain_of_products_stays_a_rotation() -> None:
    rng = np.random.default_rng(3)
    r = np.eye(3)
    for _ in range(20_000):
        multiply(exp_so3(0.1 * rng.normal(size=3)), r, r)
    assert np.abs(r @ r.T - np.eye(3)).max() < 1e-14


@pytest.mark.parametrize("twist", TWISTS)
@pytest.mark.parametrize("size", (1e-6, 0.4, math.pi - 1e-3))
def test_the_papers_gradient_matches_central_differences(twist: float, size: float) -> None:
    geometry = DiscGeometry.of(robot(twist).structure)
    rng = np.random.default_rng(4)
    r1, q1 = exp_so3(0.5 * unit(rng)), rng.normal(size=3)
    pose = np.concatenate([[0.01, -0.02, 0.24], size * unit(rng)])
    cosine, use = rng.uniform(0.6, 0.95, 4), np.ones(4, dtype=bool)
    arguments = (geometry.lower_m[0], geometry.upper_m[0], geometry.strut_length_m[0], cosine, use, 3.0, 0.2)
    gradient, other = np.empty(6), np.empty(6)
    loss_and_gradient(q1, r1, pose, *arguments, gradient)
    numeric, eps = np.empty(6), 1e-5
    for i in range(6):
        step = eps * np.eye(6)[i]
        # Fourth-order central difference: the second-order one is itself off by more than 1e-7.
        values = [loss_and_gradient(q1, r1, pose + k * step, *arguments, other) for k in (-2, -1, 1, 2)]
        numeric[i] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * eps)
    assert np.linalg.norm(numeric - gradient) < 1e-7 * np.linalg.norm(gradient)


@pytest.mark.parametrize("mode", (DIRECTION, INCLINATION))
@pytest.mark.parametrize("twist", TWISTS)
def test_the_joint_gradient_matches_central_differences(twist: float, mode: int) -> None:
    geometry = DiscGeometry.of(robot(twist).structure)
    rng = np.random.default_rng(5)
    position, rotation, direction = pose_of(geometry, bent())
    position[1:] += 0.002 * rng.normal(size=(5, 3))
    for k in range(1, 6):
        rotation[k] = exp_so3(0.02 * rng.normal(size=3)) @ rotation[k]
    direction = direction + 0.02 * rng.normal(size=direction.shape)
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    # A stiff warp keeps it out of the way; Huber's corner is at two sigma, so that both branches are taken.
    weight = np.array([0.002**-2, 0.1**-2, 0.4**-2, 1e16, 2.0])
    weights = np.array([np.full(20, 0.01**-2), np.full(20, 0.02**-2)])
    problem = Problem(geometry, direction, weights, np.ones(20), mode, weight, 0.05 * rng.normal(size=(5, 3)))
    warp = np.zeros(5)
    problem.cost(position, rotation, warp)
    gradient, sizes = problem.g.copy(), np.hypot(*problem.residual.T)
    assert (sizes > 2.0).any() and (sizes < 2.0).any()
    numeric = np.empty(30)
    for i in range(30):
        values = []
        for k in (-2, -1, 1, 2):
            q, r = position.copy(), rotation.copy()
            d = 1e-5 * k * np.eye(6)[i % 6]
            q[i // 6 + 1] += d[:3]
            r[i // 6 + 1] = exp_so3(d[3:]) @ r[i // 6 + 1]
            values.append(problem.cost(q, r, warp))
        numeric[i] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-5
    assert np.linalg.norm(numeric - gradient) < 1e-7 * np.linalg.norm(gradient)


def test_cable_lengths_change_as_their_jacobian_says() -> None:
    geometry = DiscGeometry.of(robot().structure)
    position, rotation, _ = pose_of(geometry, bent())
    length, jacobian = cable_lengths(position, rotation, geometry.lower_m, geometry.upper_m, geometry.cables)
    assert length.shape == (40,) and jacobian.shape == (40, 30)
    for i in range(30):
        ends = []
        for sign in (1.0, -1.0):
            q, r, d = position.copy(), rotation.copy(), sign * 1e-6 * np.eye(6)[i % 6]
            q[i // 6 + 1] += d[:3]
            r[i // 6 + 1] = exp_so3(d[3:]) @ r[i // 6 + 1]
            ends.append(cable_lengths(q, r, geometry.lower_m, geometry.upper_m, geometry.cables)[0])
        assert np.abs((ends[0] - ends[1]) / 2e-6 - jacobian[:, i]).max() < 1e-8


def test_upright_cables_have_the_length_of_the_robots_file() -> None:
    tower = robot().structure
    geometry = DiscGeometry.of(tower)
    upright = np.tile(np.eye(3), (6, 1, 1))
    length, _ = cable_lengths(geometry.rest_position_m, upright, geometry.lower_m, geometry.upper_m, geometry.cables)
    # A cable of step k spans the azimuth x - 90 k degrees: sqrt(h^2 + 4 r^2 sin^2((x - 90 k) / 2)).
    for group, step in enumerate((1, 2)):
        span = math.radians(146.7 - 90.0 * step)
        expected = math.hypot(0.232, 0.2 * math.sin(span / 2))
        assert np.abs(length.reshape(5, 2, 4)[:, group] - expected).max() < 1e-12


def test_rank_and_singular_values_at_rest() -> None:
    for twist, rank in ((0.0, 3), (45.0, 6)):
        geometry = DiscGeometry.of(robot(45.0).structure)
        a = geometry.lower_m[0]
        b = a @ exp_so3(np.array([0.0, 0.0, math.radians(twist)])).T
        rest = np.array([0.0, 0.0, 0.232, 0.0, 0.0, 0.0])
        jac = residuals(np.zeros(3), np.eye(3), rest, a, b, np.ones(4), np.ones(4), np.ones(4, dtype=bool))[1]
        rows = [jac[2 * j] for j in range(4)]
        rows += [np.concatenate([[0.0, 0.0, 1.0], np.cross(b[j], [0.0, 0.0, 1.0])]) for j in range(4)]
        scaled = np.array(rows) / np.array([1.0, 1.0, 1.0, 0.1, 0.1, 0.1])
        values = np.linalg.svd(scaled, compute_uv=False)
        assert (values > 1e-9).sum() == rank
        if rank == 6:
            # reference page, "Known right values"
            assert np.abs(values - [2.7875, 1.9747, 1.9747, 0.4153, 0.3173, 0.3173]).max() < 5e-5
