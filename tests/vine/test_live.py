"""The whole vine in real time: real firmware on a virtual board, the full simulator, the daemon and its planner."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import PrestressError
from onboard.resources import robot_file
from onboard.vine_robot import load_vine
from sim.vine.goals import steering_task
from sim.vine.live import SETTLE_S
from sim.vine.rig import SimulatedVine

ROBOT = load_vine(robot_file("vine"))
TASK = steering_task(3, ROBOT.body.radius_m)
pytestmark = pytest.mark.long


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SimulatedVine]:
    with SimulatedVine(ROBOT, TASK, tmp_path / "run", seed=3, runtime=tmp_path / "runtime") as rig:
        yield rig


def wait(rig: SimulatedVine, done: Callable[[dict], bool], seconds: float) -> dict:
    end_s = time.monotonic() + seconds
    while True:
        status = rig.status()
        rig.plant.poll(0.02)
        if done(status):
            return status
        assert time.monotonic() < end_s, status["lines"]


def armed(rig: SimulatedVine) -> None:
    wait(rig, lambda s: s["tip_m"] is not None and s["planner"]["warm"] and any(b["ready"] for b in s["boards"].values()), 90)
    rig.ask("arm")
    wait(rig, lambda s: s["valves_open"], 10)


def length_m(rig: SimulatedVine) -> float:
    while time.monotonic() - rig.plant.latest.t_s > 0.2:  # what came while nobody read
        rig.plant.poll(0.1)
    return float(np.hypot(*np.diff(np.array(rig.plant.latest.line_m), axis=0).T).sum())


def test_it_grows_to_a_goal_behind_an_obstacle(rig: SimulatedVine) -> None:
    armed(rig)
    with pytest.raises(PrestressError, match="goal"):
        rig.ask("go", goal=[50.0, 0.0])
    rig.ask("go")
    wait(rig, lambda s: s["arrived"], 15)
    time.sleep(SETTLE_S)
    rig.plant.poll(0.1)
    report = rig.plant.latest
    assert np.linalg.norm(np.array(report.line_m[-1]) - TASK.goal) <= ROBOT.planner.tolerance_m
    assert report.penetration_m <= 1e-4 and report.unconverged == 0
    assert rig.stop_daemon() == 0


@pytest.mark.parametrize("fault", ["killed daemon", "stop contact", "stop request", "no pictures"])
def test_whatever_fails_growth_stops_and_the_shape_is_held(rig: SimulatedVine, fault: str) -> None:
    armed(rig)
    rig.ask("go")
    wait(rig, lambda s: length_m(rig) > 0.12, 10)
    if fault == "killed daemon":
        rig.daemon.kill()
    elif fault == "stop contact":
        rig.plant.ask("press_stop", pressed=True)
    elif fault == "stop request":
        rig.ask("stop")
    else:
        rig.plant.ask("hide", seconds=60.0)
    time.sleep(1.0)
    length = length_m(rig)
    heading = rig.plant.latest.values[2]
    time.sleep(1.0)
    assert length_m(rig) - length < 2e-3
    assert rig.plant.latest.values[2] == pytest.approx(heading, abs=0.01)


def test_the_planner_comes_back_when_it_is_killed(rig: SimulatedVine) -> None:
    armed(rig)
    rig.ask("go")
    os.kill(rig.status()["planner"]["pid"], signal.SIGKILL)
    status = wait(rig, lambda s: s["arrived"], 30)
    assert status["planner"]["restarts"] >= 1
