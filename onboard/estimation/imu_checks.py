"""Sensors that lie with a healthy bus: frozen channels, saturated channels, and the resolution both are judged by."""

from __future__ import annotations

import math

import numpy as np

from onboard.messages import Bools, Floats

G_M_S2 = 9.80665  # standard gravity, which data sheets count in
MOVED_COUNTS = 5.0  # a channel that spans more than this many counts has moved
FROZEN_WINDOW_S = 0.45  # of identical samples; with transport this keeps "stale within 0.5 s"


def counts_si(sensor: str, accel_range_g: int, gyro_range_dps: int) -> Floats:
    """One count (6,) in m/s^2 and rad/s: range / 32768, except for the LSM6DSOX's gyroscope (0.035 mdps per dps of range)."""
    gyro = gyro_range_dps * 35e-6 if sensor == "lsm6dsox" else gyro_range_dps / 32768.0
    return np.repeat([accel_range_g * G_M_S2 / 32768.0, math.radians(gyro)], 3)


class FrozenDetector:
    """Finds struts with a channel that stands still while the strut's other channels or neighbouring struts move.

    A coarse, quiet sensor at rest shows constant channels too: so something else must span more than five counts, and a
    channel's count is the smallest step it was ever seen to take when that is larger than the sensor's own.
    """

    def __init__(self, struts: int, per_module: int, rate_hz: float, count: Floats) -> None:
        self._window = max(8, math.ceil(FROZEN_WINDOW_S * rate_hz))
        self._count = count
        self._ring = np.zeros((struts, self._window, 6))
        self._filled = np.zeros(struts, dtype=np.int64)
        self._step = np.full((struts, 6), np.inf)
        module = np.arange(struts) // per_module
        self._near = (np.abs(module[:, None] - module[None, :]) <= 1) & ~np.eye(struts, dtype=np.bool_)

    def add(self, strut: int, values: Floats) -> None:
        """Take one sample (6,) of a strut."""
        filled = int(self._filled[strut])
        if filled:
            step = np.abs(values - self._ring[strut, (filled - 1) % self._window])
            # Half a count separates a step from rounding in the conversion to SI units.
            np.minimum(self._step[strut], step, out=self._step[strut], where=step > 0.5 * self._count)
        self._ring[strut, filled % self._window] = values
        self._filled[strut] = filled + 1

    def forget(self, strut: int) -> None:
        """Start the strut's window anew: its board has rebooted."""
        self._filled[strut] = 0

    def frozen(self, alive: Bools) -> Bools:
        """Struts (n,) that are frozen now; `alive` (n,) are those that still send."""
        full = (self._filled >= self._window) & alive
        span = np.ptp(self._ring, axis=1)
        constant: Bools = (span == 0.0).any(axis=1) & full
        if not constant.any():
            return constant
        step = np.where(np.isfinite(self._step), self._step, 0.0)
        moved = (span > MOVED_COUNTS * np.maximum(self._count, step)).any(axis=1) & full
        result: Bools = constant & (moved | (self._near & moved[None, :]).any(axis=1))
        return result
