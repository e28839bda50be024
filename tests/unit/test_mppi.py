"""MPPI keeps its promises: bounds, weights, warm starts, failures."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.errors import NotANumberError, PlanningError
from onboard.messages import Floats
from onboard.planning.mppi import Mppi, MppiConfig, smooth, softmax_weights
from onboard.planning.sampling import Bang, Bounds, Coloured, Gaussian, Knots, Mixture, Uniform

UNIT = Bounds(np.zeros(1), np.ones(1))


class Recorder:
    """A dynamics that integrates the controls and remembers what it was asked to roll out."""

    def __init__(self) -> None:
        self.seen: list[Floats] = []

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        self.seen.append(controls.copy())
        out: Floats = state + np.cumsum(controls, axis=1)
        return out


def square(states: Floats, controls: Floats) -> Floats:
    cost: Floats = ((states[:, -1] - 2.0) ** 2).sum(axis=1)
    return cost


def controller(cost=square, bounds=UNIT, seed=0, **changes) -> Mppi:
    settings = dict(horizon_steps=8, step_s=0.1, knots=8, samples=32)
    return Mppi(MppiConfig(**{**settings, **changes}), bounds, Recorder(), cost, seed)


@pytest.mark.parametrize("interpolation", ["hold", "linear", "cubic"])
@pytest.mark.parametrize("choice", ["weighted", "best", "elite"])
def test_every_issued_and_rolled_out_action_is_in_bounds(choice: str, interpolation: str) -> None:
    mppi = controller(choice=choice, interpolation=interpolation, knots=5, smoothing=3, sampler=Gaussian(5.0))
    mppi.reset(np.array([[0.0], [9.0], [-9.0], [1.0], [0.3]]))
    for tick in range(6):
        mppi.plan(np.zeros(1), 0.1 * tick)
        action = mppi.act(0.1 * tick)
        assert action is not None and 0.0 <= action[0] <= 1.0
    for controls in mppi.dynamics.seen:
        assert controls.min() >= 0.0 and controls.max() <= 1.0


def test_with_zero_noise_tick_k_issues_the_kth_action_and_the_tail_is_the_initial_value() -> None:
    start = np.array([[0.0], [1.0], [0.0], [1.0], [0.2], [0.9], [0.0], [1.0]])
    mppi = controller(sampler=Gaussian(0.0), smoothing=5, tail=np.array([0.4]))
    mppi.reset(start)
    for tick in range(8):
        plan = mppi.plan(np.zeros(1), 0.1 * tick)
        assert mppi.act(0.1 * tick) == pytest.approx(start[tick])
        assert plan.value[8 - tick :] == pytest.approx(np.full((tick, 1), 0.4))


@pytest.mark.parametrize(
    ("costs", "weights"),
    [
        ([1e6 + 5, 1e6 + 1, 1e6 + 9], [np.exp(-4), 1.0, np.exp(-8)]),
        ([1e9, 1.0, 2.0], [0.0, 1.0, np.exp(-1)]),
        ([3.0, 3.0, 3.0], [1.0, 1.0, 1.0]),
        ([np.nan, 1.0, 2.0], [0.0, 1.0, np.exp(-1)]),
        ([np.inf, 1.0, -np.inf], [0.0, 1.0, 0.0]),
        ([-1e308, 1e308, 0.0], [1.0, 0.0, 0.0]),
    ],
)
def test_weights_are_conditioned(costs: list[float], weights: list[float]) -> None:
    got = softmax_weights(np.array(costs), 1.0)
    assert got.sum() == pytest.approx(1.0)
    assert got == pytest.approx(np.array(weights) / np.sum(weights), abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_finite_cost_means_no_plan_and_the_one_before_goes_on(bad: float) -> None:
    mppi = controller()
    before = mppi.plan(np.zeros(1), 0.0)
    mppi.cost = lambda states, controls: np.full(len(states), bad)
    with pytest.raises(PlanningError, match="not finite"):
        mppi.plan(np.zeros(1), 0.1)
    assert mppi.current is before
    assert mppi.act(0.2) is not None
    mppi.cost = square
    mppi.plan(np.zeros(1), 0.2)


def test_one_sample_that_is_not_a_number_is_left_out_and_counted() -> None:
    def poisoned(states: Floats, controls: Floats) -> Floats:
        costs = square(states, controls)
        costs[3] = np.nan
        costs[4] = -np.inf
        return costs

    for choice in ("weighted", "best", "elite"):
        mppi = controller(cost=poisoned, choice=choice, iterations=3)
        assert np.isfinite(mppi.plan(np.zeros(1), 0.0).value).all()
        assert mppi.refused_samples == 6


@pytest.mark.parametrize("choice", ["weighted", "best", "elite"])
def test_equal_costs_leave_the_plan_as_it_is(choice: str) -> None:
    mppi = controller(cost=lambda states, controls: np.full(len(states), 7.0), choice=choice)
    start = np.linspace(0.1, 0.9, 8)[:, None]
    mppi.reset(start)
    assert mppi.plan(np.zeros(1), 0.0).value == pytest.approx(start)


def test_a_state_that_is_not_a_number_is_refused_and_leaves_no_trace() -> None:
    poisoned, clean = controller(seed=4), controller(seed=4)
    with pytest.raises(NotANumberError):
        poisoned.plan(np.array([np.nan]), 0.0)
    for tick in range(3):
        assert np.array_equal(poisoned.plan(np.zeros(1), 0.1 * tick).value, clean.plan(np.zeros(1), 0.1 * tick).value)


def test_a_new_limit_holds_at_the_next_tick_also_for_the_plan_being_played() -> None:
    mppi = controller(cost=lambda states, controls: -states[:, -1, 0])
    mppi.plan(np.zeros(1), 0.0)
    assert mppi.act(0.1)[0] > 0.5
    mppi.set_bounds(Bounds(np.zeros(1), np.array([0.25])))
    assert mppi.act(0.1)[0] == 0.25
    plan = mppi.plan(np.zeros(1), 0.2)
    assert plan.value.max() <= 0.25
    assert mppi.dynamics.seen[-1].max() <= 0.25
    with pytest.raises(PlanningError):
        mppi.set_bounds(Bounds(np.zeros(2), np.ones(2)))


def test_a_new_goal_is_followed_at_once() -> None:
    mppi = controller(bounds=Bounds(-np.ones(1), np.ones(1)), samples=256, iterations=3)
    for tick in range(4):
        mppi.plan(np.zeros(1), 0.1 * tick)
    mppi.cost = lambda states, controls: ((states[:, -1] + 2.0) ** 2).sum(axis=1)
    plan = mppi.plan(np.zeros(1), 0.4)
    assert plan.value.sum() < 0.0


@pytest.mark.parametrize("steps", [1, 3, 16])
def test_the_horizon_can_change_while_running(steps: int) -> None:
    mppi = controller()
    mppi.plan(np.zeros(1), 0.0)
    mppi.set_config(MppiConfig(horizon_steps=steps, step_s=0.1, knots=min(steps, 8), samples=16))
    plan = mppi.plan(np.zeros(1), 0.1)
    assert plan.value.shape == (steps, 1)
    assert mppi.act(0.1) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        dict(horizon_steps=0),
        dict(knots=0),
        dict(knots=9),
        dict(samples=0),
        dict(iterations=0),
        dict(temperature=0.0),
        dict(temperature=float("nan")),
        dict(smoothing=2),
        dict(choice="elite", elite=33),
        dict(expire_s=0.0),
        dict(step_s=0.0),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(PlanningError):
        controller(**wrong)


def test_bounds_must_be_finite_and_ordered() -> None:
    with pytest.raises(NotANumberError):
        Bounds(np.array([np.nan]), np.ones(1))
    with pytest.raises(ValueError, match="low <= high"):
        Bounds(np.ones(1), np.zeros(1))


def test_a_plan_ends() -> None:
    mppi = controller(expire_s=0.3)
    assert mppi.act(0.0) is None, "no plan yet"
    mppi.plan(np.zeros(1), 1.0, start_s=1.1)
    assert mppi.act(1.0) is None, "starts later"
    assert mppi.act(1.1) is not None
    assert mppi.act(1.39) is not None
    assert mppi.act(1.401) is None


def test_same_seed_same_plans() -> None:
    def run(seed: int) -> Floats:
        mppi = controller(seed=seed, sampler=Mixture(((0.5, Gaussian(0.5)), (0.5, Coloured(1.2, 0.7, False)))))
        return np.array([mppi.plan(np.zeros(1), 0.1 * k).value for k in range(5)])

    assert np.array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4))


def test_smoothing_keeps_constants_and_averages_spikes() -> None:
    assert smooth(np.ones((5, 2)), 3) == pytest.approx(np.ones((5, 2)))
    spike = np.zeros((5, 1))
    spike[2] = 3.0
    assert smooth(spike, 3)[:, 0] == pytest.approx([0, 1, 1, 1, 0])


def test_samplers_draw_what_they_say() -> None:
    rng, box, mean = np.random.default_rng(0), Bounds(np.array([-2.0, 0.0]), np.array([2.0, 1.0])), np.zeros((50, 2))
    bang = Bang().draw(rng, 40, mean, box)
    assert set(np.unique(bang[..., 0])) == {-2.0, 0.0, 2.0}
    assert set(np.unique(bang[..., 1])) == {0.0, 0.5, 1.0}
    uniform = Uniform().draw(rng, 4000, mean[:4], box)
    assert uniform.mean(axis=(0, 1)) == pytest.approx([0.0, 0.5], abs=0.05)
    assert uniform.std(axis=(0, 1)) == pytest.approx([4 / 12**0.5, 1 / 12**0.5], rel=0.05)
    noise = Coloured(0.5, 0.7).draw(rng, 2000, mean, box)[..., 0]
    assert noise.std() == pytest.approx(1.0, rel=0.05)
    assert np.corrcoef(noise[:, 10], noise[:, 11])[0, 1] == pytest.approx(0.7, abs=0.05)
    assert np.corrcoef(noise[:, 10], noise[:, 13])[0, 1] == pytest.approx(0.343, abs=0.07)
    mixed = Mixture(((0.25, Gaussian(0.0)), (0.75, Bang()))).draw(rng, 10, mean, box)
    assert len(mixed) == 10
    assert np.all(mixed[:2] == 0.0) and np.any(mixed[2:] != 0.0)
    with pytest.raises(ValueError, match="add up to 1"):
        Mixture(((0.5, Bang()),))
    with pytest.raises(ValueError, match="rho"):
        Coloured(1.0, 1.0)


def test_curves_pass_through_their_knots_and_shift_in_time() -> None:
    hold = Knots(200, 4)
    knots = np.array([[1.0], [2.0], [3.0], [4.0]])
    assert hold.expand(knots)[[0, 49, 50, 199], 0] == pytest.approx([1, 1, 2, 4])
    assert hold.shift(knots, 50.0, np.array([9.0]))[:, 0] == pytest.approx([2, 3, 4, 9])
    assert hold.shift(knots, 25.0, np.array([9.0]))[:, 0] == pytest.approx([1, 2, 3, 4])
    assert hold.shift(knots, 1e6, np.array([9.0]))[:, 0] == pytest.approx([9] * 4)
    for kind in ("linear", "cubic"):
        curve = Knots(31, 4, kind)
        assert curve.expand(knots)[[0, 10, 20, 30], 0] == pytest.approx([1, 2, 3, 4])
        assert curve.basis.sum(axis=1) == pytest.approx(np.ones(31))
        assert curve.shift(knots, 10.0, np.array([9.0]))[:, 0] == pytest.approx([2, 3, 4, 9])
    straight = Knots(31, 4, "cubic").expand(knots)[10:21, 0]
    assert straight == pytest.approx(np.linspace(2, 3, 11))
    assert Knots(1, 1, "cubic").expand(np.array([[5.0]])) == pytest.approx(np.array([[5.0]]))
