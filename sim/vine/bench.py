"""Times of the simulator's own steps, and the same steps as dense programs for others to solve."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.vine.dense import Program, step_program
from sim.vine.robot import Robot, paper_robot
from sim.vine.scene_file import load_scene
from sim.vine.simulator import Simulator
from sim.vine.state import Options, State

LAYER_LINKS = 20


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
