"""`prestress run three_bar`: drive to a course's goal; with hardware, or (by default) everything around the daemon simulated."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from importlib.metadata import entry_points
from pathlib import Path

from onboard.cli.catalog import Run
from onboard.cli.run import BROKER_VARIABLE
from onboard.clock import WallClock
from onboard.errors import MissingExtraError, UsageError
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.navigation.mission import CONTROLLERS, MODEL, Mission, plan_mission
from onboard.navigation.parts import NavigationOptions, NavigationParts
from onboard.planning.course import COURSES
from onboard.resources import robot_file
from onboard.runtime.daemon import Daemon, Options
from onboard.telemetry.recorder import Limits
from onboard.three_bar_robot import NAME, ThreeBar, load_robot


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("--robot", default=NAME, help="the robot's name or TOML file")
    parser.add_argument("--course", choices=COURSES, default="flat_obstacle", help="what stands around, start and goal")
    parser.add_argument("--controller", choices=CONTROLLERS, default="value")
    parser.add_argument("--model", default=MODEL, help="exported model by name or manifest")
    parser.add_argument("--seed", type=int, default=0, help="of the planner; simulated: of start, noise and drop-outs too")
    parser.add_argument("--hardware", action="store_true", help="drive the real boards; nothing is simulated")
    parser.add_argument("--poses", type=Path, metavar="SOCKET", help="with --hardware: where the pose source sends to")
    parser.add_argument("--broker", metavar="URL", help="with --hardware: mqtt[s]://host[:port][?ca=FILE] (else embedded)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="with --hardware: record from the start (.mcap)")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many seconds (default: the course's limit)")
    parser.add_argument("--no-realtime", action="store_true", help="do not ask for realtime priority")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="simulated: where recording and picture go")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Check file, course and model, then run."""
    path = robot_file(args.robot)
    spec = load_robot(path)
    if args.duration is not None and not 0.0 < args.duration <= 1e6:
        raise UsageError(f"--duration {args.duration}: must be above 0 and at most 1000000 s")
    if not 0 <= args.seed < 2**32:
        raise UsageError(f"--seed {args.seed}: must be 0 .. 4294967295")
    if args.hardware:
        if args.out is not None:
            raise UsageError("--out belongs to a simulated run")
        return _hardware(args, path, spec)
    for word, given in {"--poses": args.poses, "--broker": args.broker, "--record": args.record}.items():
        if given:
            raise UsageError(f"{word} needs --hardware; a simulated run keeps everything in its own folder (--out)")
    for entry in entry_points(group="prestress.simulations", name="run.three_bar"):
        try:
            simulate = entry.load()
        except ModuleNotFoundError as error:
            raise MissingExtraError("a simulated robot", "sim") from error
        return int(simulate(args, path, spec))
    raise MissingExtraError("a simulated robot", "sim")


def _hardware(args: argparse.Namespace, path: Path, spec: ThreeBar) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if args.poses is None:
        raise UsageError("--poses SOCKET is needed: the robot must be seen from outside")
    mission = plan_mission(spec, path, args.course, args.controller, args.model, args.seed)
    url = args.broker or os.environ.get(BROKER_VARIABLE)
    if url:
        return _daemon(args, path, spec, mission, parse_endpoint(url))
    with EmbeddedBroker(spec.link.prefix) as broker:
        return _daemon(args, path, spec, mission, broker.endpoint)


def _daemon(args: argparse.Namespace, path: Path, spec: ThreeBar, mission: Mission, broker: Endpoint) -> int:
    clock = WallClock()
    parts = NavigationParts(spec, mission, NavigationOptions(path, args.poses, broker), clock)
    limits = Limits(spec.recording.max_bytes, spec.recording.min_free_bytes)
    options = Options(path, args.record, not args.no_realtime, args.duration, limits=limits)
    daemon = Daemon(options, parts, clock)
    return asyncio.run(daemon.run())
