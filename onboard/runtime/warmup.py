"""Compiles and warms every kernel of the control path before anything can be armed, on parts that are thrown away."""

from __future__ import annotations

import numpy as np

from onboard.messages import Posture, SensorFlag, StrutObservations, frozen
from onboard.robot import RobotSpec

TICKS = 3  # the first compiles or loads, the second takes the warm-started path, the third is as in service


def warm_up(spec: RobotSpec) -> None:
    """Run estimator and controller a few times on the rest pose."""
    observations = rest_observations(spec)
    estimator = spec.estimator.build(spec)
    spec.orientation.build(spec).observe(0.0)
    controller = spec.controller.build(spec) if spec.actuators else None
    for _ in range(TICKS):
        estimate = estimator.update(observations)
        if controller is not None and spec.actuators is not None:
            channels = len(spec.structure.cylinders)
            pressure = frozen(np.full(channels, spec.actuators.rest_pressure_pa))
            goal = Posture("warm-up", estimate.cable_length_m, pressure, estimate.tip_m)
            controller.reset(pressure)
            controller.update(estimate, pressure, goal)


def rest_observations(spec: RobotSpec, t_s: float = 0.0) -> StrutObservations:
    """Observations of the upright robot, all struts healthy."""
    lower, upper = spec.structure.rest_joints_m()
    struts = (upper - lower).reshape(-1, 3)
    count = len(struts)
    return StrutObservations(
        t_s=t_s,
        direction=frozen(struts / np.linalg.norm(struts, axis=1, keepdims=True)),
        rate_rad_s=frozen(np.zeros((count, 3))),
        sigma_inclination_rad=frozen(np.full(count, 0.01)),
        sigma_azimuth_rad=frozen(np.full(count, 0.05)),
        age_s=frozen(np.zeros(count)),
        valid=frozen(np.ones(count), dtype=np.bool_),
        flags=frozen(np.full(count, int(SensorFlag.NONE)), dtype=np.int64),
    )
