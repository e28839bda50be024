"""`prestress run vine --simulated-clock`: planner and simulator alone, without daemon and boards; picture, film, figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from rich.progress import Progress

from onboard.errors import UsageError
from onboard.vine_robot import VineRobot
from sim.vine.draw_steering import draw_episode, film_episode
from sim.vine.goals import Task, steering_task
from sim.vine.scene_file import load_scene
from sim.vine.steer import steer

THREADS = 2  # processor cores for planning


def task_of(args: argparse.Namespace, robot: VineRobot) -> Task:
    """The scene and goal that were asked for, or a generated task."""
    if bool(args.scene) != bool(args.goal_mm):
        raise UsageError("--scene and --goal-mm belong together: give both, or neither for a generated task")
    if not args.scene:
        return steering_task(args.seed, robot.body.radius_m)
    if not np.isfinite(args.goal_mm).all():
        raise UsageError(f"--goal-mm is {args.goal_mm}: must be finite")
    task = Task(load_scene(args.scene), 1e-3 * np.array(args.goal_mm))
    if task.scene.base != (0.0, 0.0):
        raise UsageError(f"--scene {args.scene}: its base must be at the origin, where the robot's map is centred")
    return task


def simulated_clock(args: argparse.Namespace, robot: VineRobot) -> int:
    """Steer, draw, print; exit status 0 when the tip ends within the tolerance of the goal."""
    task, out = task_of(args, robot), args.out or Path("runs/vine")
    with Progress(transient=True) as bar:
        growing = bar.add_task("growing", total=robot.planner.time_limit_s)
        made = steer(robot, task, args.seed, THREADS, lambda t: bar.update(growing, completed=t))
    out.mkdir(parents=True, exist_ok=True)
    tolerance = robot.planner.tolerance_m
    files = [out / f"{task.scene.name}-steered.png"]
    draw_episode(made, task, tolerance, files[0])
    if not args.quick:
        files.append(files[0].with_suffix(".mp4"))
        with Progress(transient=True) as bar:
            filming = bar.add_task("filming", total=len(made.lines))
            film_episode(made, task, tolerance, files[1], lambda done: bar.update(filming, completed=done))
    plan_ms = 1e3 * np.array(made.plan_s)
    result = {
        "simulation": True,
        "clock": "simulated",
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
