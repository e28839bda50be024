"""A simulated three-bar robot for tests, brought to where it can drive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from onboard.resources import robot_file
from onboard.three_bar_robot import load_robot
from sim.three_bar.rig import SimulatedStruts
from tests.hil.support import wait_for


def struts(folder: Path, course: str = "flat_obstacle", seed: int = 3) -> SimulatedStruts:
    """Not started yet; its control socket lies in the folder."""
    path = robot_file("three_bar")
    return SimulatedStruts(path, load_robot(path), folder, course=course, seed=seed, runtime=folder)


def ready(one: SimulatedStruts) -> bool:
    """Boards up, robot seen, planner warm, nothing against arming."""
    status = one.status()
    boards = status["boards"]
    up = len(boards) == one.board_count and all(board["ready"] for board in boards.values())
    return up and status["pose"] is not None and status["planner"]["warm"] and not set(status["troubles"]) - {"board_latched"}


def drive(one: SimulatedStruts, **goal: Any) -> None:
    """Armed and on its way, whatever was before."""
    if one.status()["state"] not in ("disarmed",):
        one.ask("disarm" if one.status()["state"] != "fault" else "reset")
    wait_for(lambda: ready(one), 40.0, "boards, poses and planner")
    one.ask("arm")
    wait_for(lambda: one.status()["state"] == "active", 5.0, "arming")
    one.ask("go", **goal)
    plans = one.status()["planner"]["plans"]
    wait_for(lambda: one.status()["planner"]["plans"] > plans, 10.0, "the first plan")
    wait_for(lambda: one.status()["state"] == "active", 10.0, "no trouble")


def centre(one: SimulatedStruts) -> Any:
    """True centre of mass (3,) [u] by the plant's newest report."""
    plant = one.plant
    assert plant is not None
    end_s = time.monotonic() + 5.0
    while plant.latest is None or plant.latest.t_s < time.monotonic() - 0.1:  # older ones may have waited to be read
        plant.poll(0.1)
        assert time.monotonic() < end_s, "the plant says nothing"
    return np.array(one.plant.latest.caps_u).mean(axis=0)


def turning(one: SimulatedStruts) -> Any:
    """Whether each motor turns now (6,), by the plant's newest report."""
    centre(one)
    assert one.plant is not None
    return np.abs(np.array(one.plant.latest.speed_rad_s)) > 0.1
