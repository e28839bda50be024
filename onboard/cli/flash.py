"""`prestress flash ROBOT [BOARD[=PORT] ...]`: boards on USB become parts of the robot, several at once."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from onboard.cli.catalog import Run
from onboard.errors import LinkError, PrestressError, UsageError
from onboard.flash.flasher import PLATFORMS, Flasher, Job
from onboard.flash.found import FoundBoard, find_boards
from onboard.flash.image import check_firmware, firmware_folder
from onboard.flash.interpreter import boot_drives, check_image, write_interpreter
from onboard.flash.provision import provision, read_secrets
from onboard.flash.robot_boards import BoardRobot, app_of, load_boards
from onboard.resources import robot_file

APPEAR_S = 15.0  # a board with a new interpreter first makes its file system


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", nargs="?", help="a robot's name or the path of its TOML file")
    parser.add_argument("boards", nargs="*", metavar="BOARD[=PORT]", help="ids in the robot's file; the port may be left out")
    parser.add_argument("--secrets", type=Path, metavar="FILE", help="TOML with WiFi, broker and TLS, mode 0600")
    parser.add_argument("--interpreter", type=Path, metavar="FILE", help="first write this MicroPython image (.bin or .uf2)")
    parser.add_argument("--firmware", type=Path, metavar="FOLDER", help="firmware source (else the one of this product)")
    parser.add_argument("--wait-link", type=float, default=0.0, metavar="S", help="then wait for struts to reach the broker")
    parser.add_argument("--list", action="store_true", help="only list the boards on USB")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Flash all boards that are named; exit status 0 when all of them run the firmware, 4 when one does not."""
    if args.list:
        return _list(args.json)
    if args.robot is None or not args.boards:
        raise UsageError("flash needs a robot and the id of at least one board: prestress flash manipulator strut00")
    if args.secrets is None:
        raise UsageError("flash needs --secrets FILE: WiFi and broker of the boards (docs/flash.md has an example)")
    spec = load_boards(robot_file(args.robot))
    secrets = read_secrets(args.secrets)
    check_firmware(args.firmware or firmware_folder())
    if not 0.0 <= args.wait_link <= 600.0:
        raise UsageError(f"--wait-link {args.wait_link}: must lie in 0 .. 600 s")
    wait_s = APPEAR_S if args.interpreter else 0.0
    jobs = []
    for board_id, port in choose(args.boards, find_boards(), spec):
        board = spec.imu.board if board_id in spec.struts else "nano_rp2040"
        settings = provision(spec, board_id, secrets)
        jobs.append(Job(board_id, port, board, app_of(spec, board_id), settings, wait_s, args.wait_link))
    without = {} if args.interpreter is None else _write_interpreter(jobs, args.interpreter)
    ready = [job for job in jobs if job.board_id not in without]
    flashed = dict(zip([job.board_id for job in ready], flash_all(ready, args.firmware, Console(stderr=True)), strict=True))
    results = [without.get(job.board_id) or flashed[job.board_id] for job in jobs]
    done = [msgspec.to_builtins(result) for result in results if not isinstance(result, Exception)]
    failed = {job.board_id: str(r) for job, r in zip(jobs, results, strict=True) if isinstance(r, Exception)}
    if args.json:
        print(msgspec.json.encode({"robot": spec.name, "boards": done, "failed": failed}).decode())
    else:
        for row in done:
            what = f"{row['files']} files, {row['sent']} bytes sent" if row["changed"] else "nothing to change"
            print(f"{row['board_id']}: runs {row['version']} ({row['port']}, {row['seconds']:.1f} s, {what})")
    if failed:
        raise LinkError("; ".join(f"{board_id}: {problem}" for board_id, problem in failed.items()))
    return 0


def choose(wanted: Sequence[str], found: Sequence[FoundBoard], spec: BoardRobot) -> list[tuple[str, str]]:
    """(board id, port) of every board that is to be flashed; UsageError where it is not plain which is meant."""
    chosen: list[tuple[str, str]] = []
    for word in wanted:
        board_id, _, port = word.partition("=")
        known = [*spec.struts, *(board.id for board in (spec.actuators.boards if spec.actuators else ()))]
        if board_id not in known:
            raise UsageError(f"{spec.file} has no board {board_id!a}")
        if "=" in word and not port:
            raise UsageError(f"{word!a}: needs a port after the =")
        port = port or next((b.port for b in (spec.actuators.boards if spec.actuators else ()) if b.id == board_id), "")
        if not port:
            platform = PLATFORMS[spec.imu.board if board_id in spec.struts else "nano_rp2040"][0]
            port = _only(board_id, platform, found, len(wanted))
        chosen.append((board_id, port))
    for what, values in (("board", [b for b, _ in chosen]), ("port", [p for _, p in chosen])):
        if len(set(values)) < len(values):
            raise UsageError(f"a {what} is named twice: {', '.join(values)}")
    return chosen


def _only(board_id: str, platform: str, found: Sequence[FoundBoard], wanted: int) -> str:
    """The port of the one board that can be meant."""
    if not found:
        raise UsageError("no board is on USB; plug one in, or name its port: BOARD=/dev/ttyACM0")
    if len(found) > 1 or wanted > 1:
        listed = ", ".join(map(str, found))
        raise UsageError(f"which of the boards is {board_id}? Name its port, {board_id}={found[0].port}; found: {listed}")
    if found[0].chip != platform:
        raise UsageError(f"the board on {found[0]} is no {platform} board, as the robot's file has it for {board_id}")
    return found[0].port


def flash_all(jobs: Sequence[Job], firmware: Path | None, console: Console) -> list[Any]:
    """Flash side by side; for every job what it became, or the PrestressError that stopped it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"), TimeElapsedColumn())
    lock = threading.Lock()
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(max_workers=max(1, len(jobs))) as pool:
        tasks = [progress.add_task(job.board_id, total=None, step="waiting") for job in jobs]

        def one(job: Job, task: TaskID) -> Any:
            def step(text: str) -> None:
                with lock:
                    progress.update(task, step=text)

            try:
                done = Flasher(job, firmware, on_step=step, on_bytes=lambda n: progress.advance(task, n)).flash()
            except PrestressError as error:
                step("failed")
                return error
            progress.update(task, total=1, completed=1, step=f"runs {done.version}")
            return done

        return list(pool.map(one, jobs, tasks))


def _write_interpreter(jobs: Sequence[Job], image: Path) -> dict[str, PrestressError]:
    """One kind of board at a time; RP2040 boards one by one, since boot drives all look alike. Boards that failed, and why."""
    for job in jobs:
        check_image(image, PLATFORMS[job.board][0])
    absent = [job.board_id for job in jobs if PLATFORMS[job.board][0] == "rp2" and not Path(job.port).exists()]
    if len(absent) > 1 and boot_drives():
        raise UsageError(f"which of the boards {', '.join(absent)} has the boot drive? Flash them one at a time")
    failed: dict[str, PrestressError] = {}
    for job in jobs:
        try:
            write_interpreter(job.port, PLATFORMS[job.board][0], image)
        except PrestressError as error:
            failed[job.board_id] = error
    return failed


def _list(as_json: bool) -> int:
    found = find_boards()
    if as_json:
        print(msgspec.json.encode({"boards": [msgspec.to_builtins(board) for board in found]}).decode())
    else:
        print("\n".join(map(str, found)) or "no board is on USB")
    return 0
