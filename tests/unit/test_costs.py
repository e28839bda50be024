"""Costs of rollouts are the numbers that one works out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.planning.costs import Effort, Quadratic, Reach, SlackCables, StrutState, Sum

LAYOUT = StrutState(caps=6, cables=6)


def state_with(caps: np.ndarray, rest: float = 1.0) -> np.ndarray:
    """One sample, one step."""
    state = np.zeros((1, 1, LAYOUT.size))
    state[0, 0, :18] = caps.ravel()
    state[0, 0, 36:42] = rest
    return state


def robot_along(angle_deg: float, centre: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    """Three parallel rods, 2.95 long, in the given direction."""
    axis = np.array([np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg)), 0.0])
    caps = np.zeros((6, 3))
    caps[0::2], caps[1::2] = -1.475 * axis, 1.475 * axis
    caps[:, :2] += centre
    return caps


def test_reach_is_the_planar_distance_of_the_centre_of_mass() -> None:
    cost = Reach(LAYOUT, np.array([3.0, 4.0]))
    assert cost(state_with(robot_along(20.0)), np.zeros((1, 1, 6))) == pytest.approx([5.0])


@pytest.mark.parametrize(
    ("axis_deg", "phi_deg"), [(90, 0), (-90, 0), (0, 90), (45, 45), (135, 45), (179, 89), (-179, 89), (91, 1), (89, 1)]
)
def test_the_heading_counts_modulo_half_a_turn(axis_deg: float, phi_deg: float) -> None:
    """The goal lies along x; a robot whose axis points along y rolls straight to it, forwards or backwards."""
    cost = Reach(LAYOUT, np.array([10.0, 0.0]), heading_weight=3.0)
    got = cost(state_with(robot_along(axis_deg)), np.zeros((1, 1, 6)))[0]
    assert got == pytest.approx(10.0 + 3.0 * np.radians(phi_deg))


def test_near_the_goal_the_heading_fades() -> None:
    cost = Reach(LAYOUT, np.array([1.0, 0.0]), heading_weight=3.0, fade=2.0)
    assert cost(state_with(robot_along(0.0)), np.zeros((1, 1, 6)))[0] == pytest.approx(1.0 + 0.5 * 3.0 * np.pi / 2)
    assert cost(state_with(robot_along(0.0, (1.0, 0.0))), np.zeros((1, 1, 6)))[0] == pytest.approx(0.0)


def test_slack_is_rest_length_beyond_the_cable() -> None:
    caps = robot_along(0.0)
    pairs = np.array([[0, 1]] * 6)
    cost = SlackCables(LAYOUT, pairs, offset=0.36, weight=0.5)
    assert cost(state_with(caps, rest=2.59), np.zeros((1, 1, 6)))[0] == 0.0
    assert cost(state_with(caps, rest=2.84), np.zeros((1, 1, 6)))[0] == pytest.approx(0.5 * 6 * 0.2)


def test_quadratic_and_effort_add_up() -> None:
    states, controls = np.array([[[1.0], [3.0]]]), np.array([[[2.0], [0.0]]])
    quadratic = Quadratic(np.eye(1), 0.5 * np.eye(1), 2.0 * np.eye(1), np.array([1.0]))
    assert quadratic(states, controls) == pytest.approx([0.0 + 0.5 * 4.0 + 2.0 * 4.0])
    assert Sum((quadratic, Effort(3.0)))(states, controls) == pytest.approx([10.0 + 3.0 * 2.0])


def test_a_rollout_that_is_not_a_number_costs_not_a_number() -> None:
    """So that the controller sees it and leaves it out, instead of taking it for a good one."""
    broken = state_with(robot_along(0.0) * np.nan)
    for cost in (Reach(LAYOUT, np.zeros(2), 3.0), SlackCables(LAYOUT, np.array([[0, 1]] * 6), 0.36, 0.5)):
        assert np.isnan(cost(broken, np.zeros((1, 1, 6)))[0])
