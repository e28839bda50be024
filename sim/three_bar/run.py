"""`prestress run three_bar` without hardware: the daemon drives the simulated robot over a course, in real time, to the goal."""

from __future__ import annotations

import argparse
import json
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from onboard.errors import PrestressError, RobotFault
from onboard.messages import Floats
from onboard.navigation.mission import Mission, plan_mission
from onboard.planning.assembly import build, load_dynamics
from onboard.three_bar_robot import ThreeBar
from sim.three_bar.course import scene_of
from sim.three_bar.navigation.picture import save_top_down
from sim.three_bar.rig import SimulatedStruts
from sim.three_bar.table import LiveTable

REACH_U = 0.5  # success: the true centre of mass this close to the goal in plan, as in the trials
READY_S = 60.0
TRACE_S = 0.1


class Drive:
    """What happened: the true caps over time [u], when it began, whether and when it arrived."""

    def __init__(self, goal: Floats) -> None:
        self.goal = goal
        self.begin_s = float("nan")
        self.arrived_s: float | None = None
        self.path: list[Floats] = []
        self.last_s = -1.0
        self.lag_s, self.slips, self.failed = 0.0, 0, ""

    def take(self, reports: list[Any]) -> None:
        """Reports of the plant, oldest first."""
        for report in reports:
            if report.failed:
                self.failed = report.failed
                continue
            caps = np.array(report.caps_u)
            self.lag_s, self.slips = max(self.lag_s, report.lag_s), report.slips
            if report.t_s - self.last_s >= TRACE_S:
                self.last_s = report.t_s
                self.path.append(caps)
            distance_u = float(np.linalg.norm(caps.mean(axis=0)[:2] - self.goal))
            if self.arrived_s is None and report.t_s > self.begin_s and distance_u <= REACH_U:
                self.arrived_s = report.t_s

    @property
    def distance_u(self) -> float:
        """From the true centre of mass to the goal in plan."""
        return float(np.linalg.norm(self.path[-1].mean(axis=0)[:2] - self.goal)) if self.path else float("nan")


def simulate(args: argparse.Namespace, path: Path, spec: ThreeBar) -> int:
    """Run, show, judge; exit status 0 when the goal was reached, 1 when time was up, 6 after a fault."""
    console = Console(stderr=args.json)
    folder = args.out or Path("runs") / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    mission = plan_mission(spec, path, args.course, args.controller, args.model, args.seed)
    limit_s = mission.course.course.limit_s if args.duration is None else args.duration
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    options = ("--no-realtime",) if args.no_realtime else ()
    console.print(f"starting motor boards, plant and daemon; everything is written to {folder}", highlight=False)
    robot = SimulatedStruts(
        path,
        spec,
        folder,
        course=args.course,
        controller=args.controller,
        model=args.model,
        seed=args.seed,
        daemon_options=options,
    )
    drive, interrupted = Drive(mission.goal), False
    with robot, LiveTable(robot, console) as table:
        try:
            play(robot, drive, limit_s, table)
        except KeyboardInterrupt:
            interrupted = True
        status = robot.status()
        daemon_exit = robot.stop_daemon()
    picture = folder / "run.png"
    if drive.path:
        draw(picture, spec, mission, drive)
    summary = judge(drive, status, limit_s)
    summary |= {"course": args.course, "controller": args.controller, "model": args.model, "seed": args.seed}
    summary |= {"interrupted": interrupted, "daemon_exit": daemon_exit, "folder": str(folder)}
    summary |= {"picture": str(picture), "recording": str(robot.recording)}
    for key in ("success", "time_s", "final_distance_u", "final_state", "plan_ms", "control_late_p99_ms", "picture", "recording"):
        console.print(f"  {key}: {summary[key]}", highlight=False)
    if args.json:
        print(json.dumps(summary))
    if interrupted:
        return 130
    if daemon_exit or status["state"] in ("fault", "safe"):
        return RobotFault.exit_code
    return 0 if summary["success"] else 1


def play(robot: SimulatedStruts, drive: Drive, limit_s: float, table: LiveTable) -> None:
    """Arm, go, and watch until the robot has arrived, has stopped itself, or time is up."""
    wait_ready(robot, drive, table)
    robot.ask("arm")
    _until(robot, drive, table, "arming", 10.0, lambda status: status["state"] == "active")
    robot.ask("go")
    drive.begin_s = time.monotonic()

    def ended(status: dict[str, Any]) -> bool:
        return bool(drive.arrived_s) or status["state"] in ("safe", "fault", "disarmed") or bool(drive.failed)

    _until(robot, drive, table, "driving", limit_s, ended, may_end=True)


def wait_ready(robot: SimulatedStruts, drive: Drive, table: LiveTable) -> None:
    """Until boards are ready and the robot is seen."""

    def ready(status: dict[str, Any]) -> bool:
        boards = status["boards"]
        seen = status["pose"] is not None and status["planner"]["warm"]
        return seen and len(boards) == robot.board_count and all(board["ready"] for board in boards.values())

    _until(robot, drive, table, "waiting for boards, poses and planner", READY_S, ready)


def _until(
    robot: SimulatedStruts, drive: Drive, table: LiveTable, doing: str, limit_s: float, done: Any, may_end: bool = False
) -> None:
    end_s, look_s, status = time.monotonic() + limit_s, 0.0, robot.status()
    while not done(status):
        if time.monotonic() > end_s:
            if may_end:
                return
            raise PrestressError(f"{doing} took longer than {limit_s:g} s: {status['troubles'] or status['boards']}")
        assert robot.plant is not None
        drive.take(robot.plant.poll(0.05))
        if time.monotonic() >= look_s:
            look_s, status = time.monotonic() + 0.2, robot.status()
            table.show(doing, status, drive.distance_u)


def draw(picture: Path, spec: ThreeBar, mission: Mission, drive: Drive) -> None:
    """Course, path and cost to go from above."""
    dynamics = load_dynamics(mission.data, Path(mission.manifest)) if mission.manifest else None
    navigator = build(mission.data, dynamics)
    navigator.set_goal(mission.goal)
    took = "not reached" if drive.arrived_s is None else f"goal after {drive.arrived_s - drive.begin_s:.1f} s"
    title = f"{mission.course.course.name}, {mission.data.kind}, through daemon and firmware: {took} (simulation)"
    terrain = mission.data.terrain
    save_top_down(picture, spec, scene_of(mission.course), mission.course, terrain, navigator, np.array(drive.path), title)


def judge(drive: Drive, status: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """Figures of a run."""
    control = next(loop for loop in status["loops"] if loop["name"] == "control")
    planner = status["planner"]
    return {
        "simulation": True,
        "success": drive.arrived_s is not None,
        "time_s": round(limit_s if drive.arrived_s is None else drive.arrived_s - drive.begin_s, 2),
        "final_distance_u": round(drive.distance_u, 3),
        "final_state": status["state"],
        "plans": planner["plans"],
        "plans_late": planner["late"],
        "idle_ticks": planner["idle"],
        "plan_ms": planner["plan_ms"],
        "planner_restarts": planner["restarts"],
        "control_late_p50_ms": round(control["late_p50_us"] / 1e3, 3),
        "control_late_p99_ms": round(control["late_p99_us"] / 1e3, 3),
        "control_late_max_ms": round(control["late_max_us"] / 1e3, 3),
        "overruns": sum(loop["overruns"] for loop in status["loops"]),
        "poses": status["poses"]["received"],
        "plant_lag_max_s": round(drive.lag_s, 3),
        "plant_slips": drive.slips,
        "plant_failed": drive.failed,
        "daemon_cpu_pct": status["process"]["cpu_pct"],
        "daemon_rss_mb": status["process"]["rss_mb"],
    }


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
