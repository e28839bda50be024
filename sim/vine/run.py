"""`prestress run vine`: the onboard steerer grows a simulated vine to a goal through clutter; picture, film, figures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import Progress

from onboard.errors import UsageError
from onboard.resources import robot_file
from onboard.vine_robot import load_vine
from sim.vine.draw_steering import draw_episode, film_episode
from sim.vine.goals import Task, steering_task
from sim.vine.scene_file import load_scene
from sim.vine.steer import steer


def run_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that runs."""
    parser.add_argument("--scene", default="", help="a scene's name or TOML file (default: a generated task by --seed)")
    parser.add_argument("--goal-mm", type=float, nargs=2, metavar=("X", "Y"), help="goal [mm] from the base; needed with --scene")
    parser.add_argument("--robot", default="vine", help="the robot's name or TOML file")
    parser.add_argument("--seed", type=int, default=0, help="seed of the task, the camera's noise and the planner")
    parser.add_argument("--threads", type=int, default=2, help="processor cores for planning")
    parser.add_argument("--quick", action="store_true", help="no film")
    parser.add_argument("--out", type=Path, default=Path("runs/vine"), help="folder for the picture and the film")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Steer, draw, print; exit status 0 when the tip ends within the tolerance of the goal."""
    if not 1 <= args.threads <= 64:
        raise UsageError(f"--threads is {args.threads}: must lie in 1 .. 64")
    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}: must not be negative")
    if bool(args.scene) != bool(args.goal_mm):
        raise UsageError("--scene and --goal-mm belong together: give both, or neither for a generated task")
    robot = load_vine(robot_file(args.robot))
    if args.scene:
        if not np.isfinite(args.goal_mm).all():
            raise UsageError(f"--goal-mm is {args.goal_mm}: must be finite")
        task = Task(load_scene(args.scene), 1e-3 * np.array(args.goal_mm))
        if task.scene.base != (0.0, 0.0):
            raise UsageError(f"--scene {args.scene}: its base must be at the origin, where the robot's map is centred")
    else:
        task = steering_task(args.seed, robot.body.radius_m)
    with Progress(transient=True) as bar:
        growing = bar.add_task("growing", total=robot.planner.time_limit_s)
        made = steer(robot, task, args.seed, args.threads, lambda t: bar.update(growing, completed=t))
    args.out.mkdir(parents=True, exist_ok=True)
    tolerance = robot.planner.tolerance_m
    files = [args.out / f"{task.scene.name}-steered.png"]
    draw_episode(made, task, tolerance, files[0])
    if not args.quick:
        files.append(files[0].with_suffix(".mp4"))
        with Progress(transient=True) as bar:
            filming = bar.add_task("filming", total=len(made.lines))
            film_episode(made, task, tolerance, files[1], lambda done: bar.update(filming, completed=done))
    plan_ms = 1e3 * np.array(made.plan_s)
    result = {
        "scene": task.scene.name,
        "goal_mm": [round(1e3 * float(v), 1) for v in task.goal],
        "reached": made.final_m <= tolerance,
        "final_mm": round(1e3 * made.final_m, 2),
        "time_s": round(made.time_s, 2),
        "length_mm": round(1e3 * made.length_m, 1),
        "plans": len(plan_ms),
        "plan_ms": round(float(np.median(plan_ms)), 1),
        "plan_cpu_ms": round(1e3 * float(np.median(made.plan_cpu_s)), 1),
        "plans_per_s": round(1e3 / float(np.median(plan_ms)), 2),
        "refused_plans": made.refused_plans,
        "max_penetration_mm": round(1e3 * made.worst_penetration_m, 4),
        "files": [str(path) for path in files],
    }
    for key, value in result.items():
        print(f"{key:<20} {value}")
    if args.json:
        print(json.dumps(result))
    return 0 if result["reached"] else 1
