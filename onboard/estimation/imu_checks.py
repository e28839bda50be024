"""Sensors that lie with a healthy bus: frozen channels, saturated channels, and the resolution both are judged by."""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.messages import Bools, Floats, Ints, frozen

G_M_S2 = 9.80665  # standard gravity, which data sheets count in
MOVED_COUNTS = 5.0  # a channel that spans more than this many counts has moved
FROZEN_WINDOW_S = 0.45  # of identical samples; with transport this keeps "stale within 0.5 s"
BAD, GOOD, SATURATED = 0, 1, 2


def compile_checks(struts: int, rate_hz: float, limit: Floats) -> None:
    """Build the kernels of this file on made-up samples, read-only as real ones are, before the first real sample comes."""
    zero = frozen(np.zeros(3))
    screen(zero, zero, limit)
    detector = FrozenDetector(struts, struts, rate_hz, limit)
    detector.add(0, zero, zero)
    detector.frozen(np.ones(struts, dtype=np.bool_))


def counts_si(sensor: str, accel_range_g: int, gyro_range_dps: int) -> Floats:
    """One count (6,) in m/s^2 and rad/s: range / 32768, except for the LSM6DSOX's gyroscope (0.035 mdps per dps of range)."""
    gyro = gyro_range_dps * 35e-6 if sensor == "lsm6dsox" else gyro_range_dps / 32768.0
    return np.repeat([accel_range_g * G_M_S2 / 32768.0, math.radians(gyro)], 3)


@compiled
def screen(acceleration: Floats, rate: Floats, limit: Floats) -> int:
    """BAD when a number of one sample is not finite, SATURATED when a channel is at its `limit` (6,), else GOOD."""
    verdict = GOOD
    for x in range(3):
        if not (math.isfinite(acceleration[x]) and math.isfinite(rate[x])):
            return BAD
        if abs(acceleration[x]) >= limit[x] or abs(rate[x]) >= limit[3 + x]:
            verdict = SATURATED
    return verdict


@compiled
def _push(ring: Floats, filled: Ints, step: Floats, strut: int, acceleration: Floats, rate: Floats, count: Floats) -> None:
    window = ring.shape[1]
    now, last = filled[strut] % window, (filled[strut] - 1) % window
    for x in range(6):
        value = acceleration[x] if x < 3 else rate[x - 3]
        if filled[strut] > 0:
            change = abs(value - ring[strut, last, x])
            # Half a count separates a step from rounding in the conversion to SI units.
            if change > 0.5 * count[x] and change < step[strut, x]:
                step[strut, x] = change
        ring[strut, now, x] = value
    filled[strut] += 1


@compiled
def _spans(ring: Floats, filled: Ints, step: Floats, count: Floats, alive: Bools, constant: Bools, moved: Bools) -> bool:
    """Which struts have a constant channel, and one that moved, over a full window; returns whether any is constant."""
    found = False
    for i in range(len(ring)):
        constant[i] = moved[i] = False
        if not alive[i] or filled[i] < ring.shape[1]:
            continue
        for x in range(6):
            low = high = ring[i, 0, x]
            for k in range(1, ring.shape[1]):
                low, high = min(low, ring[i, k, x]), max(high, ring[i, k, x])
            resolution = count[x] if math.isinf(step[i, x]) else max(count[x], step[i, x])
            constant[i] |= high == low
            moved[i] |= high - low > MOVED_COUNTS * resolution
        found |= constant[i]
    return found


class FrozenDetector:
    """Finds struts with a channel that stands still while the strut's other channels or neighbouring struts move.

    A coarse, quiet sensor at rest shows constant channels too: so something else must span more than five counts, and a
    channel's count is the smallest step it was ever seen to take when that is larger than the sensor's own.
    """

    def __init__(self, struts: int, per_module: int, rate_hz: float, count: Floats) -> None:
        window = max(8, math.ceil(FROZEN_WINDOW_S * rate_hz))
        self._count = count
        self._ring = np.zeros((struts, window, 6))
        self._filled = np.zeros(struts, dtype=np.int64)
        self._step = np.full((struts, 6), np.inf)
        self._constant, self._moved = np.zeros(struts, dtype=np.bool_), np.zeros(struts, dtype=np.bool_)
        module = np.arange(struts) // per_module
        self._near = np.abs(module[:, None] - module[None, :]) <= 1

    def add(self, strut: int, acceleration: Floats, rate: Floats) -> None:
        """Take one sample of a strut, (3,) [m/s^2] and (3,) [rad/s]."""
        _push(self._ring, self._filled, self._step, strut, acceleration, rate, self._count)

    def forget(self, strut: int) -> None:
        """Start the strut's window anew: its board has rebooted."""
        self._filled[strut] = 0

    def frozen(self, alive: Bools) -> Bools:
        """Struts (n,) that are frozen now; `alive` (n,) are those that still send."""
        if not _spans(self._ring, self._filled, self._step, self._count, alive, self._constant, self._moved):
            return self._constant.copy()
        around: Bools = (self._near & self._moved[None, :]).any(axis=1)
        return self._constant & around
