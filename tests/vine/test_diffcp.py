"""Gradients of one step against diffcp in its dense mode, on the same hard program (skipped without diffcp)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sim.vine.bench import equal_programs

diffcp = pytest.importorskip("diffcp")


def test_step_gradients_agree_with_diffcp() -> None:
    """d (w . next velocity) / d velocity goes through the program's linear term alone: minus mass times diffcp's."""
    sim, state, programs = equal_programs(8, 1)
    rng = np.random.default_rng(0)
    run = sim.rollout(state, sim.controls(1, state), tape=True)
    weight = np.zeros_like(run.v)
    weight[..., :2] = rng.normal(size=weight[..., :2].shape)
    own = run.backward(np.zeros_like(run.q), weight)
    touching = 0
    for b, program in enumerate(programs):
        size = 3 * program.links
        speed = 0.15  # unknowns of order one: speeds over this, turns in halves of a link, masses over the first
        units = speed * np.tile([1.0, 1.0, 1.0 / sim.settings.half], program.links)
        mass, scale = np.diag(program.p)[:size], program.p[0, 0] * speed**2
        root = np.sqrt(mass / scale) * units
        # min t + f'x with x'Mx / 2 <= t, that is |(sqrt(2 M) x, 1 - t)| <= 1 + t
        linear = np.concatenate([program.f[:size] * units / scale, [1.0]])
        rows = np.vstack([program.a[:, :size], -program.g[:, :size]]) * units / speed
        cone = np.zeros((size + 2, size + 1))
        cone[0, -1], cone[1, -1] = -1.0, 1.0
        cone[2:, :size] = -np.sqrt(2.0) * np.diag(root)
        whole = np.vstack([np.hstack([rows, np.zeros((len(rows), 1))]), cone])
        right = np.concatenate([np.concatenate([program.b, -program.e]) / speed, [1.0, 1.0], np.zeros(size)])
        x, y, s, _, reverse = diffcp.solve_and_derivative(
            sparse.csc_matrix(whole),
            right,
            linear,
            {diffcp.ZERO: len(program.b), diffcp.POS: len(program.e), diffcp.SOC: [size + 2]},
            mode="dense",
            solve_method="Clarabel",
            tol_gap_abs=1e-10,
            tol_gap_rel=1e-10,
            tol_feas=1e-10,
        )
        by_x = np.concatenate([weight[0, b, : program.links].ravel() * units, [0.0]])
        by_linear = reverse(by_x, 0 * y, 0 * s)[2][:size]
        peer = -(mass * by_linear * units / scale).reshape(-1, 3)
        ours = own.v[b, : program.links]
        touching += bool(np.any(y[len(program.b) :] > 1e-6))
        assert np.abs(x[:size] * units - run.v[0, b, : program.links].ravel()).max() < 1e-4
        assert np.abs(peer - ours)[:, :2].max() <= 1e-5 * np.abs(ours[:, :2]).max()
    assert touching >= 3
