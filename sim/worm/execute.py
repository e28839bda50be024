"""`run worm` and `evaluate worm-execution`: crawls carried out on the plant, with pictures, a film and numbers."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onboard.errors import ConfigError, UsageError
from onboard.planning.contact.worm import WormSpec, load_worm
from onboard.resources import robot_file
from sim.worm.common import bar
from sim.worm.evaluate import wilson
from sim.worm.film import Film, draw_run
from sim.worm.trials import CAP_S, TASKS, Run, Trial, carry_out, prepare

HELD_OUT_SEED, TRIALS, QUICK_TRIALS, QUICK_CAP_S = 5000, 20, 1, 12.0


def run_worm(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of `run worm`."""
    parser.add_argument("--robot", default="worm_hardware", help="worm by name, or the path of its TOML file; needs [execution]")
    parser.add_argument("--task", default="planar", choices=sorted(TASKS), help="floor with boxes, or a slope of 45 degrees")
    parser.add_argument("--seed", type=int, default=0, help="draws start, goal, boxes and the plant's imperfections")
    parser.add_argument("--cap", type=float, default=CAP_S, help="simulated time after which the run ends [s]")
    parser.add_argument("--out", default="runs/run_worm", help="folder for pictures, the film and the trace")
    parser.add_argument("--no-pictures", action="store_true", help="numbers only")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_CAP_S:g} simulated seconds only")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _run_worm


def _run_worm(args: argparse.Namespace) -> int:
    spec = _runnable(args.robot)
    cap_s = QUICK_CAP_S if args.quick else args.cap
    folder = Path(args.out)
    run = prepare(spec, args.task, args.seed)
    film = None if args.no_pictures else Film(run, folder)
    with bar("running", args.json) as told:

        def each(now: Run) -> None:
            told(min(1.0, now.plant.t_s / cap_s))
            if film is not None:
                film.look(now)

        trial = carry_out(run, args.task, cap_s, each)
    files = film.close(run, trial) if film is not None else []
    result = row(trial) | {"files": [str(path) for path in files], "prevented": asdict(run.executor.governor.counts)}
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        _tell(trial)
        for path in files:
            print(f"  written      {path}")
    return 0 if trial.success or args.quick else 1


def evaluate_execution(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of `evaluate worm-execution`."""
    parser.add_argument("--robot", default="worm_hardware", help="worm by name, or the path of its TOML file; needs [execution]")
    parser.add_argument("--tasks", default=",".join(TASKS), help="tasks, comma-separated")
    parser.add_argument("--trials", type=int, default=TRIALS, help="trials a task")
    parser.add_argument("--seed", type=int, default=HELD_OUT_SEED, help="seed of the first trial; the others follow")
    parser.add_argument("--cap", type=float, default=CAP_S, help="simulated time limit of a trial [s]")
    parser.add_argument("--out", default="runs/evaluate_worm_execution", help="folder for rows and pictures, taken up again")
    parser.add_argument("--quick", action="store_true", help=f"one trial a task, {QUICK_CAP_S:g} simulated seconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _evaluate_execution


def _evaluate_execution(args: argparse.Namespace) -> int:
    spec = _runnable(args.robot)
    names = [name for name in args.tasks.split(",") if name]
    for name in names:
        if name not in TASKS:
            raise UsageError(f"there is no task {name!r}; known are {', '.join(TASKS)}")
    trials, cap_s = (QUICK_TRIALS, QUICK_CAP_S) if args.quick else (args.trials, args.cap)
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "trials.jsonl"
    done = _read(log)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    todo = [(name, args.seed + i) for i in range(trials) for name in names]
    with bar("running trials", args.json) as told:
        for index, (name, seed) in enumerate(todo):
            label = f"{spec.body_hash[:12]} {name} {seed} {cap_s:g}"
            if label not in done:
                run = prepare(spec, name, seed)
                lines: list[np.ndarray] = []

                def each(now: Run, lines: list[np.ndarray] = lines) -> None:
                    if len(lines) * 2.0 <= now.plant.t_s:
                        lines.append(now.plant.frames()[:, :, 3])

                trial = carry_out(run, name, cap_s, each)
                draw_run(run, lines, f"{name} {seed}: {'arrived' if trial.success else 'failed'}", folder / f"{name}_{seed}.png")
                done[label] = row(trial)
                with log.open("a") as file:
                    file.write(msgspec.json.encode([label, done[label]]).decode() + "\n")
            rows[name].append(done[label])
            told((index + 1) / len(todo))
    result: dict[str, Any] = {name: _summary(rows[name]) for name in names}
    result |= {
        "falls": sum(r["falls"] for rs in rows.values() for r in rs),
        "seed": args.seed,
        "cap_s": cap_s,
        "quick": args.quick,
    }
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        _table(result, names)
    return 0


def row(trial: Trial) -> dict[str, Any]:
    """A trial as JSON."""
    return {key: value for key, value in asdict(trial).items() if key != "planning_s"} | {
        "planning_median_s": float(np.median(trial.planning_s)) if trial.planning_s else None,
        "plans": len(trial.planning_s),
    }


def _runnable(robot: str) -> WormSpec:
    spec = load_worm(robot_file(robot))
    if spec.execution is None:
        raise ConfigError(spec.file, "execution", "is missing: this worm can be planned for, not run")
    return spec


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [r for r in rows if r["success"]]
    low, high = wilson(len(good), len(rows))
    planning = [r["planning_median_s"] for r in rows if r["planning_median_s"] is not None]
    reasons = Counter(r["reason"] or ("no pad held for a moment" if r["falls"] else "missed") for r in rows if not r["success"])
    return {
        "success": len(good),
        "trials": len(rows),
        "success_ci95_pct": [low, high],
        "time_s": float(np.median([r["time_s"] for r in good])) if good else None,
        "planning_s": float(np.median(planning)) if planning else None,
        "replans": float(np.mean([sum(r["replans"].values()) for r in rows])),
        "seals_lost": sum(r["seals_lost"] for r in rows),
        "falls": sum(r["falls"] for r in rows),
        "failures": dict(reasons),
    }


def _read(log: Path) -> dict[str, dict[str, Any]]:
    done: dict[str, dict[str, Any]] = {}
    if log.is_file():
        for line in log.read_text().splitlines():
            try:
                label, content = msgspec.json.decode(line)
            except (msgspec.DecodeError, ValueError):
                continue  # a line cut short by a run that was stopped
            done[label] = content
    return done


def _table(result: dict[str, Any], names: list[str]) -> None:
    print(f"{'task':8} {'success':>8} {'95 % interval':>14} {'time s':>7} {'planning s':>10} {'replans':>8} {'falls':>6}")
    for name in names:
        r = result[name]
        low, high = r["success_ci95_pct"]
        time_s = "-" if r["time_s"] is None else f"{r['time_s']:.0f}"
        print(
            f"{name:8} {r['success']:>3}/{r['trials']:<4} {low:6.0f}..{high:4.0f} % {time_s:>7} {r['planning_s'] or 0.0:>10.2f} "
            f"{r['replans']:>8.1f} {r['falls']:>6}"
        )
        for reason, count in r["failures"].items():
            print(f"         {count} x {reason}")


def _tell(trial: Trial) -> None:
    print("goal reached" if trial.success else f"goal not reached: {trial.reason or 'for a moment no pad held'}")
    print(f"  simulated    {trial.time_s:.1f} s, {trial.steps} steps, {trial.corrections} corrected again on the way")
    asked = ", ".join(f"{reason} {count}" for reason, count in trial.replans.items()) or "none"
    print(f"  new plans    {asked}; {len(trial.planning_s)} plans in {sum(trial.planning_s):.2f} s of processor time")
    print(f"  seals        {trial.seals_lost} lost, {trial.torn} torn off, {trial.falls} moments without a holding pad")
    print(f"  governor     {trial.releases_refused} releases refused")
