"""`prestress sim ROBOT`: plant, boards and broker without a daemon, for whoever wants to start that by hand."""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from onboard.errors import PrestressError, UsageError
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.rig import SimulatedRobot
from sim.usb.summary import lines_of
from sim.usb.words import add_board_option, board_ports, broker_for

STEP_S = 0.2


def sim_robot(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file; see also: prestress sim strut")
    parser.add_argument("--broker", metavar="URL", help="mqtt://[user:password@]host[:port] (else embedded)")
    parser.add_argument("--lan", action="store_true", help="the embedded broker listens on all networks, for real boards")
    parser.add_argument("--passwords", type=Path, metavar="FILE", help="with --lan: lines of board:password, mode 0600")
    add_board_option(parser)
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many seconds (default: Ctrl-C)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where jails and logs go (default: a temporary folder)")
    parser.add_argument("--seed", type=int, default=0, help="what sensor errors and clocks are drawn from")
    parser.add_argument("--json", action="store_true", help="one JSON object when all is up; with --board another at the end")
    return run


def run(args: argparse.Namespace) -> int:
    """Start everything but the daemon, say how to reach it, wait; with real boards tell what they add."""
    path = robot_file(args.robot)
    spec = load_robot(path)
    if args.duration is not None and not 0.0 < args.duration <= 1e6:
        raise UsageError(f"--duration {args.duration}: must be above 0 and at most 1000000 s")
    ports = board_ports(spec, args.board)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    with (
        tempfile.TemporaryDirectory(prefix="prestress-sim-") as temporary,
        broker_for(spec, args.broker, args.lan, args.passwords, ports) as url,
    ):
        Path(temporary).chmod(0o711)  # jailed boards must reach their folders below it
        robot = SimulatedRobot(path, spec, args.out or Path(temporary), seed=args.seed, broker=url, boards=ports)
        try:
            robot.start_world()
            _say_up(robot, args, spec)
            _wait(robot, args.duration, ended)
        finally:
            robot.close()
    _say_end(robot, args, spec)
    return 0


def _say_up(robot: SimulatedRobot, args: argparse.Namespace, spec: RobotSpec) -> None:
    words = ["prestress", "run", args.robot, "--hardware", "--broker", str(robot.endpoint)]
    words += [word for board, port in robot.ports().items() for word in ("--port", f"{board}={port}")]
    if robot.in_loop is not None:
        words += [word for strut in robot.in_loop.ports for word in ("--fed", strut)]
        for strut, port in robot.in_loop.ports.items():
            print(f"{strut} is the board on {port}: it takes its samples from the plant", flush=True)
    print(f"{spec.robot.title} is up in simulation; run its daemon with\n  {' '.join(words)}", flush=True)
    if args.json:
        found = {"robot": spec.name, "broker": str(robot.endpoint), "ports": robot.ports(), "daemon": words}
        print(msgspec.json.encode(found).decode(), flush=True)


def _wait(robot: SimulatedRobot, duration_s: float | None, ended: threading.Event) -> None:
    """Until the end; PrestressError when the plant or the bridge to the boards has ended."""
    plant = robot.plant_process
    assert plant is not None and robot.plant is not None
    left_s = duration_s if duration_s is not None else float("inf")
    while left_s > 0.0 and not ended.wait(min(STEP_S, left_s)):
        left_s -= STEP_S
        robot.plant.poll()
        if robot.in_loop is not None:
            for line in robot.in_loop.poll():
                print(line, flush=True)
        if plant.poll() is not None:
            raise PrestressError(f"the plant has ended: {robot.last_line('plant.log')}")


def _say_end(robot: SimulatedRobot, args: argparse.Namespace, spec: RobotSpec) -> None:
    if robot.in_loop is None:
        return
    for line in lines_of(robot.in_loop):
        print(line, flush=True)
    if args.json:
        table: dict[str, Any] = {"robot": spec.name, "simulation": True, "seed": args.seed, "in_loop": robot.in_loop.result}
        print(msgspec.json.encode(table).decode(), flush=True)
