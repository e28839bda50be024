"""`prestress run vine`: grow to a goal through obstacles; with hardware, or (by default) all around the daemon simulated."""

from __future__ import annotations

import argparse
import asyncio
import logging
from importlib.metadata import entry_points
from pathlib import Path

from onboard.cli.catalog import Run
from onboard.clock import WallClock
from onboard.errors import MissingExtraError, UsageError
from onboard.growing.parts import GrowthOptions, GrowthParts
from onboard.growing.task import read_task
from onboard.resources import robot_file
from onboard.runtime.daemon import Daemon, Options
from onboard.telemetry.recorder import Limits
from onboard.vine_robot import VineRobot, load_vine

NAME = "vine"


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("--robot", default=NAME, help="the robot's name or TOML file")
    parser.add_argument("--scene", default="", help="simulated: a scene's name or TOML file (default: a task by --seed)")
    parser.add_argument("--goal-mm", type=float, nargs=2, metavar=("X", "Y"), help="goal [mm] from the base; needed with --scene")
    parser.add_argument("--seed", type=int, default=0, help="of the planner; simulated: of task and camera noise too")
    parser.add_argument("--hardware", action="store_true", help="drive the real board; nothing is simulated")
    parser.add_argument("--task", type=Path, metavar="FILE", help="with --hardware: JSON with known obstacles and the goal")
    parser.add_argument("--poses", type=Path, metavar="SOCKET", help="with --hardware: where the camera sends to")
    parser.add_argument("--port", metavar="DEVICE", help="with --hardware: serial port of the valve board (else the file's)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="with --hardware: record from the start (.mcap)")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many seconds (default: the file's limit)")
    parser.add_argument("--no-realtime", action="store_true", help="do not ask for realtime priority")
    parser.add_argument("--simulated-clock", action="store_true", help="simulated: planner and simulator alone, not in real time")
    parser.add_argument("--quick", action="store_true", help="simulated: no film")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="simulated: where recording, picture and film go")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Check robot and task, then run."""
    robot = load_vine(robot_file(args.robot))
    if args.duration is not None and not 0.0 < args.duration <= 1e6:
        raise UsageError(f"--duration {args.duration}: must be above 0 and at most 1000000 s")
    if not 0 <= args.seed < 2**32:
        raise UsageError(f"--seed is {args.seed}: must be 0 .. 4294967295")
    if args.hardware:
        idle = {"--out": args.out, "--scene": args.scene, "--goal-mm": args.goal_mm, "--simulated-clock": args.simulated_clock}
        for word, given in idle.items():
            if given:
                raise UsageError(f"{word} belongs to a simulated run")
        return _hardware(args, robot)
    for word, given in {"--task": args.task, "--poses": args.poses, "--port": args.port, "--record": args.record}.items():
        if given:
            raise UsageError(f"{word} needs --hardware; a simulated run keeps everything in its own folder (--out)")
    for entry in entry_points(group="prestress.simulations", name="run.vine"):
        try:
            simulate = entry.load()
        except ModuleNotFoundError as error:
            raise MissingExtraError("a simulated robot", "sim") from error
        return int(simulate(args, robot))
    raise MissingExtraError("a simulated robot", "sim")


def _hardware(args: argparse.Namespace, robot: VineRobot) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for word, given in {"--task FILE": args.task, "--poses SOCKET": args.poses}.items():
        if given is None:
            raise UsageError(f"{word} is needed: the robot grows where it is told, and must be seen from above")
    port = args.port or robot.lines.port
    if not port:
        raise UsageError(f"--port DEVICE is needed: {robot.file} names no serial port for {robot.lines.board}")
    clock = WallClock()
    parts = GrowthParts(robot, read_task(args.task), GrowthOptions(args.poses, port, args.seed), clock)
    limits = Limits(robot.recording.max_bytes, robot.recording.min_free_bytes)
    options = Options(Path(robot.file), args.record, not args.no_realtime, args.duration, limits=limits)
    return asyncio.run(Daemon(options, parts, clock).run())
