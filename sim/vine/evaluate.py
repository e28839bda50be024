"""Accuracy of the vine simulator: convergence, penetration, joints, a trusted solver, gradients."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.progress import Progress

from sim.vine.dense import paper_program, step_program
from sim.vine.generate import random_scene
from sim.vine.gradient_check import gradients
from sim.vine.kernels.work import COARSE, UNCONVERGED
from sim.vine.measure import clearance, joint_gaps
from sim.vine.robot import Robot, VineError, paper_robot
from sim.vine.rollout import Rollout
from sim.vine.scene_file import load_scene
from sim.vine.simulator import Simulator
from sim.vine.state import Options, State

Step = Callable[[int], None]


def evaluate_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that evaluates the simulator alone."""
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--scenes", type=int, default=0, help="random scenes (default 1000; with --quick 100)")
    parser.add_argument("--quick", action="store_true", help="fewer frames and scenes, the same keys")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Evaluate, print, and say in the exit status whether the solver and its tolerances held."""
    result = accuracy(args.seed, args.quick, args.scenes)
    for key, value in result.items():
        print(f"{key:<26} {value}")
    if args.json:
        print(json.dumps(result))
    return 0 if result["unconverged"] == 0 and result["max_penetration_mm"] <= 0.05 else 1


def accuracy(seed: int, quick: bool, scenes: int = 0) -> dict[str, Any]:
    """All simulator keys of `evaluate vine`."""
    with Progress(transient=True) as bar:
        task = bar.add_task("clutter", total=None)
        result: dict[str, Any] = clutter(seed, quick)
        bar.update(task, description="random scenes")
        result |= random_scenes(seed, scenes or (100 if quick else 1000))
        bar.update(task, description="trusted solver")
        result |= trusted(seed, quick)
        bar.update(task, description="gradients")
        result |= gradients(seed, quick)
    return result


def worst(run: Rollout, every: int) -> tuple[float, float]:
    """Deepest penetration and widest joint gap of a kept rollout by code apart from the solver [m]."""
    depth = gap = 0.0
    half = run.sim.settings.half
    for frame in range(every - 1, len(run.q), every):
        state = run.state(frame)
        for b in range(run.sim.batch):
            depth = max(depth, -clearance(state, b, run.sim.scenes[b], run.sim.robots[b], half))
            gap = max(gap, joint_gaps(state.q[b], int(state.links[b]), half, state.base[b]))
    return depth, gap


def clutter(seed: int, quick: bool) -> dict[str, Any]:
    """The paper's scene: 64 robots, 200 frames, 40 links."""
    scene = load_scene("clutter")
    sim = Simulator(Robot(), [scene] * 64)
    rng = np.random.default_rng(seed)
    state = sim.start(scene.heading_rad + scene.spread_rad * rng.uniform(-1, 1, 64))
    made = sim.rollout(state, sim.controls(200, state))
    depth, gap = worst(made, 10 if quick else 1)
    return {
        "unconverged": int(np.sum((made.report.status & UNCONVERGED) > 0)),
        "coarse": int(np.sum((made.report.status & COARSE) > 0)),
        "solves": int(made.report.substeps.sum()),
        "max_penetration_mm": 1e3 * depth,
        "max_joint_error_mm": 1e3 * gap,
    }


def random_scenes(seed: int, count: int) -> dict[str, Any]:
    """Random scenes, slots, funnels and pockets among them; penetration as each frame reports it."""
    unconverged = nonfinite = 0
    depth = joint = 0.0
    for first in range(0, count, 250):
        many = [random_scene(1_000_000 * seed + first + k) for k in range(min(250, count - first))]
        sim = Simulator(Robot(), many, Options(links=40))
        state = sim.start(0.0)
        made = sim.rollout(state, sim.controls(200, state), keep=False)
        unconverged += int(np.sum((made.report.status & UNCONVERGED) > 0))
        nonfinite += int(np.sum(~np.isfinite(made.last.q)))
        depth = max(depth, float(made.report.penetration_m.max()))
        joint = max(joint, float(made.report.joint_error_m.max()))
    return {
        "random_scenes": count,
        "random_unconverged": unconverged,
        "random_nonfinite": nonfinite,
        "random_penetration_mm": 1e3 * depth,
        "random_joint_error_mm": 1e3 * joint,
    }


def trusted(seed: int, quick: bool) -> dict[str, Any]:
    """Next velocities against Clarabel on dense programs written apart from the kernels.

    `clarabel_error`: largest difference over the growth rate, default and hard formulation. `paper_formulation_error`:
    median difference of the reference mode from the paper's program word for word, over the growth rate.
    """
    scene = load_scene("clutter")
    errors: list[float] = []
    paper: list[float] = []
    solved = 0
    for robot, options in (
        (Robot(), Options(links=24, max_substeps=1)),
        (paper_robot(), Options.reference(links=24, centre_discs=False)),
        (paper_robot(), Options.reference(links=24)),
    ):
        sim = Simulator(robot, [scene] * 4, options)
        rng = np.random.default_rng(seed)
        state = sim.start(scene.heading_rad + scene.spread_rad * rng.uniform(-1, 1, 4))
        made = sim.rollout(state, sim.controls(160, state))
        for frame in range(20, 159, 30 if quick else 6):
            before, after = made.state(frame), made.state(frame + 1)
            for b in range(4):
                count = int(before.links[b])
                if after.links[b] != count:
                    continue
                one = State(before.q[b : b + 1], before.v[b : b + 1], before.links[b : b + 1], before.base[b : b + 1])
                program = step_program(one, robot, scene.obstacles, options, scene.rate_m_s, robot.pressure_pa)
                own = after.v[b, :count, :2]
                errors.append(float(np.abs(program.solve()[:, :2] - own).max()) / scene.rate_m_s)
                solved += 1
                if options.centre_discs:
                    try:
                        found = paper_program(one, robot, scene.obstacles, scene.rate_m_s).solve()
                    except VineError:
                        continue  # hard growth into a wall has no solution
                    paper.append(float(np.abs(found[:, :2] - own).max()) / scene.rate_m_s)
    return {
        "clarabel_error": max(errors),
        "clarabel_programs": solved,
        "paper_formulation_error": float(np.median(paper)),
    }
