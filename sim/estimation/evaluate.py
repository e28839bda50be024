"""`prestress evaluate manipulator`: how far off the disc pose estimators are, in the simulator of errors."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from onboard.errors import UsageError
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.estimation.campaign import METHODS, MOTIONS, TILTS_DEG, jobs_for, run_all, tables
from sim.estimation.sensing import Errors

SEEDS, QUICK_SEEDS = 10, 1
DURATION_S, QUICK_DURATION_S = 30.0, 20.0


def evaluate_manipulator(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the evaluation and gives the exit status."""
    parser.add_argument("--robot", default="manipulator", help="a robot's name or file; its twist is varied")
    parser.add_argument("--seed", type=int, default=0, help="first seed; 0-9 are held out, tuning used 1000 and up")
    parser.add_argument("--seeds", type=int, default=None, help=f"number of seeds ({SEEDS}; with --quick {QUICK_SEEDS})")
    parser.add_argument("--duration", type=float, default=None, help="seconds of each trial")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 8), help="worker processes")
    parser.add_argument("--quick", action="store_true", help="fewer seeds, shorter trials, the same keys")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Run all trials; exit status 1 when the default method misses a target."""
    count = args.seeds if args.seeds is not None else (QUICK_SEEDS if args.quick else SEEDS)
    duration = args.duration if args.duration is not None else (QUICK_DURATION_S if args.quick else DURATION_S)
    if not 1 <= count <= 1000:
        raise UsageError(f"--seeds is {count}: must lie in 1 .. 1000")
    if not 10.0 <= duration <= 3600.0:
        raise UsageError(f"--duration is {duration}: must lie in 10 .. 3600 s")
    if not 1 <= args.processes <= 256:
        raise UsageError(f"--processes is {args.processes}: must lie in 1 .. 256")
    seeds = [args.seed + k for k in range(count)]
    path = str(robot_file(args.robot))
    jobs = jobs_for(path, seeds, duration, Errors())
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("trials", total=len(jobs))
        results = run_all(jobs, args.processes, lambda: progress.advance(task))
    twists: dict[str, Any] = tables(jobs, results, load_robot(path).structure.rest_height_m)
    missed = targets_missed(twists)
    if args.json:
        print(json.dumps({"twists": twists, "seeds": seeds, "duration_s": duration, "missed": missed, "simulation": True}))
    else:
        _show(twists, len(seeds), duration)
        print("\n".join(f"MISSED {line}" for line in missed) or "all targets of the default method are met")
    return 1 if missed else 0


def targets_missed(twists: dict[str, Any]) -> list[str]:
    """Lines that say which target is missed by how much; none means all are met."""
    lines = []
    for twist, methods in twists.items():
        default, gravity = methods["map_direction"], methods["map_inclination"]
        wanted: list[tuple[str, float, float]] = [
            (f"slow {tilt} tip %", default["slow"][str(tilt)]["tip_rmse_pct"], 1.0) for tilt in TILTS_DEG
        ]
        wanted += [(f"slow {tilt} yaw rad", default["slow"][str(tilt)]["yaw_rmse_rad"], 0.05) for tilt in TILTS_DEG]
        wanted.append(("static 45 tip %", default["static"]["45"]["tip_rmse_pct"], 1.5))
        wanted.append(("abrupt 45 tip %", default["abrupt"]["45"]["tip_rmse_pct"], 3.5))
        for motion in MOTIONS:
            wanted += [
                (f"{motion} {tilt} branch switches", default[motion][str(tilt)]["branch_switches"], 0.0) for tilt in TILTS_DEG
            ]
        for tilt, limit in zip(TILTS_DEG, (1.5, 2.0, 4.0), strict=True):
            wanted.append((f"inclination slow {tilt} tip %", gravity["slow"][str(tilt)]["tip_rmse_pct"], limit))
        lines += [f"twist {twist}: {what} is {value:.3g}, target {limit:g}" for what, value, limit in wanted if value > limit]
    return lines


def _show(twists: dict[str, Any], seeds: int, duration_s: float) -> None:
    console = Console()
    for twist, methods in twists.items():
        title = f"strut twist {twist.replace('_', '.')} degrees: tip RMSE % of length (yaw RMSE rad, b: branch switches)"
        table = Table("method", *(f"{motion} {tilt}" for motion in MOTIONS for tilt in TILTS_DEG), title=title)
        for method in METHODS:
            cells = [methods[method][motion][str(tilt)] for motion in MOTIONS for tilt in TILTS_DEG]
            table.add_row(method, *(_cell(cell) for cell in cells))
        console.print(table)
    console.print(f"{seeds} seeds of {duration_s:g} s each, simulated sensor errors; 25, 45, 70: p95 of the tip's tilt")


def _cell(cell: dict[str, float]) -> str:
    switches = f" b{cell['branch_switches']:.0f}" if cell["branch_switches"] else ""
    return f"{cell['tip_rmse_pct']:.2f} ({cell['yaw_rmse_rad']:.3f}{switches})"
