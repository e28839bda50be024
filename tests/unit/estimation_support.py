"""Towers and observations for the tests of estimation."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from onboard.estimation.disc_gauss_newton import DiscGaussNewtonConfig
from onboard.estimation.disc_gradient import DiscGradientConfig
from onboard.estimation.disc_map import DiscMapConfig
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.so3 import exp_so3
from onboard.messages import Bools, Floats, StrutObservations, frozen
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.estimation.shapes import Shapes

METHODS = ("gradient", "gauss_newton", "map_inclination", "map_direction")


def robot(twist_deg: float | None = None, name: str = "manipulator") -> RobotSpec:
    """A robot's file, with another strut twist when asked."""
    spec = load_robot(robot_file(name))
    if twist_deg is None:
        return spec
    return msgspec.structs.replace(spec, structure=msgspec.structs.replace(spec.structure, strut_twist_deg=twist_deg))


def estimator(method: str, spec: RobotSpec):
    """One of the four methods with its default settings."""
    configs = {
        "gradient": DiscGradientConfig(),
        "gauss_newton": DiscGaussNewtonConfig(),
        "map_inclination": DiscMapConfig(mode="inclination"),
        "map_direction": DiscMapConfig(),
    }
    return configs[method].build(spec)


def pose_of(geometry: DiscGeometry, bends: Floats) -> tuple[Floats, Floats, Floats]:
    """Positions (M+1, 3), rotations (M+1, 3, 3) and strut directions (4M, 3) of exact joints bent by `bends` (M, 3)."""
    shapes = Shapes(geometry, bends[None], geometry.lower_m, geometry.upper_m)
    return shapes.position[0], shapes.rotation[0], shapes.direction[0]


def observed(
    direction: Floats,
    t_s: float = 0.0,
    rate: Floats | None = None,
    valid: Bools | None = None,
    sigma_incl: float = 0.01,
    sigma_az: float = 0.02,
    flags: int = 0,
) -> StrutObservations:
    """Observations of the directions (n, 3) at one tick."""
    n = len(direction)
    return StrutObservations(
        t_s=t_s,
        direction=frozen(direction),
        rate_rad_s=frozen(np.zeros((n, 3)) if rate is None else rate),
        sigma_inclination_rad=frozen(np.full(n, sigma_incl)),
        sigma_azimuth_rad=frozen(np.full(n, sigma_az)),
        age_s=frozen(np.full(n, 0.01)),
        valid=frozen(np.ones(n) if valid is None else valid, dtype=np.bool_),
        flags=frozen(np.full(n, flags), dtype=np.int64),
    )


def bent(modules: int = 5, tilt_deg: float = 40.0, heading_rad: float = 0.6) -> Floats:
    """An even bend (M, 3) whose tip tilts by `tilt_deg` towards `heading_rad`."""
    size = math.radians(tilt_deg) / modules
    return np.tile([-size * math.sin(heading_rad), size * math.cos(heading_rad), 0.0], (modules, 1))


def yaw(angle_rad: float) -> Floats:
    """Rotation about z (3, 3)."""
    return exp_so3(np.array([0.0, 0.0, angle_rad]))
