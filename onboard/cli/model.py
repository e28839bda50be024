"""`prestress model install ROBOT FILE`: another model for a running robot: verified, warmed up, swapped between two plans."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec

from onboard.cli.catalog import Run
from onboard.clock import WallClock, wait_s
from onboard.errors import ModelError, UsageError
from onboard.runtime.control_socket import ask, socket_path

ASK_EVERY_S = 0.2


def add_install(parser: argparse.ArgumentParser) -> Run:
    """Arguments of `model install`."""
    parser.add_argument("robot", help="name of the robot whose daemon runs on this computer")
    parser.add_argument("file", type=Path, help="manifest of the model (.json), the model beside it")
    parser.add_argument("--socket", type=Path, help="control socket of the daemon (default: the robot's)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="how long to wait for the outcome, 1..3600")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return install


def install(args: argparse.Namespace) -> int:
    """Hand the model over and wait until it is in use. Raises ModelError with the planner's reason when it is refused."""
    if "/" in args.robot or not args.robot:
        raise UsageError("name the robot as its daemon does, such as 'three_bar'")
    if not 1.0 <= args.timeout <= 3600.0:
        raise UsageError(f"--timeout {args.timeout}: must be 1..3600 s")
    path = args.socket or socket_path(args.robot)
    before = _planner(path, args.robot)
    reply = ask(path, {"do": "model", "path": str(args.file.resolve())})
    after = asyncio.run(_outcome(path, args.robot, reply["installation"], args.timeout))
    result = {"model": after["model"], "installation": reply["installation"], "replaced": before["model"]}
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        print(f"model {reply['model']} is in use")
    return 0


async def _outcome(path: Path, robot: str, number: int, timeout_s: float) -> dict[str, Any]:
    clock = WallClock()
    end_s = clock.now_s() + timeout_s
    while True:
        planner = _planner(path, robot)
        if planner["model_number"] == number:
            return planner
        if planner["model_problem"]:
            raise ModelError(f"refused, {planner['model'] or 'no model'} stays in use: {planner['model_problem']}")
        if planner["model_number"] > number:
            raise ModelError("another model was installed meanwhile")
        if clock.now_s() > end_s:
            raise ModelError(f"the planner has said nothing within {timeout_s:g} s: see 'prestress status {robot}'")
        await wait_s(ASK_EVERY_S)


def _planner(path: Path, robot: str) -> dict[str, Any]:
    planner = ask(path, {"do": "status"})["status"].get("planner")
    if not isinstance(planner, dict) or "model_number" not in planner:
        raise UsageError(f"robot {robot!r} runs without a learned model of its motion")
    return planner
