"""A gyroscope's large offset, taken off before the filter sees it: VQF takes no rate above 2 degrees a second for rest."""

from __future__ import annotations

import math

import numpy as np

from onboard.messages import Floats

WINDOW_S = 1.0
STILL_RATE_RAD_S = math.radians(2.0)  # spread of a still gyroscope's samples in a window, on every axis
STILL_ACCELERATION_M_S2 = 0.6
SMALL_RAD_S = math.radians(1.5)  # VQF learns less than this by itself, and better
MOST_RAD_S = math.radians(20.0)  # no offset is larger: this is a robot that turns


class GyroOffset:
    """Looks for the first still second after the start; `value` (3,) [rad/s] is what to take off from then on."""

    def __init__(self) -> None:
        self.value: Floats = np.zeros(3)
        self._searching = True
        self._begin()

    def _begin(self) -> None:
        self._count, self._span_s = 0, 0.0
        self._sum = np.zeros(3)
        self._low, self._high = np.full(6, math.inf), np.full(6, -math.inf)

    def take(self, gyro: Floats, acceleration: Floats, dt_s: float) -> bool:
        """Take one sample: raw rate (3,) [rad/s], acceleration (3,) [m/s^2]. True when `value` has just been found."""
        if not self._searching:
            return False
        both = np.concatenate((gyro, acceleration))
        self._low, self._high = np.minimum(self._low, both), np.maximum(self._high, both)
        spread = self._high - self._low
        if spread[:3].max() > STILL_RATE_RAD_S or spread[3:].max() > STILL_ACCELERATION_M_S2:
            self._begin()
            return False
        self._sum += gyro
        self._count += 1
        self._span_s += dt_s
        if self._span_s < WINDOW_S:
            return False
        mean, self._searching = self._sum / self._count, False
        worst = float(np.abs(mean).max())
        if not SMALL_RAD_S < worst < MOST_RAD_S:
            return False
        self.value = mean
        return True
