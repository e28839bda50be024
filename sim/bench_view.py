"""`prestress bench view`: frames a second that a browser's WebSocket gets from the live view of a running robot, and its cost."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from onboard.errors import LinkError, MissingExtraError, PrestressError, UsageError
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.rig import SimulatedRobot

TARGET_HZ, TARGET_CPU_PCT = 20.0, 20.0
QUICK_S = 10.0
UP_S = 60.0  # for the robot's boards to be heard
ANSWER_S = 20.0  # for the page to be there


def bench_view(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.add_argument("robot", nargs="?", default="manipulator", help="a robot's name or the path of its TOML file")
    parser.add_argument("--seconds", type=float, default=30.0, help="measuring time")
    parser.add_argument("--quick", action="store_true", help=f"measure for {QUICK_S:.0f} s")
    parser.add_argument("--seed", type=int, default=0, help="of the simulated robot")
    parser.add_argument("--no-realtime", action="store_true", help="do not ask for realtime priority")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Start a simulated robot and its view, look at it through a WebSocket. Exit status 1 when a target is missed."""
    seconds = QUICK_S if args.quick else args.seconds
    if not (math.isfinite(seconds) and 1.0 <= seconds <= 86_400.0):
        raise UsageError(f"--seconds {seconds}: must lie in 1 .. 86400")
    try:
        import websockets.sync.client  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("the live view", "view") from error
    path = robot_file(args.robot)
    spec = load_robot(path)
    with tempfile.TemporaryDirectory(prefix="prestress-view-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o711)  # boards run as another user
        options = ("--no-realtime",) if args.no_realtime else ()
        with (
            Console(stderr=True).status(f"watching {spec.name} for {seconds:.0f} s"),
            SimulatedRobot(path, spec, folder, seed=args.seed, runtime=folder, daemon_options=options) as robot,
        ):
            _until_up(robot)
            result = watch(robot, folder, seconds)
            robot.stop_daemon()
    result |= {"robot": spec.name, "seed": args.seed, "clock": "wall", "simulation": True}
    good = result["hz"] >= TARGET_HZ and result["cpu_pct"] < TARGET_CPU_PCT
    if args.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{key:<14}{value}" for key, value in result.items()))
        print(f"targets (>= {TARGET_HZ:g} Hz, < {TARGET_CPU_PCT:g} % of a core): {'met' if good else 'MISSED'}")
    return 0 if good else 1


def _until_up(robot: SimulatedRobot) -> None:
    end_s = time.monotonic() + UP_S
    while not (robot.status()["estimate"] and robot.status()["struts"]["synchronised"] == len(robot.spec.struts)):
        if time.monotonic() > end_s:
            raise PrestressError(f"the robot did not come up within {UP_S:.0f} s: {robot.last_line('daemon.log')}")
        time.sleep(0.1)


def watch(robot: SimulatedRobot, folder: Path, seconds: float) -> dict[str, Any]:
    """Figures of one client. hz: frames with a pose, each with another time than the one before it; cpu_pct: of the view's
    process alone, over its whole life; gap_max_ms: the longest wait for a frame."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    words = [sys.executable, "-m", "onboard.cli.main", "view", str(robot.path), "--port", "0", "--json"]
    words += ["--duration", str(seconds + 3.0), "--truth", str(robot.folder / "plant.sock")]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as view:
        assert view.stdout is not None
        address = view.stdout.readline().strip()
        if not address.startswith("http://"):
            view.wait(ANSWER_S)
            raise LinkError(f"the view did not start: exit status {view.returncode}")
        host = address.removeprefix("http://").partition("/")[0]
        times, stamps, size, truth = [], [], 0, 0
        try:
            with connect(f"ws://{host}/live", origin=f"http://{host}", open_timeout=ANSWER_S, compression=None) as page:
                end_s = time.monotonic() + seconds
                while (left_s := end_s - time.monotonic()) > 0:
                    try:
                        message = page.recv(timeout=left_s)
                    except TimeoutError:
                        break
                    fields = json.loads(message)
                    if fields.get("kind") == "frame":
                        times.append(time.monotonic())
                        stamps.append(fields["t_s"])
                        truth += "true_position_m" in fields
                        size += len(message)
        except (OSError, ConnectionClosed) as error:
            raise LinkError(f"the view's WebSocket ended: {error}") from error
        output, _ = view.communicate(timeout=seconds + 60.0)
    own = json.loads(output.strip().splitlines()[-1])
    if len(times) < 2:
        raise LinkError("the view sent no frames")
    fresh = int(np.count_nonzero(np.diff(stamps) > 0))
    return {
        "hz": round(fresh / (times[-1] - times[0]), 2),
        "cpu_pct": own["cpu_pct"],
        "gap_max_ms": round(1000.0 * float(np.diff(times).max()), 1),
        "frames": len(times),
        "with_truth": truth,
        "kb_per_s": round(size / 1000.0 / (times[-1] - times[0]), 1),
        "daemon_cpu_pct": robot.status()["process"]["cpu_pct"],
        "seconds": round(times[-1] - times[0], 2),
    }
