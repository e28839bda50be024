"""What an inertial sensor makes of the truth: filter, noise, bias, misalignment, its own rate, counts, saturation, faults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from onboard.errors import UsageError
from onboard.messages import Floats, Ints
from onboard.robot import Imu, RobotSpec

G_M_S2 = 9.80665  # standard gravity, which data sheets count in
Counts = npt.NDArray[np.int16]

# A sensor's output rate strays from its nominal one; the LSM6DSOX even has a register for it (INTERNAL_FREQ_FINE).
RATE_SIGMA = 0.01
# The sensors' low-pass filters in the settings that the firmware makes: LSM6DSOX at half the output rate, MPU6886 wide open.
BANDWIDTH_HZ = {"lsm6dsox": 52.0, "mpu6886": 176.0}
# Milli-g and milli-degrees/s per count; the LSM6DSOX's gyroscope is not range / 32768 (data sheet DS12814).
LSM_ACCEL_MG = {2: 0.061, 4: 0.122, 8: 0.244, 16: 0.488}
LSM_GYRO_MDPS = {125: 4.375, 250: 8.75, 500: 17.5, 1000: 35.0, 2000: 70.0}
TEMPERATURE_PER_COUNT_C = {"lsm6dsox": 1.0 / 256.0, "mpu6886": 1.0 / 326.8}
FULL = 32767
AXES = 6  # ax ay az gx gy gz


class Fault(Enum):
    """What may be wrong with a sensor, as a switch."""

    NONE = "none"
    FROZEN = "frozen"  # samples go on, their payload does not change
    SATURATED = "saturated"  # the channel sits at the end of its range
    FLIPPED = "flipped"  # the channel has the wrong sign
    MISSING = "missing"  # no samples at all


@dataclass(frozen=True, slots=True)
class ImuSamples:
    """Raw samples of k struts from one plant step, in order of acquisition.

    strut (k,), t_s (k,): acquisition, plant time [s]. counter (k,): samples of that strut so far. accel, gyro (k, 3): counts
    in sensor axes. temperature (k,): counts.
    """

    strut: Ints
    t_s: Floats
    counter: Ints
    accel: Counts
    gyro: Counts
    temperature: Counts


def accel_scale(imu: Imu) -> float:
    """Acceleration per count [m/s^2] of the sensor at its range."""
    if imu.sensor == "lsm6dsox":
        return LSM_ACCEL_MG[imu.accel_range_g] * 1e-3 * G_M_S2
    return imu.accel_range_g * G_M_S2 / 32768.0


def gyro_scale(imu: Imu) -> float:
    """Angular rate per count [rad/s] of the sensor at its range."""
    if imu.sensor == "lsm6dsox":
        return float(np.radians(LSM_GYRO_MDPS[imu.gyro_range_dps] * 1e-3))
    return float(np.radians(imu.gyro_range_dps / 32768.0))


class ImuArray:
    """The sensors of all n struts of a robot. The same seed gives the same sensors and the same noise.

    bias (n, 6): [m/s^2] and [rad/s] in sensor axes. rate_hz (n,): real output rates. clock_drift (n,): of the boards' clocks
    against the host's, as a fraction; whoever simulates a board applies it to the board's ticks.
    """

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        errors, imu, n = spec.simulation.imu, spec.imu, len(spec.struts)
        self._rng = np.random.default_rng([seed, 0x1313])
        rng = self._rng
        self.count = n
        self.bias = np.concatenate(
            [rng.normal(0.0, errors.accel_bias_m_s2, (n, 3)), rng.normal(0.0, errors.gyro_bias_rad_s, (n, 3))], axis=1
        )
        self.rate_hz = imu.rate_hz * (1.0 + np.clip(rng.normal(0.0, RATE_SIGMA, n), -0.03, 0.03))
        self.clock_drift = rng.normal(0.0, errors.clock_drift_ppm * 1e-6, n)
        self.scale = np.repeat([accel_scale(imu), gyro_scale(imu)], 3)
        self._noise = np.repeat([errors.accel_noise_m_s2, errors.gyro_noise_rad_s], 3)
        mounting = _matrix(np.array(imu.mounting_wxyz))
        # RMS angle of the whole turn is misalignment_deg: a third of its square for each axis.
        turn = rng.normal(0.0, np.radians(errors.misalignment_deg) / np.sqrt(3.0), (n, 3))
        self.to_sensor = np.array([(mounting @ _turn(w)).T for w in turn])
        self._tau_s = 1.0 / (2.0 * np.pi * BANDWIDTH_HZ[imu.sensor])
        temperature = rng.normal(8.0, 2.0, n)  # above the 25 degrees that count zero stands for
        self._temperature = np.round(temperature / TEMPERATURE_PER_COUNT_C[imu.sensor]).astype(np.int16)
        self._next_s = rng.uniform(0.0, 1.0, n) / self.rate_hz
        self._counter = np.zeros(n, dtype=np.int64)
        self._fault: dict[int, tuple[Fault, list[int]]] = {}
        self._last = np.zeros((n, AXES), dtype=np.int16)
        self._t_s: float | None = None
        self._filtered = np.zeros((n, AXES))

    def set_fault(self, strut: int, fault: Fault, axis: int | None = None) -> None:
        """Switch a fault of one strut on one channel (0 .. 5: ax ay az gx gy gz) or all; Fault.NONE heals it."""
        if not 0 <= strut < self.count or (axis is not None and not 0 <= axis < AXES):
            raise UsageError(f"no channel {axis} of strut {strut}: there are {self.count} struts of {AXES} channels")
        self._fault[strut] = (fault, list(range(AXES)) if axis is None else [axis])

    def update(self, t_s: float, force: Floats, rate: Floats) -> ImuSamples:
        """Take the truth at `t_s` and return the samples acquired since the last call.

        force (n, 3): specific force [m/s^2], rate (n, 3): angular rate [rad/s], both in strut axes, at `t_s` [s].
        """
        truth = np.concatenate([np.matvec(self.to_sensor, force), np.matvec(self.to_sensor, rate)], axis=1)
        if self._t_s is None:
            # No history: samples start at the first truth.
            self._t_s, self._filtered = t_s, truth
            self._next_s += t_s
        before, t_before = self._filtered, self._t_s
        blend = -math.expm1(-(t_s - t_before) / self._tau_s)
        self._filtered = before + blend * (truth - before)
        self._t_s = t_s
        parts = []
        while len(due := np.flatnonzero(self._next_s <= t_s)):
            at = self._next_s[due]
            part = np.maximum((at - t_before) / max(t_s - t_before, 1e-12), 0.0)[:, None]
            value = before[due] + part * (self._filtered[due] - before[due]) + self.bias[due]
            value += self._noise * self._rng.normal(size=value.shape)
            counts = np.minimum(np.maximum(np.rint(value / self.scale), -FULL - 1), FULL).astype(np.int16)
            self._next_s[due] += 1.0 / self.rate_hz[due]
            if self._fault:
                present = self._apply_faults(due, counts)
                due, at, counts = due[present], at[present], counts[present]
            self._last[due] = counts
            self._counter[due] += 1
            parts.append((due, at, self._counter[due], counts))
        if not parts:
            nothing = np.zeros(0, dtype=np.int64)
            parts = [(nothing, np.zeros(0), nothing, np.zeros((0, AXES), dtype=np.int16))]
        index, times, counter, raw = (
            parts[0] if len(parts) == 1 else (np.concatenate(column) for column in zip(*parts, strict=True))
        )
        order = np.argsort(times, kind="stable")
        index, raw = index[order], raw[order]
        return ImuSamples(index, times[order], counter[order], raw[:, :3], raw[:, 3:], self._temperature[index])

    def _apply_faults(self, due: Ints, counts: Counts) -> npt.NDArray[np.bool_]:
        """Spoil `counts` in place; returns which samples there are at all."""
        present = np.ones(len(due), dtype=bool)
        for row, strut in enumerate(due.tolist()):
            fault, axes = self._fault.get(strut, (Fault.NONE, []))
            if fault is Fault.FROZEN:
                counts[row, axes] = self._last[strut, axes]
            elif fault is Fault.SATURATED:
                counts[row, axes] = FULL
            elif fault is Fault.FLIPPED:
                counts[row, axes] = np.minimum(-counts[row, axes].astype(np.int32), FULL).astype(np.int16)
            elif fault is Fault.MISSING:
                present[row] = False
        return present


def _matrix(wxyz: Floats) -> Floats:
    w, x, y, z = wxyz / np.linalg.norm(wxyz)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _turn(rotation_vector: Floats) -> Floats:
    angle = float(np.linalg.norm(rotation_vector))
    half = 0.5 * np.sinc(angle / (2.0 * np.pi)) * rotation_vector  # sin(angle/2) along the axis
    return _matrix(np.array([np.cos(angle / 2.0), *half]))
