"""Estimates and goals for the tests of control: arcs of constant curvature, exactly known."""

import numpy as np

from onboard.estimation.cables import cable_lengths
from onboard.estimation.geometry import DiscGeometry
from onboard.messages import EstimateFlag, PoseEstimate, Posture, frozen
from onboard.resources import robot_file
from onboard.robot import load_robot

SPEC = load_robot(robot_file("manipulator"))
VALVES, TOWER = SPEC.actuators, SPEC.structure
GEOMETRY = DiscGeometry.of(TOWER)
TICK_S = 1.0 / SPEC.rates.control_hz
MODULES, CABLES = TOWER.modules, TOWER.cable_count


def rotation_about(axis, angle):
    axis = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def bent(tilt_deg=0.0, azimuth=0.3):
    """Discs of an arc of constant curvature: positions (D, 3) and rotations (D, 3, 3)."""
    axis = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    rotation = np.array([rotation_about(axis, np.radians(tilt_deg) * d / MODULES) for d in range(MODULES + 1)])
    position = np.zeros((MODULES + 1, 3))
    for d in range(MODULES):
        half = rotation_about(axis, np.radians(tilt_deg) * (d + 0.5) / MODULES)
        position[d + 1] = position[d] + half @ np.array([0.0, 0.0, TOWER.module_height_m])
    return position, rotation


def estimate(t_s=0.0, pose=None, sigma_m=1e-4, **change):
    position, rotation = bent() if pose is None else pose
    length, jacobian = cable_lengths(position, rotation, GEOMETRY.lower_m, GEOMETRY.upper_m, GEOMETRY.cables)
    fields = {
        "t_s": t_s,
        "position_m": frozen(position),
        "rotation": frozen(rotation),
        "cable_length_m": frozen(length),
        "cable_jacobian": frozen(jacobian),
        "covariance": frozen(np.eye(6 * MODULES) * sigma_m**2),
        "strut_flags": np.zeros(TOWER.struts, dtype=np.int64),
        "age_s": 0.02,
        "flags": EstimateFlag.NONE,
    }
    return PoseEstimate(**{**fields, **change})


def goal(pose, pressure=3.5e5, name="goal"):
    there = estimate(pose=pose)
    return Posture(name, there.cable_length_m, frozen(np.full(40, pressure)), frozen(pose[0][-1]))


MEASURED = frozen(np.full(40, VALVES.rest_pressure_pa))
