"""Azimuth drift: what the gyros' heading has gained on the truth, strut by strut, learnt from the joint estimate.

Each strut carries an offset psi with variance P that grows as its own observation's does. Gravity and the strut lengths fix the
pose without any azimuth, so the pose says what the azimuth should have been: psi is the slow part of the difference. The pose's
own azimuth error is not white (joints and accelerometers are off by constants), hence a measurement noise that is scaled up by
the time over which it stays the same.
"""

from __future__ import annotations

import math

from onboard.estimation.compiled import compiled
from onboard.messages import Bools, Floats

MIN_SINE = 0.05  # a strut this close to the vertical has no azimuth to speak of
MAX_STEP_S = 0.1  # a rate does not speak for longer than this
UNTRUSTED = 1e-9  # weight of an excluded strut: enough to see its residual, not to move anything


@compiled
def correct(
    direction: Floats,
    rate: Floats,
    sigma_incl: Floats,
    sigma_az: Floats,
    valid: Bools,
    excluded: Bools,
    used: Bools,
    trust: Floats,
    dt_s: float,
    floor_incl: float,
    floor_az: float,
    last_sigma_az: Floats,
    offset: Floats,
    variance: Floats,
    out_direction: Floats,
    out_motion: Floats,
    moving: Floats,
    weight_incl: Floats,
    weight_az: Floats,
) -> int:
    """Directions turned back by the drift, the turn the gyros saw, and weights: floors are added to the sensors' own sigmas.

    The variance of a strut's offset starts at, and grows with, sigma_az^2; a fall of sigma_az means a fresh heading. `used`
    (MN,) holds which struts were used at the last tick, and on return which are now: those that are valid and all of whose
    numbers are finite. trust (MN,) is 1 for them, next to nothing for `excluded` ones; moving (MN,) is 1 where out_motion
    (MN, 3) holds a turn.
    """
    count = 0
    for i in range(len(direction)):
        total = sigma_incl[i] + sigma_az[i]
        for x in range(3):
            total += direction[i, x] + rate[i, x]
        moving[i] = 1.0 if used[i] and dt_s <= MAX_STEP_S else 0.0
        used[i] = valid[i] and math.isfinite(total)
        trust[i] = 0.0
        if not used[i]:
            moving[i] = 0.0
            continue
        count += 1
        trust[i] = UNTRUSTED if excluded[i] else 1.0
        before, now = last_sigma_az[i] * last_sigma_az[i], sigma_az[i] * sigma_az[i]
        if before == 0.0 or now < 0.98 * before:
            offset[i], variance[i] = 0.0, now
        else:
            variance[i] += max(0.0, now - before)
        last_sigma_az[i] = sigma_az[i]
        c, s = math.cos(offset[i]), math.sin(offset[i])
        x, y, z = direction[i, 0], direction[i, 1], direction[i, 2]
        dx, dy = c * x + s * y, c * y - s * x
        norm = math.sqrt(dx * dx + dy * dy + z * z)
        dx, dy, dz = dx / norm, dy / norm, z / norm
        out_direction[i, 0], out_direction[i, 1], out_direction[i, 2] = dx, dy, dz
        wx, wy, wz = c * rate[i, 0] + s * rate[i, 1], c * rate[i, 1] - s * rate[i, 0], rate[i, 2]
        out_motion[i, 0] = (wy * dz - wz * dy) * dt_s
        out_motion[i, 1] = (wz * dx - wx * dz) * dt_s
        out_motion[i, 2] = (wx * dy - wy * dx) * dt_s
        white = sigma_incl[i] * sigma_incl[i] + floor_incl * floor_incl
        level2 = dx * dx + dy * dy
        weight_incl[i] = 1.0 / white
        weight_az[i] = 1.0 / (white + level2 * (variance[i] + floor_az * floor_az))
    return count


@compiled
def learn(
    position: Floats,
    rotation: Floats,
    warp: Floats,
    lower_m: Floats,
    upper_m: Floats,
    saddle: Floats,
    direction: Floats,
    trust: Floats,
    weight_incl: Floats,
    ticks: float,
    offset: Floats,
    variance: Floats,
) -> None:
    """One scalar Kalman step per strut: a tick's azimuth is as good as an inclination, and `ticks` of them share one error."""
    modules, n = lower_m.shape[0], lower_m.shape[1]
    for m in range(modules):
        for k in range(n):
            i = m * n + k
            dx, dy = direction[i, 0], direction[i, 1]
            sine = math.sqrt(dx * dx + dy * dy)
            if trust[i] < 1.0 or sine < MIN_SINE:
                continue
            v0 = v1 = 0.0
            lift = saddle[k] * warp[m]
            for x in range(2):
                total = position[m + 1, x] - position[m, x]
                for y in range(3):
                    b = upper_m[m, k, y] + (lift if y == 2 else 0.0)
                    total += rotation[m + 1, x, y] * b - rotation[m, x, y] * lower_m[m, k, y]
                if x == 0:
                    v0 = total
                else:
                    v1 = total
            gap = math.atan2(dx * v1 - dy * v0, dx * v0 + dy * v1)
            measured = ticks / (weight_incl[i] * sine * sine)
            if gap * gap > 16.0 * (variance[i] + measured / ticks):
                continue  # no drift is that fast: the pose or the strut is wrong just now
            gain = variance[i] / (variance[i] + measured)
            offset[i] -= gain * gap
            variance[i] *= 1.0 - gain
