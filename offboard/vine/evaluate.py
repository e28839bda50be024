"""`prestress evaluate vine`: the simulator's accuracy, known robots recovered from tracks, the planner's model, steering."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.progress import Progress

from offboard.vine.fit import fit, held_out_error, split
from offboard.vine.model_error import model_error
from offboard.vine.synthetic import synthetic_trial, truth
from offboard.vine.tracks import Trial
from onboard.errors import UsageError
from onboard.resources import robot_file
from onboard.vine_robot import load_vine
from sim.vine import Obstacle, wall
from sim.vine.evaluate import accuracy
from sim.vine.steering import ROLLOUTS, SCENES, steering

PARTS = ("all", "simulator", "fit", "model", "steering")
QUICK_TASKS = 3

#: A slanted wall the shaken vine leans on.
CONTACT: tuple[Obstacle, ...] = (wall((0.05, 0.045), (0.25, 0.02), 0.004),)


def evaluate_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that evaluates."""
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--scenes", type=int, default=0, help="random scenes (default 1000; with --quick 100)")
    parser.add_argument("--part", choices=PARTS, default="all", help="only some of it")
    parser.add_argument("--tasks", type=int, default=0, help=f"steering tasks (default {SCENES}; with --quick {QUICK_TASKS})")
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS, help="rollouts in search of a goal that steering missed")
    parser.add_argument("--rows", type=Path, default=Path("runs/vine/steering.jsonl"), help="rows of steering, picked up again")
    parser.add_argument("--threads", type=int, default=2, help="processor cores for planning")
    parser.add_argument("--quick", action="store_true", help="fewer frames, scenes and trials, the same keys")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Evaluate, print, and say in the exit status whether solver, tolerances and steering held."""
    for name, value, most in (("tasks", args.tasks, 10_000), ("rollouts", args.rollouts, 10**6), ("seed", args.seed, 10**6)):
        if not 0 <= value <= most:
            raise UsageError(f"--{name} is {value}: must lie in 0 .. {most}")
    result: dict[str, Any] = {"seed": args.seed, "quick": args.quick}
    if args.part in ("all", "simulator"):
        result |= accuracy(args.seed, args.quick, args.scenes)
    if args.part in ("all", "fit"):
        result["fit"] = fit_recovery(args.seed, args.quick)
        result |= held_out(args.seed, args.quick)
    if args.part in ("all", "model"):
        result["model_error"] = model_error(load_vine(robot_file("vine")), args.seed, 5 if args.quick else 40)
    if args.part in ("all", "steering"):
        tasks = args.tasks or (QUICK_TASKS if args.quick else SCENES)
        result |= steering(args.seed, tasks, min(args.rollouts, 400) if args.quick else args.rollouts, args.threads, args.rows)
    for key, value in result.items():
        print(f"{key:<26} {value}")
    if args.json:
        print(json.dumps(result))
    good = result.get("unconverged", 0) == 0 and result.get("max_penetration_mm", 0.0) <= 0.05
    steered = result.get("steering_valid", True) and result.get("steering_success_pct", 100.0) >= 90.0
    return 0 if good and steered else 1


def tracks(law: str, noise_m: float, count: int, seed: int, contact: bool = True, frames: int = 100) -> list[Trial]:
    """Synthetic trials of the known robot of a law; every second one leans on a wall when `contact`."""
    robot, growth = truth(law)
    return [
        synthetic_trial(
            robot,
            growth,
            kind,
            frames,
            CONTACT if contact and kind % 2 else (),
            noise_m,
            missing=0.1 if noise_m else 0.0,
            seed=1000 * seed + kind,
        )
        for kind in range(count)
    ]


def fit_recovery(seed: int, quick: bool) -> dict[str, Any]:
    """Errors [%] of growth and stiffness (wrinkling: the worse of pressure and strain scale), clean and with 1 mm noise."""
    out: dict[str, Any] = {}
    with Progress(transient=True) as bar:
        task = bar.add_task("fits", total=4)
        for law in ("linear", "wrinkling"):
            robot, growth = truth(law)
            out[law] = {"growth": {}, "stiffness": {}}
            for kind, noise in (("clean", 0.0), ("noisy", 1e-3)):
                bar.update(task, advance=1, description=f"fit {law} {kind}")
                guess = robot.changed(stiffness_nm=0.6 * robot.stiffness_nm, damping_nms=1.5 * robot.damping_nms)
                if law == "wrinkling":
                    guess = robot.changed(pressure_pa=1.15e4, strain_scale=0.8, damping_nms=1.5e-3)
                trials = tracks(law, noise, 4 if quick else 6, seed)
                found = fit(
                    trials, guess, 1.1 * growth, starts=3 if law == "wrinkling" else 1, seed=seed
                )  # wrinkling has wrong minima
                off = abs(found.values["growth"] / growth - 1)
                if law == "linear":
                    stiff = abs(found.values["stiffness"] / robot.stiffness_nm - 1)
                else:
                    stiff = max(
                        abs(found.values["pressure"] / robot.pressure_pa - 1),
                        abs(found.values["strain_scale"] / robot.strain_scale - 1),
                    )
                out[law]["growth"][f"{kind}_pct"] = 100 * off
                out[law]["stiffness"][f"{kind}_pct"] = 100 * stiff
                out[law].setdefault("identified", {})[kind] = found.identified
    return out


def held_out(seed: int, quick: bool) -> dict[str, dict[str, float]]:
    """Held-out shape error [mm] of the three laws fitted to tracks of a wrinkling robot with 1 mm noise.

    `held_out_mm` is measured at the noisy points, whose noise is most of it; `held_out_clean_mm` at the true ones.
    """
    robot, growth = truth("wrinkling")
    count = 3 if quick else 6
    trials, clean = (tracks("wrinkling", noise, count, seed + 7) for noise in (1e-3, 0.0))
    noisy, true = {}, {}
    for law in ("linear", "network", "wrinkling"):
        guess = robot.changed(law=law, stiffness_nm=0.3, strain_scale=0.8, pressure_pa=1.1e4, damping_nms=1.5e-3)
        found = fit(trials, guess, 1.1 * growth, starts=1, seed=seed)
        noisy[law] = 1e3 * found.validation_error_m
        true[law] = 1e3 * held_out_error(found.robot, found.values["growth"], split(trials)[1], split(clean)[1])
    return {"held_out_mm": noisy, "held_out_clean_mm": true}
