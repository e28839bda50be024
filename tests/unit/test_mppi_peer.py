"""Side by side with pytorch_mppi on the same point mass: same samples, horizon, noise and temperature, no worse a drive.

Skips where the peer is not installed: pip install pytorch-mppi.
"""

from __future__ import annotations

import numpy as np
import pytest

from onboard.planning.costs import Quadratic
from onboard.planning.mppi import Mppi, MppiConfig
from onboard.planning.sampling import Bounds, Gaussian
from tests.unit.test_mppi_optimal import DT, A, B, PointMass, Q, R, riccati_cost

torch = pytest.importorskip("torch")
peer = pytest.importorskip("pytorch_mppi", reason="pip install pytorch-mppi")

LIMIT, SIGMA, STEPS, SAMPLES, TEMPERATURE, TICKS = 4.0, 1.0, 15, 128, 0.05, 40


def drive(act) -> float:
    """Cost of 40 ticks from (1, 0) under a controller state, tick -> u."""
    x, total = np.array([1.0, 0.0]), 0.0
    for tick in range(TICKS):
        u = np.asarray(act(x, tick), dtype=float).reshape(1)
        assert -LIMIT <= u[0] <= LIMIT
        x = A @ x + B @ u
        total += float(x @ Q @ x + u @ R @ u)
    return total


def ours(seed: int) -> float:
    config = MppiConfig(
        horizon_steps=STEPS,
        step_s=DT,
        knots=STEPS,
        samples=SAMPLES,
        temperature=TEMPERATURE,
        sampler=Gaussian(SIGMA / LIMIT),
    )
    bounds = Bounds(np.full(1, -LIMIT), np.full(1, LIMIT))
    mppi = Mppi(config, bounds, PointMass(), Quadratic(Q, R, Q, np.zeros(2)), seed)

    def act(x: np.ndarray, tick: int) -> np.ndarray:
        mppi.plan(x, tick * DT)
        action = mppi.act(tick * DT)
        assert action is not None
        return action

    return drive(act)


def theirs(seed: int) -> float:
    torch.manual_seed(seed)
    a, b, q, r = (torch.tensor(m) for m in (A, B, Q, R))
    mppi = peer.MPPI(
        lambda x, u: x @ a.T + u @ b.T,
        lambda x, u: ((x @ q) * x).sum(-1) + ((u @ r) * u).sum(-1),
        2,
        torch.tensor([[SIGMA**2]], dtype=torch.float64),
        num_samples=SAMPLES,
        horizon=STEPS,
        lambda_=TEMPERATURE,
        u_min=torch.tensor([-LIMIT], dtype=torch.float64),
        u_max=torch.tensor([LIMIT], dtype=torch.float64),
    )
    return drive(lambda x, tick: mppi.command(torch.tensor(x)).numpy())


def test_the_point_mass_comes_home_as_cheaply_as_with_the_peer() -> None:
    own, other = (np.array([run(seed) for seed in range(4)]) for run in (ours, theirs))
    best = riccati_cost(np.array([1.0, 0.0]), 60)
    assert own.mean() < 1.25 * best
    assert own.mean() < 1.05 * other.mean()
