"""MPPI comes close to costs that are known to be optimal: a point mass by Riccati, a pendulum by dynamic programming."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.messages import Floats
from onboard.planning.costs import Quadratic
from onboard.planning.mppi import NO_WORLD, Mppi, MppiConfig
from onboard.planning.sampling import Bounds, Coloured, Gaussian, Mixture

DT = 0.1
A = np.array([[1.0, DT], [0.0, 1.0]])
B = np.array([[0.5 * DT * DT], [DT]])
Q, R, F = np.diag([1.0, 0.1]), np.array([[0.05]]), np.diag([5.0, 1.0])


class PointMass:
    """x = (position, speed), u = acceleration, exact over a step."""

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        states = np.empty((*controls.shape[:2], 2))
        x = np.broadcast_to(state, (len(controls), 2))
        for t in range(controls.shape[1]):
            x = x @ A.T + controls[:, t] @ B.T
            states[:, t] = x
        return states


def riccati_cost(x0: Floats, steps: int) -> float:
    """Least cost of sum over states 1..steps-1 of Q, end F, and R on all controls."""
    p = F
    for k in range(steps):
        s = R + B.T @ p @ B
        p = A.T @ (p - p @ B @ np.linalg.solve(s, B.T @ p)) @ A
        if k < steps - 1:
            p = p + Q
    return float(x0 @ p @ x0)


@pytest.mark.parametrize(
    ("settings", "within"),
    [
        (dict(choice="weighted", temperature=0.1, sampler=Gaussian(0.08), iterations=30), 1.01),
        (dict(choice="elite", elite=16, sampler=Gaussian(0.08), iterations=30), 1.02),
        (dict(choice="best", sampler=Coloured(0.08, 0.5), iterations=30), 1.05),
        (dict(choice="elite", elite=16, sampler=Gaussian(0.15), iterations=20, interpolation="cubic", knots=6), 1.03),
    ],
)
def test_a_point_mass_is_driven_at_nearly_the_riccati_cost(settings: dict, within: float) -> None:
    steps, x0 = 20, np.array([1.0, 0.0])
    best = riccati_cost(x0, steps)
    config = MppiConfig(**{"horizon_steps": steps, "step_s": DT, "knots": steps, "samples": 256, **settings})
    cost = Quadratic(Q, R, F, np.zeros(2))
    mppi = Mppi(config, Bounds(np.full(1, -8.0), np.full(1, 8.0)), PointMass(), cost, seed=1)
    plan = mppi.plan(x0, 0.0)
    value = plan.value[None]
    reached = float(cost(PointMass().rollout(x0, value, NO_WORLD), value)[0])
    assert best - 1e-9 <= reached <= within * best


def test_closed_loop_the_warm_start_pays(seeds: range = range(3)) -> None:
    """40 ticks with 64 samples and one round each: with a warm start the point mass comes home far cheaper than without."""

    def run(warm: bool, seed: int) -> float:
        config = MppiConfig(
            horizon_steps=15, step_s=DT, knots=15, samples=64, temperature=0.05, sampler=Gaussian(0.15), warm_start=warm
        )
        mppi = Mppi(config, Bounds(np.full(1, -4.0), np.full(1, 4.0)), PointMass(), Quadratic(Q, R, F, np.zeros(2)), seed)
        x, total = np.array([1.0, 0.0]), 0.0
        for tick in range(40):
            mppi.plan(x, tick * DT)
            u = mppi.act(tick * DT)
            assert u is not None
            x = A @ x + B @ u
            total += float(x @ Q @ x + u @ R @ u)
        return total

    warm = np.mean([run(True, seed) for seed in seeds])
    cold = np.mean([run(False, seed) for seed in seeds])
    best = riccati_cost(np.array([1.0, 0.0]), 60)
    assert warm < 1.25 * best
    assert warm < 0.9 * cold


TORQUE, GRAVITY, STEP = 0.6, 1.0, 0.15


def pendulum_step(angle: Floats, speed: Floats, torque: Floats) -> tuple[Floats, Floats]:
    """Angle from upright; unit mass and length; semi-implicit Euler."""
    speed = np.clip(speed + STEP * (GRAVITY * np.sin(angle) + torque), -3.0, 3.0)
    return angle + STEP * speed, speed


def pendulum_cost(angle: Floats, speed: Floats, torque: Floats) -> Floats:
    return STEP * ((1.0 - np.cos(angle)) + 0.05 * speed**2 + 0.05 * torque**2)


class Pendulum:
    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        states = np.empty((*controls.shape[:2], 2))
        angle, speed = np.full(len(controls), state[0]), np.full(len(controls), state[1])
        for t in range(controls.shape[1]):
            angle, speed = pendulum_step(angle, speed, controls[:, t, 0])
            states[:, t, 0], states[:, t, 1] = angle, speed
        return states


def swing_up_cost(states: Floats, controls: Floats) -> Floats:
    return pendulum_cost(states[..., 0], states[..., 1], controls[..., 0]).sum(axis=1)


def optimal_swing_up(steps: int) -> float:
    """Least cost from hanging at rest, by value iteration on a grid with bilinear interpolation."""
    angles, speeds = np.linspace(-np.pi, np.pi, 121), np.linspace(-3.0, 3.0, 121)
    torques = np.linspace(-TORQUE, TORQUE, 9)
    a, s, u = np.meshgrid(angles, speeds, torques, indexing="ij")
    na, ns = pendulum_step(a, s, u)
    stage = pendulum_cost(na, ns, u)
    i = ((na + np.pi) % (2 * np.pi)) / (2 * np.pi) * 120
    j = (ns + 3.0) / 6.0 * 120
    i0, j0 = np.minimum(i.astype(int), 119), np.minimum(j.astype(int), 119)
    fi, fj = i - i0, j - j0
    value = np.zeros((121, 121))
    for _ in range(steps):
        nxt = (1 - fi) * ((1 - fj) * value[i0, j0] + fj * value[i0, j0 + 1]) + fi * (
            (1 - fj) * value[i0 + 1, j0] + fj * value[i0 + 1, j0 + 1]
        )
        value = (stage + nxt).min(axis=2)
    return float(value[120, 60])


def test_a_pendulum_too_weak_to_lift_itself_swings_up_at_nearly_the_optimal_cost() -> None:
    steps = 60
    best = optimal_swing_up(steps)
    sampler = Mixture(((0.5, Gaussian(0.3)), (0.5, Coloured(1.2, 0.9, around_plan=False))))
    config = MppiConfig(horizon_steps=steps, step_s=STEP, knots=20, samples=256, iterations=25, choice="best", sampler=sampler)
    reached = []
    for seed in range(3):
        mppi = Mppi(config, Bounds(np.full(1, -TORQUE), np.full(1, TORQUE)), Pendulum(), swing_up_cost, seed)
        value = mppi.plan(np.array([np.pi, 0.0]), 0.0).value[None]
        states = Pendulum().rollout(np.array([np.pi, 0.0]), value, NO_WORLD)
        reached.append(float(swing_up_cost(states, value)[0]))
        assert np.cos(states[0, -1, 0]) > 0.8, "it ends upright"
    assert TORQUE < GRAVITY, "it cannot lift itself statically"
    assert 0.95 * best < np.min(reached)  # the grid's own error is a few percent
    assert np.mean(reached) < 1.05 * best
