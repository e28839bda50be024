"""What strut sensors make of a true motion: noise, bias, lag, asynchronous ages and a heading that drifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.estimation.geometry import DiscGeometry
from onboard.messages import Bools, Floats, StrutObservations, frozen
from sim.estimation.motions import Motion
from sim.estimation.shapes import Shapes

TICK_HZ, OVERSAMPLING = 80.0, 4
FINE_HZ = TICK_HZ * OVERSAMPLING


@dataclass(frozen=True, slots=True)
class Errors:
    """Sizes of the errors, 1 sigma. The first four are the reference page's; the rest is ours.

    white_deg, bias_deg: of a strut's direction, across it, each of two axes. joint_m: length of a joint's offset, both ends
    of every strut. lag_s: an orientation filter's lag at rest; lag_moving_s: added in proportion to acceleration, in full at
    lag_full_m_s2. period_s, period_spread: of a strut's samples; latency_s to latency_s + jitter_s from sample to arrival;
    lost: share of packets. heading_start_deg, heading_rate_deg_per_s, heading_walk_deg_per_sqrt_s: azimuth drift. gyro_*:
    noise, remaining bias, scale.
    """

    white_deg: float = 0.7
    bias_deg: float = 0.3
    joint_m: float = 0.002
    lag_s: float = 0.02
    lag_moving_s: float = 0.08
    lag_full_m_s2: float = 5.0
    period_s: float = 1.0 / 80.0
    period_spread: float = 0.01
    latency_s: float = 0.006
    jitter_s: float = 0.004
    lost: float = 0.01
    heading_start_deg: float = 0.5
    heading_rate_deg_per_s: float = 0.02
    heading_walk_deg_per_sqrt_s: float = 0.05
    gyro_noise_deg_per_s: float = 0.2
    gyro_bias_deg_per_s: float = 0.05
    gyro_scale: float = 0.01
    sigma_azimuth_deg: float = 1.5
    sigma_walk_deg_per_sqrt_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial at the estimator's ticks: truth (T, M+1, ...), which ticks count, and the observations."""

    position: Floats
    rotation: Floats
    evaluated: Bools
    observations: list[StrutObservations]


def true_joints(geometry: DiscGeometry, errors: Errors, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Joints (M, 4, 3) x 2 as built: the nominal ones plus offsets."""
    spread = errors.joint_m / np.sqrt(3.0)
    lower = geometry.lower_m + rng.normal(0.0, spread, geometry.lower_m.shape)
    upper = geometry.upper_m + rng.normal(0.0, spread, geometry.upper_m.shape)
    return lower, upper


@compiled
def _lagged(direction: Floats, acceleration: Floats, dt_s: float, lag_s: float, moving_s: float, full: float) -> Floats:
    """First-order low-pass of unit vectors (T, n, 3) whose time constant grows with |acceleration| (T, n)."""
    out = direction.copy()
    for i in range(direction.shape[1]):
        for t in range(1, len(direction)):
            tau = lag_s + moving_s * min(1.0, acceleration[t, i] / full)
            blend = dt_s / (tau + dt_s)
            size = 0.0
            for k in range(3):
                out[t, i, k] = out[t - 1, i, k] + blend * (direction[t, i, k] - out[t - 1, i, k])
                size += out[t, i, k] ** 2
            for k in range(3):
                out[t, i, k] /= size**0.5
    return out


def _at(values: Floats, position: Floats) -> Floats:
    """Linear interpolation of (T, n, 3) at fractional steps (K, n)."""
    low = np.clip(np.floor(position).astype(np.int64), 0, len(values) - 2)
    part = np.clip(position - low, 0.0, 1.0)[..., None]
    column = np.arange(values.shape[1])[None, :]
    out: Floats = (1.0 - part) * values[low, column] + part * values[low + 1, column]
    return out


def _ages(rng: np.random.Generator, ticks: Floats, n: int, errors: Errors) -> Floats:
    """Age (K, n) [s] of the newest arrived sample of every strut at every tick."""
    period = errors.period_s * (1.0 + rng.normal(0.0, errors.period_spread, n))
    phase = rng.uniform(0.0, 1.0, n) * period
    ready = ticks[:, None] - errors.latency_s - rng.uniform(0.0, errors.jitter_s, (len(ticks), n))
    since = np.mod(ready - phase, period)
    age = ticks[:, None] - (ready - since)
    age += period * (rng.uniform(0.0, 1.0, age.shape) < errors.lost)
    return np.minimum(age, ticks[:, None])


def sense(geometry: DiscGeometry, motion: Motion, errors: Errors, seed: int) -> Trial:
    """Observations of a motion; the same seed gives the same tower, sensors and noise."""
    rng = np.random.default_rng([seed, 0xE57])
    lower, upper = true_joints(geometry, errors, rng)
    shapes = Shapes(geometry, motion.bends, lower, upper)
    true, dt = shapes.direction, 1.0 / FINE_HZ
    n = true.shape[1]
    rate = np.cross(true, np.gradient(true, dt, axis=0))
    acceleration = np.linalg.norm(np.gradient(np.gradient(shapes.middle, dt, axis=0), dt, axis=0), axis=2)
    seen = _lagged(true, acceleration, dt, errors.lag_s, errors.lag_moving_s, errors.lag_full_m_s2)
    ticks = np.arange(OVERSAMPLING, len(true), OVERSAMPLING)
    t_s = motion.t_s[ticks]
    age = _ages(rng, t_s, n, errors)
    step = (t_s[:, None] - age) * FINE_HZ
    direction = _across(_at(seen, step), rng, errors)
    heading = _heading(rng, t_s, n, errors) + _start_heading(geometry, true)
    direction = _about_z(direction, heading)
    gyro = np.radians(errors.gyro_noise_deg_per_s) * rng.normal(size=direction.shape)
    gyro += np.radians(errors.gyro_bias_deg_per_s) * rng.normal(size=(1, n, 3))
    gyro += (1.0 + errors.gyro_scale * rng.normal(size=(1, n, 1))) * _about_z(_at(rate, step), heading)
    turned = direction + np.cross(gyro * age[..., None], direction)
    turned /= np.linalg.norm(turned, axis=2, keepdims=True)
    observations = _observations(t_s, turned, gyro, age, _at(acceleration[..., None], step)[..., 0], errors)
    return Trial(shapes.position[ticks], shapes.rotation[ticks], motion.evaluated[ticks], observations)


def _across(direction: Floats, rng: np.random.Generator, errors: Errors) -> Floats:
    """Turn unit vectors (K, n, 3) by white noise and a constant bias, both across the strut."""
    flat = np.stack([-direction[..., 1], direction[..., 0], np.zeros_like(direction[..., 0])], axis=-1)
    flat /= np.maximum(np.linalg.norm(flat, axis=2, keepdims=True), 1e-9)
    steep = np.cross(flat, direction)
    size = np.radians(errors.white_deg) * rng.normal(size=(2, *direction.shape[:2]))
    size += np.radians(errors.bias_deg) * rng.normal(size=(2, 1, direction.shape[1]))
    out = direction + size[0][..., None] * flat + size[1][..., None] * steep
    return out / np.linalg.norm(out, axis=2, keepdims=True)


def _heading(rng: np.random.Generator, t_s: Floats, n: int, errors: Errors) -> Floats:
    """Azimuth drift (K, n) [rad]: start, rate and random walk."""
    walk = np.cumsum(rng.normal(size=(len(t_s), n)), axis=0) * np.sqrt(t_s[1] - t_s[0])
    drift = errors.heading_start_deg * rng.normal(size=n) + errors.heading_walk_deg_per_sqrt_s * walk
    return np.radians(drift + np.multiply.outer(t_s, errors.heading_rate_deg_per_s * rng.normal(size=n)))


def _start_heading(geometry: DiscGeometry, true: Floats) -> Floats:
    """What setting the heading against the nominal upright tower gets wrong: the tower is built and stands a little off."""
    nominal, first = geometry.rest_direction, true[0]
    gap = np.arctan2(nominal[:, 1], nominal[:, 0]) - np.arctan2(first[:, 1], first[:, 0])
    wrapped: Floats = np.arctan2(np.sin(gap), np.cos(gap))
    return wrapped


def _about_z(v: Floats, angle: Floats) -> Floats:
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * v[..., 0] - s * v[..., 1], s * v[..., 0] + c * v[..., 1], v[..., 2]], axis=-1)


def _observations(
    t_s: Floats, direction: Floats, rate: Floats, age: Floats, acceleration: Floats, errors: Errors
) -> list[StrutObservations]:
    """Records per tick; sigmas are what an honest orientation filter would say: more under acceleration, azimuth growing."""
    base = np.radians(np.hypot(errors.white_deg, errors.bias_deg))
    incl = np.hypot(base, np.radians(3.0) * np.minimum(1.0, acceleration / errors.lag_full_m_s2))
    azimuth = np.radians(np.sqrt(errors.sigma_azimuth_deg**2 + errors.sigma_walk_deg_per_sqrt_s**2 * t_s))
    n = direction.shape[1]
    valid, flags = frozen(np.ones(n), dtype=np.bool_), frozen(np.zeros(n), dtype=np.int64)
    return [
        StrutObservations(
            t_s=float(t_s[k]),
            direction=frozen(direction[k]),
            rate_rad_s=frozen(rate[k]),
            sigma_inclination_rad=frozen(incl[k]),
            sigma_azimuth_rad=frozen(np.full(n, azimuth[k])),
            age_s=frozen(age[k]),
            valid=valid,
            flags=flags,
        )
        for k in range(len(t_s))
    ]
