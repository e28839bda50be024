"""`prestress sim ROBOT`: plant, virtual boards and broker without a daemon, for whoever wants to start that by hand."""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from onboard.errors import PrestressError
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.rig import SimulatedRobot


def sim_robot(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file; see also: prestress sim strut")
    parser.add_argument("--broker", metavar="URL", help="mqtt://[user:password@]host[:port] (else embedded)")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many seconds (default: Ctrl-C)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where jails and logs go (default: a temporary folder)")
    parser.add_argument("--seed", type=int, default=0, help="what sensor errors and clocks are drawn from")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line when all is up")
    return run


def run(args: argparse.Namespace) -> int:
    """Start everything but the daemon, say how to reach it, wait."""
    path = robot_file(args.robot)
    spec = load_robot(path)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="prestress-sim-") as temporary:
        robot = SimulatedRobot(path, spec, args.out or Path(temporary), seed=args.seed, broker=args.broker)
        try:
            robot.start_world()
            words = ["prestress", "run", args.robot, "--hardware", "--broker", str(robot.endpoint)]
            words += [word for board, port in robot.ports().items() for word in ("--port", f"{board}={port}")]
            print(f"{spec.robot.title} is up in simulation; run its daemon with\n  {' '.join(words)}", flush=True)
            if args.json:
                found = {"robot": spec.name, "broker": str(robot.endpoint), "ports": robot.ports(), "daemon": words}
                print(msgspec.json.encode(found).decode(), flush=True)
            plant = robot.plant_process
            assert plant is not None and robot.plant is not None
            left_s = args.duration if args.duration is not None else float("inf")
            while left_s > 0.0 and not ended.wait(min(0.2, left_s)):
                left_s -= 0.2
                robot.plant.poll()
                if plant.poll() is not None:
                    raise PrestressError(f"the plant has ended: {robot.last_line('plant.log')}")
        finally:
            robot.close()
    return 0
