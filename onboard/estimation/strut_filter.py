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

from onboard.estimation.imu_checks import G_M_S2
from onboard.messages import Floats

MIN_SINE = 0.05  # a strut closer to the vertical than 3 degrees has no azimuth to align
FREE_FALL_G = 0.3  # less gravity than this is none
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

    direction (3,), rate (3,): world axes, bias removed. azimuth_var [rad^2] grows with drift. lie: recent deviation of the
    accelerometer's norm from gravity, in g. blind_s: how long the accelerometer was unusable, up to now.
    """

    def __init__(self, settings: FilterSettings, axis: Floats, rest_azimuth_rad: float) -> None:
        self._settings, self._axis, self._rest_azimuth = settings, axis, rest_azimuth_rad
        self._vqf = self._fresh()
        self.t_s = -math.inf
        self.direction, self.rate = np.array([0.0, 0.0, 1.0]), np.zeros(3)
        self.azimuth_var = math.pi**2
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
        return self.azimuth_var < math.pi**2

    def _fresh(self) -> VQF:
        self._unlevelled = True
        return VQF(self._settings.nominal_dt_s, tauAcc=self._settings.tau_s)

    def reboot(self, t_s: float) -> None:
        """The board started anew: its clock is another, its samples may have jumped; orientation and bias are kept."""
        self.azimuth_var = min(math.pi**2, self.azimuth_var + self._settings.gap_azimuth_var)
        if t_s <= self.t_s:
            self.t_s = t_s - self._settings.nominal_dt_s

    def restart(self) -> None:
        """Level anew from the next sample and keep the last azimuth, with more doubt: after a long gap or frozen samples."""
        bias = np.asarray(self._vqf.getBiasEstimate()[0], dtype=np.float64)
        self._vqf = self._fresh()
        if np.isfinite(bias).all():
            self._vqf.setBiasEstimate(bias, math.radians(0.5))
        if self.aligned:
            self._kept_azimuth = math.atan2(self.direction[1], self.direction[0])
            self.azimuth_var = min(math.pi**2, self.azimuth_var + self._settings.gap_azimuth_var)

    def add(self, t_s: float, acceleration: Floats, gyro: Floats, saturated: bool) -> None:
        """Take one sample, later than the last, all numbers finite; acceleration (3,) [m/s^2], gyro (3,) [rad/s]."""
        settings = self._settings
        dt_s = t_s - self.t_s
        if dt_s > settings.relevel_gap_s:
            if math.isfinite(self.t_s):
                self.restart()
            dt_s = settings.nominal_dt_s
            self._vqf.updateGyr(gyro)
        else:
            # Lost samples are bridged by the mean rate in steps of about the nominal spacing.
            steps = max(1, round(dt_s / settings.nominal_dt_s))
            rate = gyro if steps == 1 else 0.5 * (gyro + self._gyro)
            scaled = rate * (dt_s / (steps * settings.nominal_dt_s))
            for _ in range(steps):
                self._vqf.updateGyr(scaled)
        self._level(acceleration, dt_s)
        self.t_s, self._gyro = t_s, gyro
        if saturated:
            hidden = (0.3 * settings.gyro_range_rad_s * dt_s) ** 2
            self.azimuth_var = min(math.pi**2, self.azimuth_var + hidden)
            self.extra_var += hidden
        self.extra_var *= math.exp(-dt_s / settings.tau_s)
        self._point(gyro, dt_s)

    def _level(self, acceleration: Floats, dt_s: float) -> None:
        norm = math.sqrt(float(acceleration @ acceleration))
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

    def _point(self, gyro: Floats, dt_s: float) -> None:
        w, x, y, z = self._vqf.getQuat6D().tolist()
        if not math.isfinite(w + x + y + z):  # nothing finite went in, so this cannot be; but it must not latch
            self.restart()
            return
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        level = turn @ self._axis
        self._set_heading(level, dt_s)
        bias = np.asarray(self._vqf.getBiasEstimate()[0], dtype=np.float64)
        rate = turn @ (gyro - bias)
        c, s = math.cos(self._heading), math.sin(self._heading)
        self.direction = np.array([c * level[0] - s * level[1], s * level[0] + c * level[1], level[2]])
        self.rate = np.array([c * rate[0] - s * rate[1], s * rate[0] + c * rate[1], rate[2]])

    def _set_heading(self, level: Floats, dt_s: float) -> None:
        sine = math.hypot(level[0], level[1])
        azimuth = math.atan2(level[1], level[0])
        if self._kept_azimuth is not None:
            if sine >= MIN_SINE:
                self._heading = self._kept_azimuth - azimuth
                self._kept_azimuth = None
        elif self._align_until_s is None or self.t_s <= self._align_until_s:
            if sine < MIN_SINE:
                return
            if self._align_until_s is None:
                self._align_until_s = self.t_s + self._settings.align_s
                self.azimuth_var = self._settings.start_azimuth_var
            gap = self._rest_azimuth - azimuth
            self._align += (math.cos(gap), math.sin(gap))
            self._heading = math.atan2(self._align[1], self._align[0])
        self.azimuth_var = min(math.pi**2, self.azimuth_var + self._settings.walk_var_per_s * dt_s)
