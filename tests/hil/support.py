"""Simulated robots for tests: whole ones, in a folder of their own, with a control socket of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.rig import SimulatedRobot


def robot(name: str, folder: Path, seed: int = 1, **options: Any) -> SimulatedRobot:
    """A robot that is not started yet. The control socket's path must be short, so it lies beside the folder's parent."""
    path = robot_file(name)
    return SimulatedRobot(path, load_robot(path), folder, seed=seed, runtime=folder, **options)


def wait_for(condition: Callable[[], bool], limit_s: float, what: str) -> float:
    """Seconds until `condition` holds; fails the test after `limit_s`."""
    start = time.monotonic()
    while not condition():
        elapsed = time.monotonic() - start
        assert elapsed < limit_s, f"{what}: not within {limit_s} s"
        time.sleep(0.03)
    return time.monotonic() - start


def ready(one: SimulatedRobot) -> bool:
    """All boards up, clocks known, an estimate, no trouble but a latch that arming ends."""
    status = one.status()
    struts, boards = len(one.spec.struts), len(one.spec.actuators.boards) if one.spec.actuators else 0
    live = status["struts"]["synchronised"] == struts and len(status["boards"]) == boards
    return bool(live and status["estimate"] and not set(status["troubles"]) - {"board_latched"})


def log(one: SimulatedRobot) -> str:
    """What the daemon has said so far."""
    return (one.folder / "daemon.log").read_text()
