"""`prestress bench vine`: time of the simulator's steps, and against general solvers on identical programs.

Every ratio is measured in the same run. The peers get the hard program, with fewer variables than ours; a peer that is
not installed is named with the command that brings it, and its keys are absent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.vine.dense import Program, step_program
from sim.vine.robot import Robot, paper_robot
from sim.vine.scene import load_scene
from sim.vine.simulator import Simulator
from sim.vine.state import Options, State
from sim.vine.threads import THREADS

PEERS = {"cvxpylayers": "cvxpylayers<1 cvxpy diffcp", "scs": "scs", "clarabel": "clarabel"}
LAYER_LINKS = 20


def bench_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that measures and prints."""
    parser.add_argument("--seed", type=int, default=0, help="seed of the launch angles")
    parser.add_argument("--quick", action="store_true", help="fewer frames and smaller peers' batches")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def best_s(work: Callable[[], Any], repeats: int) -> float:
    """Shortest of some wall times [s], after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def long_vines(batch: int, links: int, frames: int, seed: int, options: Options | None = None) -> tuple[Simulator, State, Any]:
    """A batch of robots in the clutter scene grown to 33 links or more (or nearly `links`), with controls ahead."""
    scene = load_scene("clutter")
    sim = Simulator(Robot(), [scene] * batch, options or Options(links=links))
    rng = np.random.default_rng(seed)
    state = sim.start(scene.heading_rad + scene.spread_rad * rng.uniform(-1, 1, batch))
    grown = round((links - 7) * 0.018 / scene.rate_m_s / sim.settings.dt)
    state = sim.rollout(state, sim.controls(grown, state), keep=False).last
    return sim, state, sim.controls(frames, state)


def own_times(seed: int, quick: bool) -> dict[str, float]:
    """forward_ms, forward_backward_ms for 64 robots of up to 40 links, robot_steps_per_s for 1024."""
    frames, repeats = (20, 3) if quick else (60, 5)
    sim, state, controls = long_vines(64, 40, frames, seed)
    forward = best_s(lambda: sim.rollout(state, controls, keep=False), repeats) / frames
    cotangent = np.zeros((frames, 64, 40, 3))
    cotangent[-1, :, :10] = 1.0
    both = best_s(lambda: sim.rollout(state, controls, tape=True).backward(cotangent), repeats) / frames
    many = 1024
    frames = 10 if quick else 30
    sim, state, controls = long_vines(many, 40, frames, seed)
    rate = many * frames / best_s(lambda: sim.rollout(state, controls, keep=False), 2 if quick else 3)
    return {
        "forward_ms": 1e3 * forward,
        "forward_backward_ms": 1e3 * both,
        "robot_steps_per_s": rate,
        "mean_links": float(state.links.mean()),
    }


def scaling(seed: int, quick: bool) -> dict[str, dict[str, float]]:
    """Time per robot and step [us] by links (free growth, batch 16) and by batch (clutter, 40 links)."""
    frames = 10 if quick else 40
    links: dict[str, float] = {}
    for count in (10, 20, 40, 80):
        sim = Simulator(Robot(), [load_scene("free")] * 16, Options(links=count + 8))
        state = sim.start(0.1, length_m=0.018 * (count - 0.5))
        controls = sim.controls(frames, state, curvature_1_m=0.5)
        links[str(count)] = 1e6 * best_s(lambda s=sim, a=state, c=controls: s.rollout(a, c, keep=False), 3) / frames / 16  # type: ignore[misc]
    batch: dict[str, float] = {}
    for count in (16, 64, 256):
        sim, state, controls = long_vines(count, 40, frames, seed)
        batch[str(count)] = 1e6 * best_s(lambda s=sim, a=state, c=controls: s.rollout(a, c, keep=False), 3) / frames / count  # type: ignore[misc]
    return {"us_by_links": links, "us_by_batch": batch}


def equal_programs(batch: int, seed: int) -> tuple[Simulator, State, list[Program]]:
    """Robots with the same number of links at contact-rich moments, and the same step as dense programs."""
    options = Options.reference(links=LAYER_LINKS, centre_discs=False, contact_stiffness_n_m=1e8)  # the peers' are rigid
    scene = load_scene("clutter")
    robot = paper_robot()
    sim = Simulator(robot, [scene] * batch, options)
    rng = np.random.default_rng(seed)
    state = sim.start(scene.heading_rad + scene.spread_rad * rng.uniform(-1, 1, batch))
    frames = round((LAYER_LINKS - 2.2) * 0.018 / scene.rate_m_s / sim.settings.dt)
    state = sim.rollout(state, sim.controls(frames, state), keep=False).last
    programs = []
    for b in range(batch):
        one = State(state.q[b : b + 1], state.v[b : b + 1], state.links[b : b + 1], state.base[b : b + 1])
        programs.append(step_program(one, robot, scene.obstacles, options, scene.rate_m_s, robot.pressure_pa))
    return sim, state, programs


def padded(programs: list[Program]) -> tuple[Any, ...]:
    """(mass diagonal, f, A, b, G, e) of all programs with as many contact rows each, spare rows always slack."""
    size = 3 * programs[0].links
    rows = max(max(len(p.e) for p in programs), 1)
    g, e = np.zeros((len(programs), rows, size)), np.full((len(programs), rows), -1.0)
    for k, p in enumerate(programs):
        g[k, : len(p.e)], e[k, : len(p.e)] = p.g[:, :size], p.e
    mass = np.diag(programs[0].p)[:size]
    return (
        mass,
        np.array([p.f[:size] for p in programs]),
        np.array([p.a[:, :size] for p in programs]),
        np.array([p.b for p in programs]),
        g,
        e,
    )


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
