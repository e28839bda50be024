"""`prestress bench board`: what a board on USB adds to the way of a sample; without hardware, by a virtual one behind a pty."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from onboard.errors import PrestressError, UsageError
from onboard.flash.flasher import Flasher, Job
from onboard.flash.provision import provision, read_secrets
from onboard.link.broker import EmbeddedBroker
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.boards.jail import BoardConfig
from sim.flash.usb_board import ESP32, RP2040, UsbBoard

QUICK_S = 15.0
START_S = 240.0  # beyond the measured time: a start compiles, maybe on a busy computer


def bench_board(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.add_argument("--robot", default="module_rig", help="a robot's name or the path of its TOML file")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long samples are timed")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S:.0f} seconds")
    parser.add_argument("--seed", type=int, default=0, help="what sensor errors and clocks are drawn from")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Flash a virtual board over its prompt, put it into the loop, print what `prestress sim --board` tells."""
    seconds = QUICK_S if args.quick else float(args.seconds)
    if not 5.0 <= seconds <= 3600.0:
        raise UsageError(f"--seconds {seconds:g}: must lie in 5 .. 3600")
    spec = load_robot(robot_file(args.robot))
    with Console(stderr=True).status(f"a board on a pseudo terminal in the loop of {spec.name} for {seconds:.0f} s"):
        told = measure(spec, args.robot, seconds, args.seed)
    strut, row = next(iter(told["boards"].items()))
    result = {key: value for key, value in told.items() if key != "boards"} | row
    result |= {"robot": spec.name, "strut": strut, "seconds": seconds, "seed": args.seed, "simulation": True}
    if args.json:
        print(json.dumps(result))
    else:
        width = max(map(len, result))
        print("\n".join(f"{key:<{width}}  {value}" for key, value in result.items()))
    return 0


def measure(spec: RobotSpec, robot: str, seconds: float, seed: int) -> dict[str, Any]:
    """`in_loop` of a simulation of `robot` whose second strut is a flashed board on a pseudo terminal."""
    strut = spec.struts[min(1, len(spec.struts) - 1)]
    with tempfile.TemporaryDirectory(prefix="prestress-board-") as folder, EmbeddedBroker(spec.link.prefix, port=0) as broker:
        root = Path(folder)
        root.chmod(0o755)
        one = _flashed(root, spec, strut, broker.port)
        try:
            words = ["sim", robot, "--board", f"{strut}={one.port}", "--broker", f"mqtt://127.0.0.1:{broker.port}"]
            words += ["--duration", str(seconds), "--seed", str(seed), "--out", str(root / "out"), "--json"]
            command = [sys.executable, "-m", "onboard.cli.main", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + START_S)
        finally:
            one.unplug()
    if done.returncode:
        raise PrestressError(f"the simulation failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else '?'}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["in_loop"]
    return told


def _flashed(root: Path, spec: RobotSpec, strut: str, port: int) -> UsbBoard:
    file = root / "secrets.toml"
    file.touch(mode=0o600)
    file.write_text(f'[wifi]\nssid = "lab"\npassword = "simulated"\n[broker]\nhost = "127.0.0.1"\nport = {port}\n')
    (root / strut).mkdir()
    chip = RP2040 if spec.imu.board == "nano_rp2040" else ESP32
    one = UsbBoard(root / strut, chip, BoardConfig(strut, board=spec.imu.board, prefix=spec.link.prefix))
    one.plug_in()
    try:
        Flasher(Job(strut, one.port, spec.imu.board, "strut", provision(spec, strut, read_secrets(file)))).flash()
    except BaseException:
        one.unplug()
        raise
    return one
