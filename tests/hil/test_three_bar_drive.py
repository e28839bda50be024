"""The three-bar robot drives: plant in real time, boards with their firmware, daemon, planner process; all of it at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onboard.errors import PrestressError, SafetyError
from onboard.telemetry import schemas
from onboard.telemetry.reader import open_recording
from tests.hil.struts import centre, drive, ready, struts, turning
from tests.hil.support import wait_for


def test_it_arms_drives_by_plans_and_stands_still_when_disarmed(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with struts(tmp_path / "run") as robot:
        wait_for(lambda: ready(robot), 40.0, "boards, poses and planner")
        assert not turning(robot).any(), "nothing moves before it is armed"
        with pytest.raises(SafetyError, match="disarmed"):
            robot.ask("go")
        drive(robot)
        wait_for(lambda: robot.status()["planner"]["plans"] >= 4, 10.0, "plans follow one another")
        with pytest.raises(PrestressError, match=r"obstacle|grid"):
            robot.ask("go", goal=[-1.0, -2.0])
        assert turning(robot).any()
        robot.ask("disarm")
        wait_for(lambda: not turning(robot).any(), 2.0, "the motors are off")
        assert np.linalg.norm(centre(robot)[:2] - np.array(robot.status()["pose"]["centre_u"][:2])) < 0.2
        assert robot.stop_daemon() == 0
    counted: dict[str, int] = {}
    for topic, _ in open_recording(robot.recording):
        counted[topic] = counted.get(topic, 0) + 1
    assert counted[schemas.DECISION] >= 4
    assert counted[schemas.POSE] > 100 and counted[schemas.COMMAND] > 100 and counted[schemas.STATE] > 20
