"""`prestress run ROBOT`: the daemon with its hardware, or (by default) everything around it simulated on this computer."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from importlib.metadata import entry_points
from pathlib import Path

import msgspec

from onboard.calibration.file import encode, with_calibration
from onboard.cli.catalog import Run
from onboard.clock import WallClock
from onboard.errors import ConfigError, MissingExtraError, UsageError
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from onboard.runtime.control_socket import refuse_a_second, socket_path
from onboard.runtime.daemon import Daemon, Options
from onboard.runtime.tower import TowerOptions, TowerParts
from onboard.telemetry.recorder import Limits

BROKER_VARIABLE = "PRESTRESS_BROKER"


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file")
    parser.add_argument("--hardware", action="store_true", help="drive the real boards; nothing is simulated")
    parser.add_argument(
        "--broker", metavar="URL", help="mqtt://[user:password@]host[:port] or mqtts://host?ca=FILE (else embedded)"
    )
    parser.add_argument(
        "--lan", action="store_true", help="the embedded broker listens on all networks, with a password per board"
    )
    parser.add_argument("--passwords", type=Path, metavar="FILE", help="with --lan: lines of board:password, mode 0600")
    parser.add_argument("--port", action="append", default=[], metavar="BOARD=DEVICE", help="serial port of an actuator board")
    parser.add_argument(
        "--board",
        action="append",
        default=[],
        metavar="STRUT=PORT",
        help="simulation only: a flashed board on USB that the plant feeds; may be repeated",
    )
    parser.add_argument(
        "--fed", action="append", default=[], metavar="STRUT", help="this strut's samples come from a simulation over USB"
    )
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many seconds")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record from the start (.mcap)")
    parser.add_argument("--postures", type=Path, metavar="FOLDER", help="where taught postures are kept")
    parser.add_argument("--calibration", type=Path, metavar="FILE", help="what prestress calibrate found; needs --hardware")
    parser.add_argument("--no-realtime", action="store_true", help="do not ask for realtime priority")
    parser.add_argument("--seed", type=int, default=0, help="simulation only: what errors and poses are drawn from")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="simulation only: where recording and pictures go")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Check the robot's file, then run; exit status 0 after an orderly end, 6 after a fault."""
    path = robot_file(args.robot)
    spec = load_robot(path)
    if args.duration is not None and not 0.0 < args.duration <= 1e6:
        raise UsageError(f"--duration {args.duration}: must be above 0 and at most 1000000 s")
    if args.broker:
        parse_endpoint(args.broker)  # a wrong one is refused before anything starts
    _refuse_options_that_do_nothing(args)
    if not args.hardware:
        found = entry_points(group="prestress.simulations", name="run")
        for entry in found:
            try:
                simulate = entry.load()
            except ModuleNotFoundError as error:
                raise MissingExtraError("a simulated robot", "sim") from error
            return int(simulate(args, path, spec))
        raise MissingExtraError("a simulated robot", "sim")
    return _hardware(args, path, spec)


def _refuse_options_that_do_nothing(args: argparse.Namespace) -> None:
    """A recording or a password that was asked for and silently left out would be missed too late."""
    if args.hardware:
        idle = {"--out": args.out, "--seed": args.seed, "--board": args.board}
        hint = "belongs to a simulated run"
    else:
        words = ("--lan", "--passwords", "--port", "--record", "--postures", "--fed", "--calibration")
        idle = {word: getattr(args, word[2:]) for word in words}
        hint = "needs --hardware; a simulated run keeps recording and postures in its own folder (--out)"
    for word, given in idle.items():
        if given:
            raise UsageError(f"{word} {hint}")


def _hardware(args: argparse.Namespace, path: Path, spec: RobotSpec) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    refuse_a_second(socket_path(spec.name))
    if args.calibration is not None:
        spec = with_calibration(spec, args.calibration)
    ports = serial_ports(spec, args.port)
    url = args.broker or os.environ.get(BROKER_VARIABLE)
    if url:
        return _daemon(args, path, spec, parse_endpoint(url), ports)
    boards = [*spec.struts]
    with EmbeddedBroker(spec.link.prefix, lan=args.lan, passwords=args.passwords, boards=boards) as broker:
        return _daemon(args, path, spec, broker.endpoint, ports)


def _daemon(args: argparse.Namespace, path: Path, spec: RobotSpec, broker: Endpoint, ports: dict[str, str]) -> int:
    clock = WallClock()
    parts = TowerParts(spec, TowerOptions(broker, ports, args.postures, tuple(args.fed)), clock)
    calibration = encode(spec.calibration).decode() if spec.calibration is not None else None
    limits = Limits(spec.recording.max_bytes, spec.recording.min_free_bytes)
    options = Options(path, args.record, not args.no_realtime, args.duration, calibration, limits)
    daemon = Daemon(options, parts, clock)
    status = asyncio.run(daemon.run())
    if args.json:
        print(msgspec.json.encode({**daemon.summary(), "exit_status": status}).decode())
    return status


def serial_ports(spec: RobotSpec, given: list[str]) -> dict[str, str]:
    """Board id -> device path: what the robot's file says, overridden by BOARD=DEVICE words."""
    boards = spec.actuators.boards if spec.actuators else []
    ports = {board.id: board.port for board in boards}
    for word in given:
        board, sign, device = word.partition("=")
        if not sign or not device:
            raise UsageError(f"--port {word}: write BOARD=DEVICE, such as valve0=/dev/ttyACM0")
        if board not in ports:
            raise UsageError(f"--port {word}: {spec.file} has no board {board!r}; it has {', '.join(ports) or 'none'}")
        ports[board] = device
    for index, name in enumerate(ports):
        if not ports[name]:
            raise ConfigError(
                spec.file, f"actuators.boards[{index}].port", f"is empty: {name} needs a serial port to run on hardware"
            )
    return ports
