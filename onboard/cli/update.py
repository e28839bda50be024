"""`prestress update ROBOT`: new firmware for the robot's struts over the air, one by one; `prestress update keygen`."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from onboard.cli.catalog import Run
from onboard.cli.run import BROKER_VARIABLE
from onboard.errors import LinkError, UsageError
from onboard.flash.image import check_firmware, firmware_folder
from onboard.flash.robot_boards import BoardRobot, load_boards
from onboard.link.endpoint import parse_endpoint
from onboard.resources import robot_file
from onboard.update.fleet import FleetUpdate
from onboard.update.keys import Signer, make_keys
from onboard.update.manifest import TRIAL_S

KEY = Path("update.key")


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file")
    parser.add_argument("--board", nargs="+", default=[], metavar="ID", help="only these struts, in this order (else all)")
    parser.add_argument("--key", type=Path, default=KEY, metavar="FILE", help="private key that signs; prestress update keygen")
    parser.add_argument("--broker", metavar="URL", help=f"mqtt://[user:password@]host[:port] (else ${BROKER_VARIABLE})")
    parser.add_argument("--firmware", type=Path, metavar="FOLDER", help="firmware source (else the one of this product)")
    parser.add_argument("--trial", type=int, default=TRIAL_S, metavar="S", help="time of the new firmware to reach the broker")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def add_keygen(parser: argparse.ArgumentParser) -> Run:
    """Arguments of `update keygen`."""
    parser.description = "make the key pair that signs updates; boards get its public half when they are flashed"
    parser.add_argument("--key", type=Path, default=KEY, metavar="FILE", help="where the private half goes; .pub beside it")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return keygen


def keygen(args: argparse.Namespace) -> int:
    """Make the pair; never over an existing one."""
    public = make_keys(args.key)
    if args.json:
        print(msgspec.json.encode({"private": str(args.key), "public": str(public)}).decode())
    else:
        print(f"{args.key} signs updates and stays with you; {public} goes into the secrets file: [update] key")
    return 0


def run(args: argparse.Namespace) -> int:
    """Update; exit status 0 when all boards run the firmware, 4 when one failed (none after it was touched), 5 while armed."""
    spec = load_boards(robot_file(args.robot))
    url = args.broker or os.environ.get(BROKER_VARIABLE)
    if not url:
        raise UsageError(f"update needs the broker: --broker mqtt://host:1883, or ${BROKER_VARIABLE}")
    if not 10 <= args.trial <= 600:
        raise UsageError(f"--trial {args.trial}: must lie in 10 .. 600 s")
    firmware = args.firmware or firmware_folder()
    check_firmware(firmware)
    boards = choose(spec, args.board)
    signer = Signer(args.key)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(board: str, text: str, done: int, total: int) -> None:
            if board not in tasks:
                tasks[board] = progress.add_task(board, total=None, step=text)
            progress.update(tasks[board], step=text, completed=done, total=total or None)

        fleet = FleetUpdate(spec, parse_endpoint(url), signer, firmware, args.trial, tell)
        done, failed = asyncio.run(fleet.run(boards))
    rows = [msgspec.to_builtins(outcome) for outcome in done]
    left = [board for board in boards[len(done) :] if board not in failed]
    if args.json:
        table = {"robot": spec.name, "boards": rows, "failed": failed, "not_tried": left}
        print(msgspec.json.encode(table).decode())
    else:
        _show(rows, failed, left)
    if failed:
        board, why = next(iter(failed.items()))
        raise LinkError(f"{board}: {why}" + (f"; not tried: {', '.join(left)}" if left else ""))
    return 0


def choose(spec: BoardRobot, wanted: list[str]) -> list[str]:
    """The struts that are meant; UsageError for others."""
    valves = [board.id for board in spec.actuators.boards] if spec.actuators else []
    for board in wanted:
        if board in valves:
            raise UsageError(f"{board} has no network: prestress flash {spec.name} {board} updates it over USB")
        if board not in spec.struts:
            raise UsageError(f"{spec.file} has no strut {board!a}")
    if len(set(wanted)) < len(wanted):
        raise UsageError(f"a strut is named twice: {', '.join(wanted)}")
    return wanted or list(spec.struts)


def _show(rows: list[dict[str, Any]], failed: dict[str, str], left: list[str]) -> None:
    table = Table(box=None)
    for title in ("strut", "result", "before", "now", "bytes sent", "s"):
        table.add_column(title)
    for row in rows:
        table.add_row(
            row["board_id"], row["state"], escape(row["before"]), row["version"], str(row["sent"]), f"{row['seconds']:.1f}"
        )
    for board in failed:
        table.add_row(board, "failed", "", "", "", "")
    for board in left:
        table.add_row(board, "not tried", "", "", "", "")
    Console().print(table)
