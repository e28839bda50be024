"""`prestress doctor [ROBOT]`: is this computer fit to run a robot; each line is good or says what to do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from onboard.cli.catalog import Run
from onboard.doctor import computer, robot
from onboard.doctor.check import Check, good, tried
from onboard.errors import UsageError
from onboard.flash.robot_boards import boards_of
from onboard.link.endpoint import parse_endpoint
from onboard.resources import robot_file
from onboard.robot import RobotSpec


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", nargs="?", help="also check what this robot needs: its name or its TOML file")
    parser.add_argument("--broker", metavar="URL", help="sign in at this broker (else the embedded one is used)")
    parser.add_argument("--certs", type=Path, metavar="FOLDER", help="check the certificates in this folder")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="name of the broker in its certificate")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure loop lateness")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Run all checks; exit status 0 when nothing that a robot needs is wrong, else 1."""
    if not 0.5 <= args.seconds <= 600.0:
        raise UsageError(f"--seconds {args.seconds}: must lie in 0.5 .. 600")
    if args.certs is not None and args.robot is None:
        raise UsageError("--certs needs the robot, whose boards' certificates are meant")
    path = None if args.robot is None else robot_file(args.robot)
    endpoint = parse_endpoint(args.broker) if args.broker else None
    checks = []
    for check in _all(args, path):
        checks.append(check)
        print(f"{'good' if check.ok else 'BAD ' if check.needed else 'note'}  {check.name}: {check.message}", flush=True)
    last = tried("broker", lambda: robot.broker(endpoint)) if endpoint else good("broker", "the embedded one will be used")
    checks.append(last)
    print(f"{'good' if last.ok else 'BAD '}  {last.name}: {last.message}")
    failed = sum(check.needed and not check.ok for check in checks)
    if args.json:
        print(msgspec.json.encode({"ok": not failed, "checks": checks}).decode())
    return 1 if failed else 0


def _all(args: argparse.Namespace, path: Path | None) -> Iterator[Check]:
    yield computer.interpreter()
    yield computer.packages()
    yield computer.cores()
    yield computer.governor()
    yield computer.memory()
    yield tried("disk", lambda: computer.disk(Path.cwd()))
    yield computer.clock()
    yield from computer.punctuality(args.seconds)
    check, loaded = robot.robot_files(path)
    yield check
    yield tried("models", robot.models)
    spec = None if path is None else boards_of(loaded, path)
    yield tried("serial ports", lambda: robot.serial_ports(spec))
    if isinstance(spec, RobotSpec):
        yield tried("kernels", lambda: robot.kernels(spec))
    if spec is not None:
        yield tried("daemon", lambda: robot.daemon(spec))
        if args.certs is not None:
            yield tried("certificates", lambda: robot.certificates(args.certs, spec, args.host))
