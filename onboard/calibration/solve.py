"""Sensor errors from several still poses: the struts of a module hang together, so four inclinations over-determine its pose.

Unknown are, of every strut, the tilt of its axis in the sensor (2) and the accelerometer's bias (3); and of every pose and
module the relative pose and the warp of its ring (7). Gauss-Newton on strut lengths, inclinations, the norm of gravity and
Gaussian priors gives their most probable values. The first pose must be the upright rest pose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onboard.calibration.stills import Still
from onboard.errors import CalibrationError
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.imu_checks import G_M_S2
from onboard.messages import Floats
from onboard.robot import RobotSpec

MIN_POSES = 4
LENGTH_SIGMA_M = 5e-4
INCLINATION_SIGMA_RAD = 1e-3  # of a mean over two seconds; what the rigid model leaves out
NORM_SIGMA_M_S2 = 0.01
TILT_SIGMA_RAD = math.radians(0.7)
BIAS_SIGMA_M_S2 = 0.08
WARP_SIGMA_M = 2e-3
REST_SIGMA_RAD = math.radians(0.7)
BEND_SIGMA_RAD, TWIST_SIGMA_RAD = math.radians(30.0), math.radians(10.0)
MAX_TILT_RAD, MAX_BIAS_M_S2 = math.radians(10.0), 0.6
ITERATIONS = 12


@dataclass(frozen=True, slots=True)
class Solution:
    """axis (n, 3): strut axes in sensor axes. accel_bias_m_s2, gyro_bias_rad_s (n, 3). residual_*_rad: RMS inclination."""

    axis: Floats
    accel_bias_m_s2: Floats
    gyro_bias_rad_s: Floats
    residual_before_rad: float
    residual_after_rad: float
    poses: int


def nominal_axis(mounting_wxyz: list[float]) -> Floats:
    """The strut's axis in sensor axes (3,) for a mounting quaternion, sensor to strut."""
    w, x, y, z = np.array(mounting_wxyz) / np.linalg.norm(mounting_wxyz)
    return np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])


def solve(spec: RobotSpec, stills: list[Still]) -> Solution:
    """The most probable sensor errors; raises CalibrationError for too few poses, no upright start, or absurd values."""
    if len(stills) < MIN_POSES:
        raise CalibrationError(
            f"{len(stills)} still poses: at least {MIN_POSES} are needed, the first upright, each held 2 s, 2 degrees apart"
        )
    problem = _Problem(spec, np.array([one.force_m_s2 for one in stills]))
    start = np.zeros(problem.size)
    lean = float(np.abs(problem.lean(start)).max())
    if lean > math.radians(6.0):
        raise CalibrationError(
            f"in the first pose a strut leans {math.degrees(lean):.1f} degrees from where it rests: let the robot stand upright"
        )
    # Poses alone first: what the robot's file says of the sensors explains the measurements so well, and no better.
    fixed = 5 * problem.n
    before = _gauss_newton(problem.residuals, start, fixed)
    x = _gauss_newton(problem.residuals, before, 0)
    if not np.isfinite(x).all():
        raise CalibrationError("the poses do not fit this robot: the solution is not a number")
    tilt, bias, _ = problem.parts(x)
    worst = int(np.argmax(np.maximum(np.abs(tilt).max(axis=1) / MAX_TILT_RAD, np.abs(bias).max(axis=1) / MAX_BIAS_M_S2)))
    if np.abs(tilt).max() > MAX_TILT_RAD or np.abs(bias).max() > MAX_BIAS_M_S2:
        raise CalibrationError(
            f"{spec.struts[worst]}: mounted {math.degrees(float(np.abs(tilt[worst]).max())):.1f} degrees off, or biased by "
            f"{float(np.abs(bias[worst]).max()):.2f} m/s^2: more than any good sensor; check its place and imu.mounting_wxyz"
        )
    return Solution(
        axis=problem.axes(tilt),
        accel_bias_m_s2=bias,
        gyro_bias_rad_s=np.mean([one.rate_rad_s for one in stills], axis=0),
        residual_before_rad=problem.misfit_rad(before),
        residual_after_rad=problem.misfit_rad(x),
        poses=len(stills),
    )


def _gauss_newton(residuals: Callable[[Floats], Floats], x: Floats, fixed: int) -> Floats:
    """Minimum of |residuals|^2 over x[fixed:], by differences and halved steps."""
    x, step = x.copy(), 1e-6
    r = residuals(x)
    for _ in range(ITERATIONS):
        jac = np.empty((len(r), len(x) - fixed))
        for k in range(fixed, len(x)):
            moved = x.copy()
            moved[k] += step
            jac[:, k - fixed] = (residuals(moved) - r) / step
        move = np.linalg.solve(jac.T @ jac, -jac.T @ r)
        for _ in range(8):
            new = x.copy()
            new[fixed:] += move
            tried = residuals(new)
            if float(tried @ tried) <= float(r @ r):
                break
            move *= 0.5
        gain, x, r = float(r @ r) - float(tried @ tried), new, tried
        if gain < 1e-6 * float(r @ r):
            break
    return x


class _Problem:
    def __init__(self, spec: RobotSpec, force: Floats) -> None:
        self.geometry = geometry = DiscGeometry.of(spec.structure)
        self.force, (self.poses, self.n) = force, force.shape[:2]
        self.modules = geometry.modules
        axis = nominal_axis(spec.imu.mounting_wxyz)
        first = np.cross(axis, [1.0, 0.0, 0.0] if abs(axis[0]) < 0.7 else [0.0, 1.0, 0.0])
        first /= np.linalg.norm(first)
        self._frame = (axis, first, np.cross(axis, first))
        self.size = 5 * self.n + 7 * self.poses * self.modules
        self._height = np.diff(geometry.rest_position_m, axis=0)
        self._bend = np.full((self.poses, 3), BEND_SIGMA_RAD)
        self._bend[:, 2] = TWIST_SIGMA_RAD
        self._bend[0] = REST_SIGMA_RAD

    def parts(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Tilt (n, 2) [rad], bias (n, 3) [m/s^2], poses (P, M, 7)."""
        n = self.n
        return x[: 2 * n].reshape(n, 2), x[2 * n : 5 * n].reshape(n, 3), x[5 * n :].reshape(self.poses, self.modules, 7)

    def axes(self, tilt: Floats) -> Floats:
        """Strut axes in sensor axes (n, 3)."""
        axis, first, second = self._frame
        out = axis + tilt[:, :1] * first + tilt[:, 1:] * second
        return np.asarray(out / np.linalg.norm(out, axis=1, keepdims=True))

    def lean(self, x: Floats) -> Floats:
        """Inclination of every strut in the first pose less that of the upright tower (n,) [rad]."""
        _, _, cosine = self._measured(x)
        return np.asarray(np.arccos(np.clip(cosine[0], -1.0, 1.0)) - np.arccos(self.geometry.rest_direction[:, 2]))

    def misfit_rad(self, x: Floats) -> float:
        """RMS of measured less modelled inclination [rad]."""
        _, _, cosine = self._measured(x)
        _, vertical = self._shape(x)
        return float(np.sqrt(np.mean((np.arccos(np.clip(cosine, -1, 1)) - np.arccos(np.clip(vertical, -1, 1))) ** 2)))

    def residuals(self, x: Floats) -> Floats:
        """All residuals over their standard deviations."""
        tilt, bias, pose = self.parts(x)
        _, norm, cosine = self._measured(x)
        length, vertical = self._shape(x)
        return np.concatenate(
            [
                ((length - self.geometry.strut_length_m.ravel()) / LENGTH_SIGMA_M).ravel(),
                ((vertical - cosine) / INCLINATION_SIGMA_RAD).ravel(),
                ((norm - G_M_S2) / NORM_SIGMA_M_S2).ravel(),
                (tilt / TILT_SIGMA_RAD).ravel(),
                (bias / BIAS_SIGMA_M_S2).ravel(),
                (pose[:, :, 3:6] / self._bend[:, None]).ravel(),
                (pose[:, :, 6] / WARP_SIGMA_M).ravel(),
            ]
        )

    def _measured(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        tilt, bias, _ = self.parts(x)
        force = self.force - bias
        norm = np.linalg.norm(force, axis=2)
        return force, norm, (force * self.axes(tilt)).sum(axis=2) / norm

    def _shape(self, x: Floats) -> tuple[Floats, Floats]:
        """Strut lengths (P, n) and vertical parts of their directions (P, n)."""
        _, _, pose = self.parts(x)
        turns = _exp(pose[:, :, 3:6])
        upper = self.geometry.upper_m + np.zeros((self.poses, 1, 1, 1))
        upper[..., 2] += pose[:, :, 6, None] * self.geometry.saddle
        strut = (self._height + pose[:, :, :3])[:, :, None] + np.einsum("pmik,pmjk->pmji", turns, upper) - self.geometry.lower_m
        up = np.tile([0.0, 0.0, 1.0], (self.poses, 1))  # the vertical in the frame of the disc below
        vertical = np.empty(strut.shape[:3])
        for m in range(self.modules):
            vertical[:, m] = np.einsum("pji,pi->pj", strut[:, m], up)
            up = np.einsum("pik,pi->pk", turns[:, m], up)
        length = np.linalg.norm(strut, axis=3)
        return length.reshape(self.poses, -1), (vertical / length).reshape(self.poses, -1)


def _exp(w: Floats) -> Floats:
    """Rotation matrices (..., 3, 3) of rotation vectors (..., 3): Rodrigues' formula."""
    angle = np.linalg.norm(w, axis=-1)[..., None, None]
    k = np.zeros((*w.shape[:-1], 3, 3))
    k[..., 0, 1], k[..., 0, 2], k[..., 1, 2] = -w[..., 2], w[..., 1], -w[..., 0]
    k -= np.swapaxes(k, -1, -2)
    half = 0.5 * np.sinc(angle / (2.0 * np.pi)) ** 2
    return np.asarray(np.eye(3) + np.sinc(angle / np.pi) * k + half * (k @ k))
