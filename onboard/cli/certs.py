"""`prestress certs ROBOT --out FOLDER --host NAME`: an authority, the broker's certificate and one for every strut."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
from rich.console import Console

from onboard.cli.catalog import Run
from onboard.errors import ConfigError, UsageError
from onboard.flash.certs import check, make
from onboard.flash.robot_boards import load_boards
from onboard.resources import robot_file

MAX_DAYS = 36_500


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file")
    parser.add_argument("--out", type=Path, default=Path("certs"), metavar="FOLDER", help="where they lie, or will")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="name or address of the broker; repeatable")
    parser.add_argument("--days", type=int, default=3650, help="how long new ones hold: boards have no good clock to renew by")
    parser.add_argument("--check", action="store_true", help="only look: dates, names, keys and file modes")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Make what is missing, then check all; ConfigError (exit status 2) when a certificate is not good."""
    spec = load_boards(robot_file(args.robot))
    if not 1 <= args.days <= MAX_DAYS:
        raise UsageError(f"--days {args.days}: must lie in 1 .. {MAX_DAYS}")
    with Console(stderr=True).status("certificates"):
        made = [] if args.check else make(args.out, spec.struts, args.host, args.days)
        checked = check(args.out, spec.struts, args.host)
    bad = [entry for entry in checked if entry.problem]
    if args.json:
        table = {"folder": str(args.out), "made": made, "checked": [msgspec.to_builtins(entry) for entry in checked]}
        print(msgspec.json.encode(table).decode())
    else:
        print(f"{args.out}: {len(made)} made, {len(checked)} checked, {len(bad)} with a problem")
        for entry in bad:
            print(f"{entry.name}: {entry.problem}")
    if bad:
        raise ConfigError(bad[0].file, "", f"{bad[0].problem}{'' if len(bad) == 1 else f' (and {len(bad) - 1} more)'}")
    return 0
