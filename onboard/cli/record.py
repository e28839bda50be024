"""`prestress record ROBOT`: asks the running daemon to record, until interrupted or for a while."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from onboard.cli.catalog import Run
from onboard.cli.console import request, robot_argument, show


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    robot_argument(parser)
    parser.add_argument("--out", type=Path, required=True, help="the recording to write (.mcap); must not exist")
    parser.add_argument("--seconds", type=float, help="stop after this long (default: Ctrl-C)")
    return run


def run(args: argparse.Namespace) -> int:
    """Start, wait, stop. The daemon starts with a fresh estimator, so that the recording can be replayed."""
    request(args, do="record", path=str(args.out.resolve()))
    print(f"recording {args.robot} to {args.out}" + ("" if args.seconds else "; Ctrl-C ends it"), flush=True)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait(args.seconds)
    return show(args, {**request(args, do="record_stop"), "file": str(args.out)})
