"""One idea: how often the vine is steered to its goal: episodes over seeds, one row a scene in a file that is picked up again.

A scene that the steerer reaches in the full simulator is reachable; only where it fails is the reach searched for, by the
cross-entropy method in the same simulator. Scenes found out of reach are counted and left out of the success rate.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from onboard.resources import robot_file
from onboard.vine_robot import VineRobot, load_vine
from sim.vine.goals import steering_task
from sim.vine.reach import reachable
from sim.vine.steer import steer

SCENES, ROLLOUTS = 40, 20_000


def identity(robot: VineRobot) -> str:
    """What a row belongs to: the robot's file and its model, word for word."""
    text = Path(robot.file).read_bytes() + robot.manifest_path.read_bytes()
    return hashlib.sha256(text).hexdigest()[:16]


def read_rows(path: Path, key: str) -> dict[int, dict[str, Any]]:
    """Rows by seed of an earlier, possibly interrupted run with the same robot and model; a line that was cut off is dropped."""
    rows: dict[int, dict[str, Any]] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if row.get("identity") == key:
                rows[int(row["seed"])] = row
    return rows


def scene_row(robot: VineRobot, seed: int, rollouts: int, threads: int, bar: Progress | None = None) -> dict[str, Any]:
    """One scene: steered once, and searched by the cross-entropy method where steering failed."""
    task = steering_task(seed, robot.body.radius_m)

    def show(what: str, total: float) -> Callable[[float], None] | None:
        if bar is None:
            return None
        one = bar.add_task(f"scene {seed}: {what}", total=total)
        return lambda done: bar.update(one, completed=done, visible=done < total)

    made = steer(robot, task, seed, threads, show("steering", robot.planner.time_limit_s))
    success = made.final_m <= robot.planner.tolerance_m
    row: dict[str, Any] = {
        "seed": seed,
        "goal_m": [round(float(v), 4) for v in task.goal],
        "final_mm": round(1e3 * made.final_m, 2),
        "nearest_mm": round(1e3 * made.nearest_m, 2),
        "time_s": round(made.time_s, 2),
        "length_m": round(made.length_m, 3),
        "penetration_mm": round(1e3 * made.worst_penetration_m, 4),
        "plan_ms": round(1e3 * float(np.median(made.plan_s)), 1),
        "plan_cpu_ms": round(1e3 * float(np.median(made.plan_cpu_s)), 1),
        "refused_plans": made.refused_plans,
        "success": success,
        "reachable": True,
    }
    if not success and made.nearest_m > robot.planner.tolerance_m:
        found = reachable(robot, task, seed, rollouts, show("searching", rollouts))
        row |= {
            "reachable": found.nearest_m <= robot.planner.tolerance_m,
            "search_rollouts": found.rollouts,
            "search_nearest_mm": round(1e3 * found.nearest_m, 2),
        }
    return row


def steering(
    seed: int, scenes: int = SCENES, rollouts: int = ROLLOUTS, threads: int = 1, rows_file: Path | None = None
) -> dict[str, Any]:
    """The keys of `evaluate vine` for steering, scenes `1000 seed` onwards."""
    robot = load_vine(robot_file("vine"))
    key = identity(robot)
    rows = read_rows(rows_file, key) if rows_file else {}
    seeds = [1000 * seed + k for k in range(scenes)]
    with Progress(transient=True) as bar:
        whole = bar.add_task("steering", total=scenes)
        for number in seeds:
            row = rows.get(number)
            if row is None or (not row["reachable"] and row.get("search_rollouts", 0) < rollouts):
                row = {"identity": key, **scene_row(robot, number, rollouts, threads, bar)}
                rows[number] = row
                if rows_file:
                    rows_file.parent.mkdir(parents=True, exist_ok=True)
                    with rows_file.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(row) + "\n")
            bar.update(whole, advance=1)
    return summary([rows[number] for number in seeds])


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts and rates of rows; more than 40 % excluded make the set invalid."""
    kept = [row for row in rows if row["reachable"]]
    good = [row for row in kept if row["success"]]
    excluded = len(rows) - len(kept)
    return {
        "steering_scenes": len(rows),
        "steering_excluded": excluded,
        "steering_valid": excluded <= 0.4 * len(rows),
        "steering_success_pct": 100.0 * len(good) / len(kept) if kept else float("nan"),
        "steering_failed": [row["seed"] for row in kept if not row["success"]],
        "steering_median_mm": float(np.median([row["final_mm"] for row in kept])) if kept else float("nan"),
        "steering_plan_ms": float(np.median([row["plan_ms"] for row in rows])),
        "steering_plan_cpu_ms": float(np.median([row["plan_cpu_ms"] for row in rows])),
    }
