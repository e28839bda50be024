"""`prestress bench update`: how long all struts of a robot take to get new firmware over the air, one by one."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from onboard.errors import LinkError, UsageError
from onboard.flash.flasher import image_for
from onboard.flash.image import firmware_folder, firmware_version
from onboard.link.broker import EmbeddedBroker
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from onboard.update.board import Outcome
from onboard.update.fleet import FleetUpdate
from onboard.update.keys import Signer, make_keys, read_public
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet, VirtualBoard
from sim.flash.installed import PROCESSOR, install

TARGET_S = 300.0
READY_S = 60.0
TRIAL_S = 60


def bench_update(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.description = "virtual boards updated over the air, one by one, through the embedded broker"
    parser.add_argument("--boards", type=int, default=20, help="how many struts of the manipulator")
    parser.add_argument("--whole", action="store_true", help="every file changed, so that nothing is copied on the board")
    parser.add_argument("--quick", action="store_true", help="two boards")
    parser.add_argument("--seed", type=int, default=0, help="without effect: nothing here is random")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Update all; print times. Exit status 1 when the target, scaled to the number of boards, is missed."""
    spec = load_robot(robot_file("manipulator"))
    count = 2 if args.quick else int(args.boards)
    if not 1 <= count <= len(spec.struts):
        raise UsageError(f"--boards is {count}: must lie in 1 .. {len(spec.struts)}")
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(f"updating {count} virtual boards", total=count)
        result = measure(spec, count, args.whole, lambda done: progress.update(task, completed=done))
    result |= {"seed": args.seed, "simulation": True}
    good = result["total_s"] <= TARGET_S * count / 20
    if args.json:
        print(json.dumps(result))
    else:
        width = max(map(len, result))
        print("\n".join(f"{key:<{width}}  {value}" for key, value in result.items()))
        print(f"target ({TARGET_S:.0f} s for 20 boards): {'met' if good else 'MISSED'}")
    return 0 if good else 1


def measure(spec: RobotSpec, count: int, whole: bool, on_done: Callable[[int], None]) -> dict[str, Any]:
    """Times [s] and bytes of `count` boards, each until it has proved the new firmware; LinkError when one fails."""
    with tempfile.TemporaryDirectory(prefix="prestress-update-") as folder, _apart(Path(folder)):
        root = Path(folder)
        root.chmod(0o755)  # the boards run as another user
        public = read_public(make_keys(root / "update.key"))
        source = newer_firmware(root, whole)
        names = spec.struts[:count]
        with EmbeddedBroker(spec.link.prefix, port=0) as broker:
            configs = [_config(spec, name, broker.port) for name in names]
            with BoardFleet(configs, root / "boards") as fleet:
                for name in names:
                    install(fleet[name], image_for(firmware_folder(), PROCESSOR), public)
                fleet.start()
                _wait_online([fleet[name] for name in names])
                outcomes = _update(spec, broker, root, source, list(names), on_done)
    seconds = [outcome.seconds for outcome in outcomes]
    return {
        "boards": count,
        "total_s": round(sum(seconds), 2),
        "board_median_s": round(statistics.median(seconds), 2),
        "board_max_s": round(max(seconds), 2),
        "sent_bytes": sum(outcome.sent for outcome in outcomes),
        "every_file_changed": whole,
    }


def newer_firmware(folder: Path, whole: bool) -> Path:
    """This firmware with a higher version; every file is another one when `whole`."""
    target = folder / "firmware"
    shutil.copytree(firmware_folder(), target, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    identity, version = target / "common" / "identity.py", firmware_version(target)
    newer = f"{int(version.split('.')[0]) + 1}.0.0"
    identity.write_text(identity.read_text().replace(f'VERSION = "{version}"', f'VERSION = "{newer}"'))
    for path in sorted(target.rglob("*.py")) if whole else [target / "strut" / "app.py"]:
        path.write_text(path.read_text() + '\nBENCH = "newer"\n')
    return target


def _update(
    spec: RobotSpec, broker: EmbeddedBroker, root: Path, source: Path, names: list[str], on_done: Callable[[int], None]
) -> list[Outcome]:
    def tell(board: str, text: str, done: int, total: int) -> None:
        on_done(names.index(board))

    update = FleetUpdate(spec, broker.endpoint, Signer(root / "update.key"), source, TRIAL_S, tell)
    outcomes, failed = asyncio.run(update.run(names))
    on_done(len(outcomes))
    if failed:
        board, why = next(iter(failed.items()))
        raise LinkError(f"{board}: {why}")
    return outcomes


def _config(spec: RobotSpec, name: str, port: int) -> BoardConfig:
    return BoardConfig(name, board=spec.imu.board, prefix=spec.link.prefix, broker_port=port, keepalive_s=spec.link.keepalive_s)


def _wait_online(boards: list[VirtualBoard]) -> None:
    end_s = time.monotonic() + READY_S
    for board in boards:
        while "link: online" not in board.log_path.read_text(errors="replace"):
            if time.monotonic() > end_s:
                raise LinkError(f"{board.config.id} did not reach the broker within {READY_S:.0f} s")
            time.sleep(0.05)


@contextmanager
def _apart(folder: Path) -> Iterator[None]:
    """Ask no daemon of this computer: the boards here belong to no robot that runs."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
