"""`prestress calibrate` on a recording of held poses writes a file that the orientation filter then uses."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import numpy as np
import pytest

from onboard.calibration.file import with_calibration
from onboard.calibration.make import make
from onboard.cli.main import main
from onboard.clock import WallClock
from onboard.config import read_text
from onboard.estimation.orientation import VqfConfig
from onboard.resources import robot_file
from onboard.telemetry import schemas
from onboard.telemetry.recorder import McapRecorder
from tests.unit.estimation_support import robot
from tests.unit.orientation_support import sample
from tests.unit.test_calibration import MADE, held


def empty_recording(path, robot_name: str, command: bool = False):
    spec = robot(name=robot_name)
    toml = read_text(robot_file(robot_name))
    recorder = McapRecorder(path, WallClock(), {"robot": spec.name, "robot_toml": toml, "physics_hash": spec.physics_hash})
    recorder.write(schemas.TICK, 1.0, schemas.encode({"t_s": 1.0, "loop": "estimator", "skipped": 0}))
    if command:
        recorder.write(schemas.COMMAND, 1.0, schemas.encode({"t_s": 1.0, "value": [1.0], "source": "x"}))
    recorder.close()
    return path


@pytest.mark.parametrize(
    ("name", "command", "reason"),
    [("manipulator", False, "recording of manipulator"), ("module_rig", True, "was armed"), ("module_rig", False, "at least 4")],
)
def test_a_recording_that_does_not_suffice_is_refused_and_nothing_is_written(tmp_path, capsys, name, command, reason):
    path = empty_recording(tmp_path / "x.mcap", name, command)
    out = tmp_path / "out.json"
    assert main(["calibrate", "module_rig", "--recording", str(path), "--out", str(out)]) == 2
    assert reason in capsys.readouterr().err
    assert not out.exists()


def test_the_filter_takes_off_what_the_calibration_found(tmp_path):
    spec = robot(name="module_rig")
    stills, *_ = held(spec, 0)
    found = make(spec, stills, MADE)
    path = tmp_path / "rig.json"
    path.write_bytes(json.dumps(msgspec.to_builtins(found)).encode())
    plain, better = (VqfConfig().build(one) for one in (spec, with_calibration(spec, path)))
    error = []
    for source in (plain, better):
        for k in range(200):
            one = sample(0, k, 1.0 + 0.012 * k, np.eye(3))
            still = stills[0]
            changes = {"acceleration_m_s2": still.force_m_s2[:1], "rate_rad_s": still.rate_rad_s[:1]}
            source.add(dataclasses.replace(one, **changes))
        z = source.observe(1.0 + 0.012 * 199).direction[0, 2]
        error.append(abs(np.degrees(np.arccos(z) - np.arccos(spec.structure.module_height_m / spec.structure.strut_length_m))))
    assert error[1] < error[0]
