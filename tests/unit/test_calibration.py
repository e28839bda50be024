"""A tower held still in a few poses tells what its sensors get wrong; what does not suffice is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from onboard.calibration.file import decode, encode, with_calibration
from onboard.calibration.guide import guide
from onboard.calibration.make import make
from onboard.calibration.stills import Still, StillFinder
from onboard.clock import WallClock
from onboard.errors import CalibrationError
from onboard.estimation.geometry import DiscGeometry
from onboard.messages import ImuBatch, SensorFlag, frozen
from sim.estimation.shapes import Shapes
from tests.unit.estimation_support import robot

G = 9.80665
MADE = "2026-01-01T00:00:00Z"


def held(spec, seed: int, poses: int = 8):
    """Still poses of a module_rig of exact geometry whose sensors are tilted and biased; also the true axes and biases."""
    rng = np.random.default_rng(seed)
    geometry = DiscGeometry.of(spec.structure)
    bends = np.radians(np.concatenate([rng.normal(0.0, 8.0, (poses, 1, 2)), rng.normal(0.0, 2.0, (poses, 1, 1))], axis=2))
    bends[0] = 0.0
    direction = Shapes(geometry, bends, geometry.lower_m, geometry.upper_m).direction
    n = direction.shape[1]
    axis = np.array([0.0, 0.0, 1.0]) + np.concatenate([rng.normal(0.0, 0.005, (n, 2)), np.zeros((n, 1))], axis=1)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    bias, gyro = rng.normal(0.0, 0.05, (n, 3)), rng.normal(0.0, 0.01, (n, 3))
    stills = []
    for p in range(poses):
        force = np.empty((n, 3))
        for j in range(n):
            cosine = direction[p, j, 2]
            first = np.cross(axis[j], [0.0, 1.0, 0.0])  # the strut does not roll: gravity lies to one side of it
            first /= np.linalg.norm(first)
            force[j] = G * (cosine * axis[j] + np.sqrt(1.0 - cosine**2) * first) + bias[j]
        stills.append(Still(5.0 * p, 5.0 * p + 3.0, force, gyro.copy()))
    return stills, axis, bias, gyro, direction


def inclination_errors_deg(stills, direction, axis, bias):
    out = []
    for still, true in zip(stills, direction, strict=True):
        force = still.force_m_s2 - bias
        cosine = (force * axis).sum(axis=1) / np.linalg.norm(force, axis=1)
        out.append(np.degrees(np.arccos(cosine) - np.arccos(true[:, 2])))
    return np.array(out)


def rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_calibrating_leaves_less_inclination_error_on_poses_it_has_not_seen(seed):
    spec = robot(name="module_rig")
    stills, _, _, gyro, direction = held(spec, seed, 14)
    found = make(spec, stills[:8], MADE)
    nominal = np.tile([0.0, 0.0, 1.0], (4, 1))
    before = rms(inclination_errors_deg(stills[8:], direction[8:], nominal, 0.0))
    after = rms(inclination_errors_deg(stills[8:], direction[8:], found.axes(spec.struts), found.bias(spec.struts)[:, :3]))
    assert after < before
    assert found.residual_after_deg < 0.5 * found.residual_before_deg
    assert np.allclose(found.bias(spec.struts)[:, 3:], gyro)


def test_too_few_poses_and_a_start_that_is_not_upright_are_refused():
    spec = robot(name="module_rig")
    stills, *_ = held(spec, 0)
    with pytest.raises(CalibrationError, match="at least 4"):
        make(spec, stills[:3], MADE)
    leaning = list(stills)
    leaning[0] = Still(0.0, 3.0, np.roll(stills[0].force_m_s2, 1, axis=1), stills[0].rate_rad_s)
    with pytest.raises(CalibrationError, match="stand upright"):
        make(spec, leaning, MADE)


def test_a_file_comes_back_as_written_and_serves_only_its_own_robot(tmp_path):
    spec = robot(name="module_rig")
    found = make(spec, held(spec, 0)[0], MADE)
    path = tmp_path / "rig.json"
    path.write_bytes(encode(found))
    assert with_calibration(spec, path).calibration == found
    with pytest.raises(CalibrationError, match="made for robot module_rig"):
        with_calibration(robot(name="manipulator"), path)
    for old, new in ((b'"format": 1', b'"format": 2'), (b"2026", b'20"26'), (b'"axis"', b'"axle"')):
        with pytest.raises(CalibrationError):
            decode("x", encode(found).replace(old, new, 1), spec)
    long = msgspec.structs.replace(
        found, struts={k: msgspec.structs.replace(v, axis=[9.0, 0.0, 0.0]) for k, v in found.struts.items()}
    )
    with pytest.raises(CalibrationError, match="unit vector"):
        decode("x", encode(long), spec)


def batch(strut: int, t_s, force, rate=0.0) -> ImuBatch:
    k = len(t_s)
    return ImuBatch(
        strut, 1, 0, frozen(t_s), frozen(np.tile(force, (k, 1))), frozen(np.full((k, 3), rate)), 25.0, SensorFlag.NONE, t_s[-1]
    )


def test_only_poses_in_which_every_strut_is_still_count():
    times = np.arange(0.0, 4.0, 0.02)
    finder = StillFinder(2)
    for strut in (0, 1):
        finder.add(batch(strut, times, [0.0, 0.0, G]))
    for k, t_s in enumerate(times + 4.0):  # strut 1 sways
        finder.add(batch(0, [t_s], [0.0, 3.0, 9.3]))
        finder.add(batch(1, [t_s], [3.0 * np.sin(0.3 * k), 0.0, 9.3]))
    assert [(s.start_s, s.end_s) for s in finder.stills()] == [(0.0, 4.0)]
    with pytest.raises(CalibrationError, match="not a number"):
        finder.add(batch(0, [9.0], [0.0, np.nan, G]))


def test_guiding_refuses_an_armed_robot_before_anything_is_recorded(tmp_path):
    asked = []

    def ask(**fields):
        asked.append(fields["do"])
        return {"state": "active"}

    with pytest.raises(CalibrationError, match="disarmed"):
        guide(robot(name="module_rig"), tmp_path / "x.mcap", 4, 5.0, ask, WallClock(), say=lambda line: None)
    assert asked == ["frame"]
