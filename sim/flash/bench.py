"""`prestress bench flash`: how long an empty board takes to become a strut, and a second time when nothing has changed."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from onboard.errors import UsageError
from onboard.flash.flasher import Flasher, Job, image_for
from onboard.flash.provision import provision, read_secrets
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.boards.jail import BoardConfig
from sim.flash.usb_board import RP2040, UsbBoard

TARGET_FIRST_S = 20.0
TARGET_SECOND_S = 3.0
SECRETS = '[wifi]\nssid = "bench"\npassword = "bench-password"\n[broker]\nhost = "127.0.0.1"\n'


def bench_flash(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.add_argument("--boards", type=int, default=5, help="how many, one after another")
    parser.add_argument("--quick", action="store_true", help="one board")
    parser.add_argument("--seed", type=int, default=0, help="without effect: nothing here is random")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Flash, flash again, print the slowest of each. Exit status 1 when a target is missed."""
    count = 1 if args.quick else int(args.boards)
    if not 1 <= count <= 100:
        raise UsageError(f"--boards is {count}: must lie in 1 .. 100")
    with Console(stderr=True).status(f"flashing {count} virtual boards"):
        result = measure(count)
    result |= {"seed": args.seed, "simulation": True}
    good = result["first_s"] <= TARGET_FIRST_S and result["second_s"] <= TARGET_SECOND_S
    if args.json:
        print(json.dumps(result))
    else:
        width = max(map(len, result))
        print("\n".join(f"{key:<{width}}  {value}" for key, value in result.items()))
        print(f"targets (first <= {TARGET_FIRST_S:.0f} s, second <= {TARGET_SECOND_S:.0f} s): {'met' if good else 'MISSED'}")
    return 0 if good else 1


def measure(count: int) -> dict[str, Any]:
    """Slowest and median times [s] of `count` boards over a pseudo terminal: with compiling each time, until the board speaks."""
    spec = load_robot(robot_file("manipulator"))
    first, second, sent = [], [], 0
    with tempfile.TemporaryDirectory(prefix="prestress-flash-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        file = root / "secrets.toml"
        file.touch(mode=0o600)
        file.write_text(SECRETS)
        secrets = read_secrets(file)
        for number in range(count):
            strut = spec.struts[number % len(spec.struts)]
            place = root / f"board{number}"
            place.mkdir()
            board = UsbBoard(place, RP2040, BoardConfig(strut, board="nano_rp2040"))
            board.plug_in()
            try:
                job = Job(strut, board.port, "nano_rp2040", "strut", provision(spec, strut, secrets))
                image_for.cache_clear()
                done = Flasher(job).flash()
                first.append(done.seconds)
                sent = done.sent
                image_for.cache_clear()
                second.append(Flasher(job).flash().seconds)
            finally:
                board.unplug()
    return {
        "first_s": round(max(first), 3),
        "second_s": round(max(second), 3),
        "first_median_s": round(statistics.median(first), 3),
        "second_median_s": round(statistics.median(second), 3),
        "sent_bytes": sent,
        "boards": count,
    }
