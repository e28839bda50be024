"""`prestress run vine` without hardware: the daemon grows the simulated robot to its goal, in real time, over real firmware."""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from onboard.errors import PrestressError, RobotFault
from onboard.messages import Floats
from onboard.vine_robot import VineRobot
from sim.vine.draw_steering import draw_episode, film_episode
from sim.vine.plant import arc
from sim.vine.rig import SimulatedVine
from sim.vine.run import simulated_clock, task_of
from sim.vine.steer import SETTLE_S, Episode

READY_S = 90.0
SHOWN = ("reached", "final_mm", "time_s", "final_state", "plans_per_s", "plan_ms", "control_late_p99_ms", "recording")


class Growth:
    """What happened: centre lines (P, 2) [m] from the start of growing on, when it began and when the daemon said it arrived."""

    def __init__(self, goal: Floats) -> None:
        self.goal = goal
        self.begin_s = float("inf")
        self.arrived_s: float | None = None
        self.lines: list[Floats] = []
        self.last: Any = None
        self.lag_s, self.failed = 0.0, ""

    def take(self, reports: list[Any]) -> None:
        """Reports of the plant, oldest first."""
        for report in reports:
            self.failed = report.failed or self.failed
            if report.line_m:
                self.last = report
                self.lag_s = max(self.lag_s, report.lag_s)
                if report.t_s >= self.begin_s:
                    self.lines.append(np.array(report.line_m))

    @property
    def distance_m(self) -> float:
        """From the true tip to the goal."""
        return float("nan") if self.last is None else float(np.linalg.norm(np.array(self.last.line_m[-1]) - self.goal))


def simulate(args: argparse.Namespace, robot: VineRobot) -> int:
    """Run, show, judge; exit status 0 when the tip ends within the tolerance, 1 when not, 6 after a fault."""
    if args.simulated_clock:
        return simulated_clock(args, robot)
    console, task = Console(stderr=args.json), task_of(args, robot)
    folder = args.out or Path("runs") / f"{robot.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    limit_s = robot.planner.time_limit_s if args.duration is None else args.duration
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    options = ("--no-realtime",) if args.no_realtime else ()
    console.print(f"starting valve board, simulator and daemon; everything is written to {folder}", highlight=False)
    growth, interrupted = Growth(task.goal), False
    with SimulatedVine(robot, task, folder, seed=args.seed, daemon_options=options) as rig:
        with Progress(console=console, transient=True) as bar:
            try:
                play(rig, growth, limit_s, bar)
            except KeyboardInterrupt:
                interrupted = True
        status, ended_s = rig.status(), time.monotonic()
        daemon_exit = rig.stop_daemon()
    summary = judge(growth, status, ended_s, robot.planner.tolerance_m)
    made = Episode(growth.distance_m, growth.distance_m, summary["time_s"], 0.0, [], [], 0, 0.0, growth.lines, [])
    files = []
    if growth.lines:
        files.append(folder / f"{task.scene.name}-steered.png")
        draw_episode(made, task, robot.planner.tolerance_m, files[0])
        if not args.quick:
            files.append(files[0].with_suffix(".mp4"))
            film_episode(made, task, robot.planner.tolerance_m, files[1], every=1)
    summary |= {"scene": task.scene.name, "goal_mm": [round(1e3 * float(v), 1) for v in task.goal], "seed": args.seed}
    summary |= {"interrupted": interrupted, "daemon_exit": daemon_exit, "folder": str(folder)}
    summary |= {"files": [str(path) for path in files], "recording": str(rig.recording)}
    for key in SHOWN:
        console.print(f"  {key}: {summary[key]}", highlight=False)
    if args.json:
        print(json.dumps(summary))
    if interrupted:
        return 130
    if daemon_exit or status["state"] in ("fault", "safe"):
        return RobotFault.exit_code
    return 0 if summary["reached"] else 1


def play(rig: SimulatedVine, growth: Growth, limit_s: float, bar: Progress) -> None:
    """Arm, go, and watch until the tip has been held at the goal for a moment, the robot has stopped itself, or time is up."""

    def ready(status: dict[str, Any]) -> bool:
        boards = status["boards"].values()
        return status["tip_m"] is not None and status["planner"]["warm"] and any(board["ready"] for board in boards)

    _until(rig, growth, bar, "waiting for board, pictures and planner", READY_S, ready)
    rig.ask("arm")
    _until(rig, growth, bar, "arming", 10.0, lambda status: status["state"] == "active" and status["valves_open"])
    rig.ask("go")
    growth.begin_s = time.monotonic()

    def ended(status: dict[str, Any]) -> bool:
        if status["arrived"] and growth.arrived_s is None:
            growth.arrived_s = time.monotonic()
        held = growth.arrived_s is not None and time.monotonic() - growth.arrived_s >= SETTLE_S
        return held or status["state"] in ("safe", "fault", "disarmed") or bool(growth.failed)

    _until(rig, growth, bar, "growing", limit_s, ended, may_end=True)


def _until(
    rig: SimulatedVine,
    growth: Growth,
    bar: Progress,
    doing: str,
    limit_s: float,
    done: Callable[[dict[str, Any]], bool],
    may_end: bool = False,
) -> None:
    begin_s, status = time.monotonic(), rig.status()
    task = bar.add_task(doing, total=limit_s)
    while not done(status):
        elapsed_s = time.monotonic() - begin_s
        if elapsed_s > limit_s:
            if may_end:
                break
            raise PrestressError(
                f"{doing} took longer than {limit_s:g} s: {status['troubles']} {status['links']} {status['planner']['problem']}"
            )
        assert rig.plant is not None
        growth.take(rig.plant.poll(0.05))
        status = rig.status()
        bar.update(task, completed=elapsed_s)
    bar.remove_task(task)


def judge(growth: Growth, status: dict[str, Any], ended_s: float, tolerance_m: float) -> dict[str, Any]:
    """Figures of a run. plans_per_s: between the first and the last plan that counted."""
    control = next(loop for loop in status["loops"] if loop["name"] == "control")
    planner, last = status["planner"], growth.last
    grown_s = max(ended_s - growth.begin_s, 0.0) if np.isfinite(growth.begin_s) else 0.0
    return {
        "simulation": True,
        "clock": "real",
        "reached": bool(growth.distance_m <= tolerance_m),
        "final_mm": round(1e3 * growth.distance_m, 2),
        "time_s": round(grown_s, 2),
        "arrived_s": None if growth.arrived_s is None else round(growth.arrived_s - growth.begin_s, 2),
        "length_mm": round(1e3 * float(arc(np.array(last.line_m))[-1]), 1),
        "final_state": status["state"],
        "plans": planner["plans"],
        "plans_late": planner["late"],
        "plans_per_s": planner["plans_per_s"],
        "plan_ms": planner["plan_ms"],
        "planner_restarts": planner["restarts"],
        "control_late_p50_ms": round(control["late_p50_us"] / 1e3, 3),
        "control_late_p99_ms": round(control["late_p99_us"] / 1e3, 3),
        "overruns": sum(loop["overruns"] for loop in status["loops"]),
        "pictures": status["poses"]["received"],
        "max_penetration_mm": round(1e3 * last.penetration_m, 4),
        "unconverged": last.unconverged,
        "plant_lag_max_s": round(growth.lag_s, 3),
        "plant_slips": last.slips,
        "plant_failed": growth.failed,
        "governor": status["governor"],
        "daemon_cpu_pct": status["process"]["cpu_pct"],
        "daemon_rss_mb": status["process"]["rss_mb"],
    }


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
