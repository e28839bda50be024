"""`prestress config check|show|reference`: is this robot's file right, and what does it say."""

from __future__ import annotations

import argparse

import msgspec

from onboard.cli.catalog import Run
from onboard.cli.config_reference import reference
from onboard.errors import UsageError
from onboard.resources import robot_file
from onboard.robot import RobotSpec
from onboard.robot_kinds import load_any


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("action", choices=("check", "show", "reference"), help="check or show a file, or print all keys")
    parser.add_argument("robot", nargs="?", help="a robot's name or the path of its TOML file")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Load the file (a wrong one raises ConfigError, exit status 2) and say what it is."""
    if args.action == "reference":
        print(reference(), end="")
        return 0
    if args.robot is None:
        raise UsageError(f"config {args.action} needs a robot's name or file")
    path = robot_file(args.robot)
    spec = load_any(path)
    summary = summarise(spec) if isinstance(spec, RobotSpec) else {"file": str(path), **spec.summary()}
    if args.json:
        print(msgspec.json.encode(summary).decode())
    elif args.action == "show":
        width = max(len(key) for key in summary)
        print("\n".join(f"{key:<{width}}  {value}" for key, value in summary.items()))
    else:
        print(f"{path}: good ({summary['title']})")
    return 0


def summarise(spec: RobotSpec) -> dict[str, object]:
    """The figures a person checks first."""
    tower, valves = spec.structure, spec.actuators
    return {
        "file": spec.file,
        "robot": spec.name,
        "title": spec.robot.title,
        "struts": tower.struts,
        "strut_length_m": round(tower.strut_length_m, 6),
        "cables": tower.cable_count,
        "cylinders": len(tower.cylinders),
        "actuator_boards": len(valves.boards) if valves else 0,
        "safe_pressure_pa": valves.safe_pressure_pa if valves else None,
        "estimator_hz": spec.rates.estimator_hz,
        "control_hz": spec.rates.control_hz,
        "physics_hash": spec.physics_hash,
    }
