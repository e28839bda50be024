"""The torch function gives the simulator's own gradients."""

from __future__ import annotations

import numpy as np
import pytest

from sim.vine import Options, Robot, Simulator, load_scene

torch = pytest.importorskip("torch")


def test_torch_gradients_are_the_simulators() -> None:
    from offboard.vine.function import rollout, rollout_from

    sim = Simulator(Robot(), [load_scene("free")] * 2, Options(links=10))
    state = sim.start([0.1, -0.2])
    array = sim.controls(20, state, curvature_1_m=1.0)
    controls = torch.tensor(array, requires_grad=True)
    parameters = torch.tensor(sim.parameters, requires_grad=True)
    q, _, links = rollout(sim, state, controls, parameters)
    (q**2).sum().backward()
    run = sim.rollout(state, array, tape=True)
    found = run.backward(2 * run.q)
    np.testing.assert_array_equal(links.numpy(), run.links)
    np.testing.assert_allclose(controls.grad.numpy(), found.controls, rtol=1e-12)
    np.testing.assert_allclose(parameters.grad.numpy(), found.parameters, rtol=1e-12)
    start = torch.tensor(state.q, requires_grad=True)
    q, _, _ = rollout_from(sim, start, torch.tensor(state.v), torch.tensor(state.base), state.links, controls.detach())
    (q**2).sum().backward()
    np.testing.assert_allclose(start.grad.numpy(), found.q, rtol=1e-12)


def test_changed_parameters_change_the_rollout_and_not_the_simulator() -> None:
    from offboard.vine.function import rollout

    sim = Simulator(Robot(), [load_scene("free")], Options(links=10))
    state = sim.start(0.1)
    controls = torch.tensor(sim.controls(10, state, curvature_1_m=2.0))
    kept = sim.parameters.copy()
    stiff = torch.tensor(kept)
    stiff[0, 2] *= 5
    plain = rollout(sim, state, controls)[0]
    other = rollout(sim, state, controls, stiff)[0]
    assert float((plain - other).abs().max()) > 1e-6
    np.testing.assert_array_equal(sim.parameters, kept)
