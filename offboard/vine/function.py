"""The vine simulator as a torch function: a whole rollout in, its states out, exact gradients back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sim.vine import Simulator, State


class _Rollout(torch.autograd.Function):
    """Bridges torch's tape to `sim.vine.Rollout.backward`; everything is double precision on the CPU."""

    @staticmethod
    def forward(ctx: Any, q: Any, v: Any, base: Any, controls: Any, parameters: Any, sim: Simulator, links: Any) -> Any:
        kept = sim.parameters
        sim.parameters = np.ascontiguousarray(parameters.detach().numpy())
        try:
            state = State(*(np.ascontiguousarray(x.detach().numpy()) for x in (q, v)), links, base.detach().numpy().copy())
            run = sim.rollout(state, controls.detach().numpy(), tape=True)
        finally:
            sim.parameters = kept
        ctx.run, ctx.parameters = run, parameters.detach().numpy()
        counts = torch.from_numpy(run.links.copy())
        ctx.mark_non_differentiable(counts)
        return torch.from_numpy(run.q.copy()), torch.from_numpy(run.v.copy()), counts

    @staticmethod
    def backward(ctx: Any, by_q: Any, by_v: Any, _: Any) -> Any:
        sim = ctx.run.sim
        kept = sim.parameters
        sim.parameters = np.ascontiguousarray(ctx.parameters)
        try:
            found = ctx.run.backward(by_q.numpy(), by_v.numpy())
        finally:
            sim.parameters = kept
        gradients = (found.q, found.v, found.base, found.controls, found.parameters)
        return (*(torch.from_numpy(g) for g in gradients), None, None)


def rollout(sim: Simulator, state: State, controls: torch.Tensor, parameters: torch.Tensor | None = None) -> Any:
    """States q, v (T, B, N, 3) and link counts (T, B) of a rollout, differentiable by controls and parameters.

    controls (T, B, 6) and parameters (B, P, default the simulator's own) are float64 tensors. For gradients by the
    start, use `rollout_from`.
    """
    q, v, base = (torch.from_numpy(x.copy()) for x in (state.q, state.v, state.base))
    return rollout_from(sim, q, v, base, state.links, controls, parameters)


def rollout_from(
    sim: Simulator,
    q: torch.Tensor,
    v: torch.Tensor,
    base: torch.Tensor,
    links: Any,
    controls: torch.Tensor,
    parameters: torch.Tensor | None = None,
) -> Any:
    """As `rollout`, with the start's q, v (B, N, 3) and base (B, 3) as tensors too; links (B,) counts."""
    values = torch.from_numpy(sim.parameters.copy()) if parameters is None else parameters
    return _Rollout.apply(q, v, base, controls, values, sim, np.asarray(links, dtype=np.int64))
