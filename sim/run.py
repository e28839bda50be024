"""`prestress run ROBOT` without hardware: the whole robot simulated around the real firmware and daemon, playing a scenario."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from onboard.errors import LinkError, PrestressError, RecordingError, RobotFault
from onboard.robot import RobotSpec
from sim.display import LiveTable
from sim.rig import SimulatedRobot
from sim.run_plot import plot_run
from sim.scenario import NO_RECORDING, Outcome, Scenario
from sim.trace import EstimateLog, TruthLog
from sim.usb.summary import lines_of
from sim.usb.words import board_ports, require_broker


def simulate(args: argparse.Namespace, path: Path, spec: RobotSpec) -> int:
    """Run, show, judge; exit status 0 when the robot did as told, 6 when it went to a fault."""
    console = Console(stderr=args.json)
    folder = args.out or Path("runs") / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # SIGINT too: a shell's background job has been told to ignore it
    options = ("--no-realtime",) if args.no_realtime else ()
    truth = TruthLog()
    ports = board_ports(spec, args.board)
    require_broker(ports, args.broker)
    console.print(
        f"starting broker, {len(spec.struts)} strut boards, plant and daemon; everything is written to {folder}", highlight=False
    )
    robot = SimulatedRobot(path, spec, folder, seed=args.seed, broker=args.broker, daemon_options=options, boards=ports)
    scenario = None
    interrupted = False
    with robot, LiveTable(robot, console) as table:
        scenario = Scenario(robot, truth, args.duration, lambda doing: _poll(robot, table, console, doing))
        try:
            outcome = scenario.play()
        except KeyboardInterrupt:
            outcome, interrupted = scenario.outcome, True
        status = robot.status()
        daemon_exit = robot.stop_daemon()
    summary = judge(spec, robot, truth, outcome, status)
    summary |= {"interrupted": interrupted, "daemon_exit": daemon_exit, "folder": str(folder), "seed": args.seed}
    if summary["tip_rmse_pct"] is not None:
        picture = folder / "run.png"
        try:
            plot_run(spec, EstimateLog.read(robot.recording), truth, outcome, picture)
            summary["picture"] = str(picture)
        except OSError as error:
            summary["picture_error"] = error.strerror
    if robot.in_loop is not None:
        summary["in_loop"] = robot.in_loop.result
    _print(console, spec, summary)
    if robot.in_loop is not None:
        console.print("\n".join(f"  {line}" for line in lines_of(robot.in_loop)), highlight=False)
    if args.json:
        print(msgspec.json.encode(summary).decode())
    if interrupted:
        return 130
    if not status["link"]["connects"]:
        raise LinkError(f"{status['link']['broker']} was never reached: is it running, are address, user and password right?")
    if daemon_exit == 0 and NO_RECORDING in status["troubles"]:
        raise RecordingError(f"{robot.recording}: is not complete: {robot.last_line('daemon.log', 'recording stopped')}")
    return RobotFault.exit_code if daemon_exit or status["state"] in ("fault", "safe") else 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _poll(robot: SimulatedRobot, table: LiveTable, console: Console, doing: str) -> None:
    table.poll(doing)
    for line in robot.in_loop.poll() if robot.in_loop is not None else ():
        console.print(line, highlight=False)


def judge(spec: RobotSpec, robot: SimulatedRobot, truth: TruthLog, outcome: Outcome, status: dict[str, Any]) -> dict[str, Any]:
    """Figures of a run: estimate against truth over all phases, returns against what was taught."""
    length = spec.structure.rest_height_m
    if not truth.t_s.size:
        raise PrestressError("the plant reported nothing")
    error_pct = math.nan
    with contextlib.suppress(RecordingError):  # a full disk: there may be none, or one without the phases
        if outcome.phases:
            error_pct = EstimateLog.read(robot.recording).tip_rmse_pct(truth, outcome.phases[0][1], outcome.phases[-1][2], length)
    return {
        "robot": spec.name,
        "simulation": True,
        "tip_rmse_pct": _rounded(error_pct),
        "returns": [
            {
                "name": one.name,
                "tilt_deg": round(one.tilt_deg, 1),
                "error_pct": _rounded(100.0 * one.error_m / length),
                "settle_s": _rounded(one.settle_s),
            }
            for one in outcome.returns
        ],
        "pressure_violation_pa": round(truth.violation_pa, 1),
        "samples": status["struts"]["samples"],
        "samples_lost": status["struts"]["lost"],
        "overruns": sum(loop["overruns"] for loop in status["loops"]),
        "daemon_ready_s": _rounded(robot.daemon_ready_s),
        "daemon_cpu_pct": status["process"]["cpu_pct"],
        "daemon_rss_mb": round(status["process"]["rss_mb"], 1),
        "plant_slips": truth.slips,
        "final_state": status["state"],
        "recording": str(robot.recording),
        "cut_short": outcome.cut_short,
    }


def _rounded(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def _print(console: Console, spec: RobotSpec, summary: dict[str, Any]) -> None:
    lines = [f"{spec.robot.title}, simulated, seed {summary['seed']}:"]
    if summary["tip_rmse_pct"] is not None:
        lines.append(f"  estimated tip against the true one: {summary['tip_rmse_pct']:.2f} % of length (root mean square)")
    lines += [_return_line(one) for one in summary["returns"] if one["error_pct"] is not None]
    total = summary["samples"] + summary["samples_lost"]
    lines.append(f"  {summary['samples_lost']} of {total} samples lost, {summary['overruns']} ticks skipped")
    lines.append(
        "  daemon: ready after {daemon_ready_s:.1f} s, {daemon_cpu_pct:.0f} % of a core, "
        "{daemon_rss_mb:.0f} MB; ended {final_state}".format(**summary)
    )
    lines += [f"  {key}: {summary[key]}" for key in ("picture", "recording") if summary.get(key)]
    console.print("\n".join(lines), highlight=False)


def _return_line(one: dict[str, Any]) -> str:
    settled = "not settled within 1 %" if one["settle_s"] is None else f"settled within 1 % after {one['settle_s']:.1f} s"
    return "  {name} (tilt {tilt_deg:.0f} degrees): true tip back within {error_pct:.2f} % of length, ".format(**one) + settled
