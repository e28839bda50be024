"""`prestress go ROBOT`: set an armed robot going to its task's goal, or to another one."""

from __future__ import annotations

import argparse
import math

from onboard.cli.catalog import Run
from onboard.cli.console import request, robot_argument, show
from onboard.errors import UsageError


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    robot_argument(parser)
    parser.add_argument(
        "--goal",
        type=float,
        nargs=2,
        metavar=("X", "Y"),
        help="in the unit of the robot's plans (default: the goal it was started with)",
    )
    return run


def run(args: argparse.Namespace) -> int:
    """Ask the daemon."""
    if args.goal is None:
        return show(args, request(args, do="go"))
    if not all(map(math.isfinite, args.goal)):
        raise UsageError(f"--goal is {args.goal}: must be finite")
    return show(args, request(args, do="go", goal=args.goal))
