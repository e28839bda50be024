"""One strut's orientation: VQF on gyroscope and accelerometer at the true sample spacing, with a heading of its own.

VQF (D. Laidig and T. Seel, "VQF: Highly accurate IMU orientation estimation with bias estimation and magnetic disturbance
rejection", Information Fusion 91, 2023) without magnetometer estimates gyro bias and inclination; its heading starts
anywhere. The heading is fixed once against the upright tower and drifts from then on. VQF counts in samples of one spacing,
so rates are scaled by true over nominal spacing: the angle turned is exact, whatever the sensor's own rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from vqf import VQF

from onboard.estimation.gyro_offset import GyroOffset
from onboard.estimation.imu_checks import G_M_S2
from onboard.messages import Floats

MIN_SINE = 0.05  # a strut closer to the vertical than 3 degrees has no azimuth to align
FREE_FALL_G = 0.3  # less gravity than this is none
UNKNOWN_VAR = math.pi**2  # [rad^2] of an azimuth that nothing is known about
Vector = tuple[float, float, float]
# VQF's own 2 deg/s for 1.5 s takes an arm that creeps after a hand has moved it for one at rest, and learns a wrong gyro bias:
# on the manipulator's plant up to 1.8 mrad/s, half that with these; BROAD's two trials change by less than 0.01 degrees.
REST_RATE_DEG_S = 1.5
REST_S = 3.0
START_BIAS_RAD_S = math.radians(0.5)  # standard deviation of a bias before rest has shown it, VQF's own
SETTLED_BIAS_RAD_S = math.radians(0.06)  # a bias known this well lets an azimuth drift by some 2 degrees in a minute
RATE_ERROR = 0.03  # of a gyroscope: what a second of extrapolation or saturation may hide


@dataclass(slots=True)
class FilterSettings:
    """What a strut's filter needs from the robot's file, in SI units (see VqfConfig)."""

    nominal_dt_s: float
    tau_s: float
    gate_m_s2: float
    relevel_gap_s: float
    align_s: float
    start_azimuth_var: float
    walk_var_per_s: float
    gap_azimuth_var: float
    gyro_range_rad_s: float


class StrutFilter:
    """Direction, rate and uncertainties of one strut as of its newest sample.

    direction and rate [rad/s]: world axes, bias removed, as of the last call of `point`. azimuth_var [rad^2] grows with
    drift. lie: recent deviation of the accelerometer's norm from gravity, in g. blind_s: how long the accelerometer was
    unusable, up to now.
    """

    def __init__(self, settings: FilterSettings, axis: Vector, rest_azimuth_rad: float) -> None:
        self._settings, self._axis, self._rest_azimuth = settings, axis, rest_azimuth_rad
        self._settled = False
        self._offset = GyroOffset()
        self._vqf = self._fresh()
        self.t_s = -math.inf
        self.direction: Vector = (0.0, 0.0, 1.0)
        self.rate: Vector = (0.0, 0.0, 0.0)
        self._turned = True
        self.azimuth_var = UNKNOWN_VAR
        self.lie = self.blind_s = 0.0
        self.free_fall_s = 0.0
        self.extra_var = 0.0
        self._gyro = np.zeros(3)
        self._heading = 0.0
        self._align = np.zeros(2)
        self._align_until_s: float | None = None
        self._kept_azimuth: float | None = None

    @property
    def aligned(self) -> bool:
        """Whether the heading has been set at all."""
        return self.azimuth_var < UNKNOWN_VAR

    @property
    def settled(self) -> bool:
        """Whether the gyro's bias has become known since the start; that takes a few seconds of rest."""
        if not self._settled and self.aligned:
            self._settled = self._vqf.getBiasEstimate()[1] < SETTLED_BIAS_RAD_S
        return self._settled

    def _fresh(self) -> VQF:
        self._unlevelled = True
        return VQF(self._settings.nominal_dt_s, tauAcc=self._settings.tau_s, restThGyr=REST_RATE_DEG_S, restMinT=REST_S)

    def reboot(self, t_s: float) -> None:
        """The board started anew: its clock is another, its samples may have jumped; orientation and bias are kept."""
        self.azimuth_var = min(UNKNOWN_VAR, self.azimuth_var + self._settings.gap_azimuth_var)
        self.retime(t_s)

    def retime(self, t_s: float) -> None:
        """The next sample's time is `t_s`, even if earlier ones seemed newer: only now is the board's clock known."""
        if t_s <= self.t_s:
            self.t_s = t_s - self._settings.nominal_dt_s

    def restart(self) -> None:
        """Level anew from the next sample and keep the last azimuth, with more doubt: after a long gap or frozen samples."""
        bias = np.asarray(self._vqf.getBiasEstimate()[0], dtype=np.float64)
        self._vqf = self._fresh()
        if np.isfinite(bias).all():
            self._vqf.setBiasEstimate(bias, START_BIAS_RAD_S)
        if self.aligned:
            self._kept_azimuth = math.atan2(self.direction[1], self.direction[0])
            self.azimuth_var = min(UNKNOWN_VAR, self.azimuth_var + self._settings.gap_azimuth_var)

    def add(self, t_s: float, acceleration: Floats, gyro: Floats, saturated: bool) -> None:
        """Take one sample, later than the last, all numbers finite; acceleration (3,) [m/s^2], gyro (3,) [rad/s]."""
        settings = self._settings
        dt_s = t_s - self.t_s
        if self._offset.take(gyro, acceleration, min(dt_s, settings.nominal_dt_s)):
            self._vqf.setBiasEstimate(np.zeros(3), START_BIAS_RAD_S)  # what it has learnt so far was about the whole
        gyro = gyro - self._offset.value
        if self._align_until_s is None or t_s <= self._align_until_s:
            self.point()  # every sample counts while the heading is set
        if dt_s > settings.relevel_gap_s:
            if math.isfinite(self.t_s):
                self.restart()
                self._gyro = gyro
            dt_s = settings.nominal_dt_s
            self._vqf.updateGyr(gyro)
        else:
            # A lost sample is replaced by the straight line between its neighbours.
            steps = max(1, round(dt_s / settings.nominal_dt_s))
            scale = dt_s / (steps * settings.nominal_dt_s)
            for k in range(1, steps):
                self._vqf.updateGyr(scale * (self._gyro + (k / steps) * (gyro - self._gyro)))
            self._vqf.updateGyr(scale * gyro)
        self._level(acceleration, dt_s)
        self.t_s, self._gyro, self._turned = t_s, gyro, False
        if saturated:
            hidden = (0.3 * settings.gyro_range_rad_s * dt_s) ** 2
            self.azimuth_var += hidden
            self.extra_var += hidden
        self.extra_var *= math.exp(-dt_s / settings.tau_s)
        self.azimuth_var = min(UNKNOWN_VAR, self.azimuth_var + settings.walk_var_per_s * dt_s)

    def _level(self, acceleration: Floats, dt_s: float) -> None:
        norm = math.sqrt(float(acceleration.dot(acceleration)))
        off = abs(norm - G_M_S2)
        self.free_fall_s = self.free_fall_s + dt_s if norm < FREE_FALL_G * G_M_S2 else 0.0
        # A filter's first sample levels it whatever it says: there is nothing better yet.
        if off < self._settings.gate_m_s2 or self._unlevelled:
            self._vqf.updateAcc(acceleration)
            self._unlevelled = False
            self.blind_s = max(0.0, self.blind_s - 2.0 * dt_s)
        else:
            self.blind_s += dt_s
        blend = 1.0 - math.exp(-dt_s / self._settings.tau_s)
        self.lie += blend * (min(off / G_M_S2, 1.0) - self.lie)

    def point(self) -> None:
        """Bring direction and rate up to the newest sample."""
        if self._turned:
            return
        self._turned = True
        w, x, y, z = self._vqf.getQuat6D().tolist()
        if not math.isfinite(w + x + y + z):  # nothing finite went in, so this cannot be; but it must not latch
            self.restart()
            return
        level = _rotate(w, x, y, z, self._axis)
        self._set_heading(level)
        bias = self._vqf.getBiasEstimate()[0].tolist()
        gyro = self._gyro.tolist()
        rate = _rotate(w, x, y, z, (gyro[0] - bias[0], gyro[1] - bias[1], gyro[2] - bias[2]))
        c, s = math.cos(self._heading), math.sin(self._heading)
        self.direction = (c * level[0] - s * level[1], s * level[0] + c * level[1], level[2])
        self.rate = (c * rate[0] - s * rate[1], s * rate[0] + c * rate[1], rate[2])

    def hold_heading(self, share: float) -> None:
        """Turn the heading by `share` of what it lacks to the rest azimuth; only for a strut known to be where it rests."""
        self.point()
        if not self.aligned or math.hypot(self.direction[0], self.direction[1]) < MIN_SINE:
            return
        gap = self._rest_azimuth - math.atan2(self.direction[1], self.direction[0])
        self._heading += share * math.remainder(gap, math.tau)
        self.azimuth_var = min(self.azimuth_var, self._settings.start_azimuth_var)
        self._turned = False

    def _set_heading(self, level: Vector) -> None:
        azimuth = math.atan2(level[1], level[0])
        if math.hypot(level[0], level[1]) < MIN_SINE:
            return
        if self._kept_azimuth is not None:
            self._heading = self._kept_azimuth - azimuth
            self._kept_azimuth = None
        elif self._align_until_s is None or self.t_s <= self._align_until_s:
            if self._align_until_s is None:
                self._align_until_s = self.t_s + self._settings.align_s
                self.azimuth_var = self._settings.start_azimuth_var
            gap = self._rest_azimuth - azimuth
            self._align += (math.cos(gap), math.sin(gap))
            self._heading = math.atan2(self._align[1], self._align[0])


def _rotate(w: float, x: float, y: float, z: float, v: Vector) -> Vector:
    """v turned by the unit quaternion (w, x, y, z)."""
    a, b, c = v
    tx, ty, tz = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return (a + w * tx + y * tz - z * ty, b + w * ty + z * tx - x * tz, c + w * tz + x * ty - y * tx)
