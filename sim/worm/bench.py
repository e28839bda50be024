"""`bench worm`: block inverse kinematics against IPOPT on the same problems, in one run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onboard.errors import MissingExtraError
from onboard.planning.contact.blocks import BlockProblem, BlockSolver, CompiledSolver
from onboard.planning.contact.feasibility import stand_in
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.worm import WormSpec, load_worm
from onboard.resources import robot_file
from sim.worm.common import bar, choose_clock, find_scene

MOMENT_N_M, GRAVITY_BIN = 0.1, 6


def bench_worm(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of `bench worm`."""
    parser.add_argument("--robot", default="worm", help="worm by name, or the path of its TOML file")
    parser.add_argument("--problems", type=int, default=200, help="problems for each number of segments")
    parser.add_argument("--seed", type=int, default=9000, help="draws the problems")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="what times are measured in")
    parser.add_argument("--quick", action="store_true", help="a tenth of the problems")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _bench_worm


def _bench_worm(args: argparse.Namespace) -> int:
    spec, scene = load_worm(robot_file(args.robot)), find_scene("floor_wall_ceiling")
    count = max(5, args.problems // 10) if args.quick else args.problems
    peer: BlockSolver | None = None
    try:
        from onboard.planning.contact.ik_ipopt import IpoptSolver

        peer = IpoptSolver(spec)
    except MissingExtraError as error:
        print(f"{error}: only this project's own solver is timed")
    clock = choose_clock(args.clock)
    result: dict[str, Any] = {"problems": count, "seed": args.seed, "clock": args.clock, "ik": {}}
    with bar("inverse kinematics", args.json) as told:
        for n in (1, 2, 3, 4):
            problems = draw_problems(spec, n, count, args.seed)
            row = {}
            for name, solver in (("ours", CompiledSolver(spec, scene)), ("ipopt", peer)):
                if solver is None:
                    continue
                solver.solve(problems[0])  # compiling, or building the program, is not what is timed
                times, good = [], 0
                for problem in problems:
                    began = clock.now_s()
                    solution = solver.solve(problem)
                    times.append(clock.now_s() - began)
                    good += reached(spec, problem, solution.frames)
                row[f"{name}_ms"] = 1e3 * float(np.mean(times))
                row[f"success_{name}_pct"] = 100.0 * good / count
            result["ik"][str(n)] = row
            told(n / 4)
    if args.json:
        print(msgspec.json.encode(result).decode())
        return 0
    for n, row in result["ik"].items():
        text = f"{n} segments: {row['ours_ms']:.3f} ms, {row['success_ours_pct']:.0f} % reached"
        if peer is not None:
            ratio = row["ipopt_ms"] / row["ours_ms"]
            text += f"; IPOPT {row['ipopt_ms']:.1f} ms ({ratio:.0f} times), {row['success_ipopt_pct']:.0f} % reached"
        print(text)
    return 0


def draw_problems(spec: WormSpec, n: int, count: int, seed: int) -> list[BlockProblem]:
    """Problems far from surfaces whose targets some chamber pressures reach under the frozen load."""
    rng = np.random.default_rng([seed, n])
    table, segments = stand_in(spec), spec.segments
    matrix, bound = table.section(MOMENT_N_M, GRAVITY_BIN)
    scale = 1.0 - MOMENT_N_M / table.capacity[GRAVITY_BIN]
    span = segments.length_max_m - segments.length_min_m
    root = np.array([[0.0, 0.0, 1.0, 0.5], [0.0, 1.0, 0.0, 0.3], [-1.0, 0.0, 0.0, 0.3]])
    start = np.tile([segments.length_min_m + 0.5 * span, 0.0, 0.0], (n, 1))
    problems = []
    for _ in range(count):
        chambers = rng.uniform(0.0, 1.0, (n, 4))
        bend = segments.curvature_max_per_m * scale * (chambers[:, :2] - chambers[:, 2:])
        shape = np.column_stack([segments.length_min_m + span * chambers.mean(axis=1), bend])
        frames = np.empty((n + 1, 3, 4))
        chain(root, shape, frames)
        problems.append(BlockProblem(root, start, np.tile(matrix, (n, 1, 1)), np.tile(bound, (n, 1)), n, frames[n].copy()))
    return problems


def reached(spec: WormSpec, problem: BlockProblem, frames: NDArray[np.float64]) -> bool:
    """Whether the pad would attach: within a fifth of the distance tolerance along the normal, on the spot, aligned."""
    end = frames[problem.link]
    error = end[:, 3] - problem.target[:, 3]
    along = abs(float(error @ problem.target[:, 0]))
    aligned = float(end[:, 0] @ problem.target[:, 0]) > np.cos(np.deg2rad(spec.pads.angle_tolerance_deg))
    tolerance = spec.pads.distance_tolerance_m
    return bool(along < 0.2 * tolerance and float(np.linalg.norm(error)) < tolerance and aligned)
