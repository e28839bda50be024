"""`prestress bench vine`: time of the simulator's steps, and against general solvers on identical programs.

Every ratio is measured in the same run. The peers get the hard program, with fewer variables than ours; a peer that is
not installed is named with the command that brings it, and its keys are absent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.vine.bench import LAYER_LINKS, best_s, equal_programs, own_times, padded, scaling
from sim.vine.dense import Program
from sim.vine.threads import THREADS

PEERS = {"cvxpylayers": "cvxpylayers<1 cvxpy diffcp", "scs": "scs", "clarabel": "clarabel"}


def bench_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that measures and prints."""
    parser.add_argument("--seed", type=int, default=0, help="seed of the launch angles")
    parser.add_argument("--quick", action="store_true", help="fewer frames and smaller peers' batches")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def raw_scs_s(programs: list[Program], repeats: int) -> float:
    """Seconds SCS takes for all programs, matrices ready, without any modelling layer."""
    import scs
    from scipy import sparse

    jobs = []
    for p in programs:
        size = 3 * p.links
        rows = sparse.csc_matrix(np.vstack([p.a[:, :size], -p.g[:, :size]]))
        data = {"P": sparse.csc_matrix(p.p[:size, :size]), "A": rows, "b": np.concatenate([p.b, -p.e]), "c": p.f[:size]}
        jobs.append((data, {"z": len(p.b), "l": len(p.e)}))
    options = {"verbose": False, "eps_abs": 1e-6, "eps_rel": 1e-6}
    return best_s(lambda: [scs.SCS(data, cone, **options).solve() for data, cone in jobs], repeats)


def layer_s(programs: list[Program], repeats: int) -> float:
    """Seconds CVXPYLayers with SCS takes forward and backward for the whole batch."""
    import cvxpy as cp
    import torch
    from cvxpylayers.torch import CvxpyLayer

    mass, f, a, b, g, e = padded(programs)
    size = len(mass)
    x, pf, pa, pb = cp.Variable(size), cp.Parameter(size), cp.Parameter(a.shape[1:]), cp.Parameter(b.shape[1])
    pg, pe = cp.Parameter(g.shape[1:]), cp.Parameter(e.shape[1])
    cost = 0.5 * cp.sum_squares(cp.multiply(np.sqrt(mass), x)) + pf @ x
    layer = CvxpyLayer(cp.Problem(cp.Minimize(cost), [pa @ x == pb, pg @ x >= pe]), [pf, pa, pb, pg, pe], [x])
    values = [torch.tensor(v, requires_grad=True) for v in (f, a, b, g, e)]

    def both() -> None:
        (found,) = layer(*values, solver_args={"solve_method": "SCS", "eps": 1e-6})
        found.sum().backward()

    return best_s(both, repeats)


def against_peers(seed: int, quick: bool) -> dict[str, Any]:
    """Ratios of peers' times to ours on the same programs, and what the peers' absence leaves out."""
    out: dict[str, Any] = {}
    missing = [name for name in PEERS if importlib.util.find_spec(name) is None]
    for name in missing:
        out.setdefault("missing", {})[name] = f"pip install {PEERS[name]}"
    for batch in (16,) if quick else (16, 64):
        sim, state, programs = equal_programs(batch, seed)
        same = [k for k, p in enumerate(programs) if p.links == programs[0].links]
        if len(same) != batch:
            raise AssertionError("programs of one size were expected")
        controls = sim.controls(1, state)
        cotangent = np.ones((1, batch, LAYER_LINKS, 3))
        forward = best_s(lambda s=sim, a=state, c=controls: s.rollout(a, c, keep=False), 20)  # type: ignore[misc]
        both = best_s(lambda s=sim, a=state, c=controls, y=cotangent: s.rollout(a, c, tape=True).backward(y), 20)  # type: ignore[misc]
        out.setdefault("own_step_ms", {})[str(batch)] = {"forward": 1e3 * forward, "both": 1e3 * both}
        if "clarabel" not in missing:
            took = best_s(lambda p=programs: [item.solve() for item in p], 1)  # type: ignore[misc]
            out.setdefault("ratio_clarabel", {})[str(batch)] = took / forward
        if "scs" not in missing:
            out["ratio_raw_scs"] = raw_scs_s(programs, 2) / forward
        if "cvxpylayers" not in missing:
            out.setdefault("ratio_layer", {})[str(batch)] = layer_s(programs, 1 if quick else 2) / both
    return out


def run(args: argparse.Namespace) -> int:
    """Measure and print; the JSON object carries only keys that were measured."""
    result: dict[str, Any] = {"threads": THREADS, "seed": args.seed, "quick": args.quick}
    result |= own_times(args.seed, args.quick)
    result |= scaling(args.seed, args.quick)
    result |= against_peers(args.seed, args.quick)
    for key, value in result.items():
        if key != "missing":
            print(f"{key:<22} {value}")
    for name, command in result.get("missing", {}).items():
        print(f"peer {name} is not installed: {command}", file=sys.stderr)
    if args.json:
        print(json.dumps(result))
    return 0
