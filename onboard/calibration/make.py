"""From still poses to a dated calibration of this robot."""

from __future__ import annotations

import math

from onboard.calibration.file import FORMAT, Calibration, StrutCalibration
from onboard.calibration.solve import solve
from onboard.calibration.stills import Still
from onboard.robot import RobotSpec


def make(spec: RobotSpec, stills: list[Still], made: str) -> Calibration:
    """Solve and label; raises CalibrationError where the poses do not suffice."""
    found = solve(spec, stills)
    return Calibration(
        format=FORMAT,
        robot=spec.name,
        physics_hash=spec.physics_hash,
        sensor=spec.imu.sensor,
        mounting_wxyz=spec.imu.mounting_wxyz,
        made=made,
        poses=found.poses,
        residual_before_deg=round(math.degrees(found.residual_before_rad), 4),
        residual_after_deg=round(math.degrees(found.residual_after_rad), 4),
        struts={
            name: StrutCalibration(
                axis=found.axis[k].tolist(),
                accel_bias_m_s2=found.accel_bias_m_s2[k].tolist(),
                gyro_bias_rad_s=found.gyro_bias_rad_s[k].tolist(),
            )
            for k, name in enumerate(spec.struts)
        },
    )
