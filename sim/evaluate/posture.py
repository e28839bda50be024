"""`prestress evaluate posture`: how well a tower's pose is estimated on its plant, and how well it returns to taught postures."""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from onboard.errors import PrestressError, UsageError
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.evaluate.hil import evaluate_hil
from sim.evaluate.trials import TrialResult, active, pushed, taught
from sim.tower.model import TowerModel, build_model

SEEDS, QUICK_SEEDS = 3, 1  # seeds 0-99 are held out; 1000 and up are for tuning
SECONDS, QUICK_SECONDS = 30.0, 8.0
KINDS = ("taught", "active", "pushed")  # the longest first: it is started first
TARGET_TIP_RMSE_PCT = 2.0
TARGET_POSTURE_PCT = 1.0
TARGET_SETTLE_S = 5.0

Job = tuple[str, str, int, float]


def evaluate_posture(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the evaluation and gives the exit status."""
    parser.add_argument("robot", nargs="?", default="manipulator", help="a robot's name or file")
    parser.add_argument("--seed", type=int, default=0, help="first seed; tuning used 1000 and up")
    parser.add_argument("--seeds", type=int, default=None, help=f"number of seeds ({SEEDS}; with --quick {QUICK_SEEDS})")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 8), help="worker processes")
    parser.add_argument("--hil", action="store_true", help="in real time through firmware, broker and daemon")
    parser.add_argument("--quick", action="store_true", help="one seed, shorter trials, the same keys")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Run all trials on a simulated clock; exit status 1 when a trial fails or a target is missed."""
    count = args.seeds if args.seeds is not None else (QUICK_SEEDS if args.quick else SEEDS)
    if not 1 <= count <= 1000:
        raise UsageError(f"--seeds is {count}: must lie in 1 .. 1000")
    if not 1 <= args.processes <= 256:
        raise UsageError(f"--processes is {args.processes}: must lie in 1 .. 256")
    path = str(robot_file(args.robot))
    spec = load_robot(path)
    if spec.actuators is None or spec.controller is None:
        raise UsageError(f"{spec.name} has no valves: it cannot hold a posture")
    seconds = QUICK_SECONDS if args.quick else SECONDS
    seeds = [args.seed + k for k in range(count)]
    begin_s = time.monotonic()
    if args.hil:
        with Console(stderr=True).status("starting") as shown:
            result = evaluate_hil(Path(path), spec, seeds, args.quick, shown.update)
        result["missed"], failures = _missed(result), result["failures"]
    else:
        results, failures = _run_all([(path, kind, seed, seconds) for kind in KINDS for seed in seeds], args.processes)
        result = summarise(results, failures, seeds)
    result["wall_s"] = round(time.monotonic() - begin_s, 1)
    if args.json:
        print(json.dumps(result))
    else:
        _show(result)
    return 1 if failures or result["missed"] else 0


def run_trial(job: Job) -> TrialResult:
    """One trial in a worker process."""
    path, kind, seed, seconds = job
    spec, model = _prepared(path)
    if kind == "taught":
        return taught(spec, model, seed)
    return (active if kind == "active" else pushed)(spec, model, seed, seconds)


def summarise(results: list[TrialResult], failures: list[dict[str, Any]], seeds: list[int]) -> dict[str, Any]:
    """The JSON object: RMSE over seeds, worst posture error and settling time, and every trial's own numbers.

    settle_s is null when a posture did not settle within its trial; numbers are null where every trial of a kind failed.
    """
    out: dict[str, Any] = {}
    for kind in ("active", "pushed"):
        values = [one.tip_rmse_pct for one in results if one.kind == kind]
        tilts = [one.tilt_max_deg for one in results if one.kind == kind]
        out[kind] = {
            "tip_rmse_pct": _number(float(np.sqrt(np.mean(np.square(values))))) if values else None,
            "by_seed": {str(one.seed): _number(one.tip_rmse_pct) for one in results if one.kind == kind},
            "tilt_max_deg": _number(max(tilts)) if tilts else None,
        }
    shown = [one for one in results if one.kind == "taught"]
    errors = [error for one in shown for error in one.errors_pct]
    settles = [settle for one in shown for settle in one.settle_s]
    out["posture_error_pct"] = _number(max(errors)) if errors else None
    out["posture_error_mean_pct"] = _number(float(np.mean(errors))) if errors else None
    out["settle_s"] = _number(max(settles)) if settles else None
    out["settle_median_s"] = _number(float(np.median(settles))) if settles else None
    out["taught_tip_rmse_pct"] = {str(one.seed): _number(one.tip_rmse_pct) for one in shown}
    out["postures"] = [
        {"seed": one.seed, "tilt_deg": _number(tilt), "error_pct": _number(error), "settle_s": _number(settle)}
        for one in shown
        for tilt, error, settle in zip(one.tilt_deg, one.errors_pct, one.settle_s, strict=True)
    ]
    out["pressure_violations"] = sum(one.violations for one in results)
    out |= {"seeds": seeds, "failures": failures, "clock": "simulated", "simulation": True}
    out["missed"] = _missed(out)
    return out


def _missed(out: dict[str, Any]) -> list[str]:
    limits = [
        ("active.tip_rmse_pct", out["active"]["tip_rmse_pct"], TARGET_TIP_RMSE_PCT),
        ("pushed.tip_rmse_pct", out["pushed"]["tip_rmse_pct"], TARGET_TIP_RMSE_PCT),
        ("posture_error_pct", out["posture_error_pct"], TARGET_POSTURE_PCT),
        ("settle_s", out["settle_s"], TARGET_SETTLE_S),
        ("pressure_violations", out["pressure_violations"], 0),
    ]
    return [f"{key} is {value}, target at most {limit:g}" for key, value, limit in limits if value is None or value > limit]


@cache
def _prepared(path: str) -> tuple[RobotSpec, TowerModel]:
    spec = load_robot(path)
    return spec, build_model(spec)


def _run_all(jobs: list[Job], processes: int) -> tuple[list[TrialResult], list[dict[str, Any]]]:
    """All results in the order of `jobs`, and what failed and why."""
    found: dict[Job, TrialResult] = {}
    failures: list[dict[str, Any]] = []
    console = Console(stderr=True)
    # Fresh interpreters: a forked one would inherit compiled kernels' locks.
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context) as pool,
        Progress(console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("trials", total=len(jobs))
        waiting = {pool.submit(run_trial, job): job for job in jobs}
        for future in as_completed(waiting):
            job = waiting[future]
            try:
                found[job] = future.result()
            except PrestressError as error:
                failures.append({"kind": job[1], "seed": job[2], "error": str(error)})
            progress.advance(task)
    return [found[job] for job in jobs if job in found], failures


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def _show(result: dict[str, Any]) -> None:
    chain = "simulated plant and sensors, real firmware, broker and daemon" if result["clock"] == "wall" else "all simulated"
    print(f"{chain}; seeds {result['seeds']}")
    for kind in ("active", "pushed"):
        part = result[kind]
        tilt = f" (tilt up to {part['tilt_max_deg']} degrees)" if "tilt_max_deg" in part else ""
        print(f"  {kind:<8} tip RMSE {part['tip_rmse_pct']} % of length{tilt}")
    print(f"  postures {len(result['postures'])}: tip error mean {result['posture_error_mean_pct']} %, worst", end=" ")
    print(f"{result['posture_error_pct']} % of length; settled within {result['settle_s']} s at worst")
    print(f"  pressures out of range: {result['pressure_violations']}")
    for failure in result["failures"]:
        print(f"  FAILED {failure['kind']} seed {failure['seed']}: {failure['error']}")
    print("\n".join(f"  MISSED {line}" for line in result["missed"]) or "  all targets are met")
