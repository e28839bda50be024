"""A rolling robot's recording gives the same commands, states and transitions again, bit for bit, rescues included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onboard.clock import WallClock
from onboard.errors import RecordingError
from onboard.messages import Plan, frozen
from onboard.navigation.core import NavigationCore
from onboard.navigation.mission import mission_text, plan_mission, recovery_of, with_library
from onboard.navigation.replay import recorded_robot, replay
from onboard.planning.recovery import STUCK_S
from onboard.resources import robot_file
from onboard.safety.table import Event
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording, open_recording
from onboard.telemetry.recorder import McapRecorder
from sim.three_bar.robot_file import ThreeBar
from tests.unit.test_navigation_core import Robot


def recorded(path: Path, spec: ThreeBar, mission: bool = True, spoil: bool = False) -> Recording:
    """A drive of a robot that never moves: plans, noise, a stop and a rescue."""
    file = robot_file("three_bar")
    data = with_library(plan_mission(spec, file, "flat_obstacle", "value", "contact", 0).data)
    robot_toml = file.read_text()
    recorder = McapRecorder(path, WallClock(), {"robot": "three_bar", "robot_toml": robot_toml, "epoch_start": "100"}, print)
    robot = Robot()
    if mission:
        recorder.write(schemas.MISSION, 0.0, schemas.encode({"t_s": 0.0, "data": mission_text(data)}))
    core = NavigationCore(spec, data.settings, np.array(data.world), robot.boards, recorder, 100, recovery_of(data))
    robot.core = core
    robot.drive()
    rng = np.random.default_rng(3)
    core.decision(robot.t_s, Plan(robot.t_s, 0.01, frozen(rng.uniform(-1, 1, (200, 6))), robot.t_s + 2.0, robot.t_s, np.nan))
    robot.run(STUCK_S + 2.0)
    assert core.rescue.counts["stuck"] == 1
    core.request(robot.t_s, Event.STOP)
    robot.run(0.2)
    if spoil:
        recorder.write(schemas.COMMAND, robot.t_s, schemas.encode({"t_s": robot.t_s, "value": [0.1] * 6, "source": "plan"}))
    recorder.close()
    return open_recording(path)


def test_a_drive_with_a_rescue_replays_bit_for_bit(spec: ThreeBar, tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run.mcap", spec)
    result = replay(recording, recorded_robot(recording), lambda topic, fields: None)
    assert result.first_difference is None and result.identical
    assert result.compared[schemas.COMMAND] > 1500 and result.compared[schemas.TRANSITION] >= 3
    assert result.compared[schemas.STATE] > 300


def test_a_command_that_was_not_given_is_told(spec: ThreeBar, tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run.mcap", spec, spoil=True)
    result = replay(recording, recorded_robot(recording), lambda topic, fields: None)
    assert not result.identical and "/command" in str(result.first_difference)


def test_a_recording_without_its_mission_is_refused_in_words(spec: ThreeBar, tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run.mcap", spec, mission=False)
    with pytest.raises(RecordingError, match="mission"):
        replay(recording, recorded_robot(recording), lambda topic, fields: None)
