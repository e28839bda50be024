"""`prestress posture teach|list|go|delete|hand`: kinesthetic teaching and return on a running robot."""

from __future__ import annotations

import argparse

import msgspec

from onboard.cli.catalog import Run
from onboard.cli.console import request, robot_argument, show
from onboard.errors import UsageError

ACTIONS = {
    "hand": "make the robot compliant so that a hand may lead it (state teaching)",
    "teach": "record the posture it is in under NAME",
    "go": "return to NAME",
    "list": "list taught postures",
    "delete": "forget NAME",
}


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("action", choices=tuple(ACTIONS), help="; ".join(f"{name}: {text}" for name, text in ACTIONS.items()))
    robot_argument(parser)
    parser.add_argument("name", nargs="?", help="name of the posture")
    return run


def run(args: argparse.Namespace) -> int:
    """Ask the daemon."""
    if args.action in ("teach", "go", "delete") and not args.name:
        raise UsageError(f"posture {args.action} needs a name")
    if args.action == "hand":
        return show(args, request(args, do="hand"))
    if args.action == "list":
        reply = request(args, do="postures")
        if args.json:
            print(msgspec.json.encode(reply).decode())
        else:
            for posture in reply["postures"]:
                print(f"{posture['name']:<24} tip at " + ", ".join(f"{value:.3f}" for value in posture["tip_m"]) + " m")
            if not reply["postures"]:
                print("no postures are taught yet")
        return 0
    return show(args, request(args, do=args.action, name=args.name))
