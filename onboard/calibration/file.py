"""A calibration's file: dated, bound to the robot and sensors it was made with, and refused for any other."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import CalibrationError
from onboard.messages import Floats
from onboard.robot import RobotSpec

FORMAT = 1
Triple = Annotated[list[float], Meta(min_length=3, max_length=3)]


class StrutCalibration(Section, frozen=True):
    """axis: of the strut, unit vector in sensor axes; biases in sensor axes."""

    axis: Triple
    accel_bias_m_s2: Triple
    gyro_bias_rad_s: Triple


class Calibration(Section, frozen=True):
    """What `prestress calibrate` found. residual_*_deg: RMS inclination that the tower's shape leaves unexplained."""

    format: int
    robot: str
    physics_hash: str
    sensor: str
    mounting_wxyz: list[float]
    made: str
    poses: int
    residual_before_deg: float
    residual_after_deg: float
    struts: dict[str, StrutCalibration]

    def axes(self, names: list[str]) -> Floats:
        """Strut axes (n, 3) in the order of `names`."""
        return np.array([self.struts[name].axis for name in names])

    def bias(self, names: list[str]) -> Floats:
        """(n, 6): accelerometer [m/s^2], gyroscope [rad/s]."""
        return np.array([[*self.struts[name].accel_bias_m_s2, *self.struts[name].gyro_bias_rad_s] for name in names])


def encode(calibration: Calibration) -> bytes:
    """The file's bytes."""
    return msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n"


def dated(wall_ns: int) -> str:
    """The date as the file holds it."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def decode(where: str, data: bytes, spec: RobotSpec) -> Calibration:
    """Read and check; raises CalibrationError naming what is wrong, above all when it was made for another robot."""
    try:
        found = msgspec.json.decode(data, type=Calibration)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{where}: is not a calibration: {error}") from error
    if found.format != FORMAT:
        raise CalibrationError(f"{where}: format {found.format}: this version reads {FORMAT}")
    for what, has, wants in (
        ("robot", found.robot, spec.name),
        ("physics_hash", found.physics_hash, spec.physics_hash),
        ("sensor", found.sensor, spec.imu.sensor),
        ("mounting_wxyz", found.mounting_wxyz, spec.imu.mounting_wxyz),
        ("struts", sorted(found.struts), sorted(spec.struts)),
    ):
        if has != wants:
            raise CalibrationError(f"{where}: made for {what} {has}, the robot has {wants}: prestress calibrate {spec.name}")
    axes, bias = found.axes(spec.struts), found.bias(spec.struts)
    if not (np.isfinite(axes).all() and np.isfinite(bias).all()):
        raise CalibrationError(f"{where}: holds a value that is not a number")
    if np.abs(np.linalg.norm(axes, axis=1) - 1.0).max() > 1e-6 or np.abs(bias).max() > math.radians(60.0):
        raise CalibrationError(f"{where}: an axis is no unit vector, or a bias is larger than any sensor's")
    return found


def with_calibration(spec: RobotSpec, path: Path) -> RobotSpec:
    """The robot with the calibration at `path`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be read: {error.strerror}") from error
    return msgspec.structs.replace(spec, calibration=decode(str(path), data, spec))
