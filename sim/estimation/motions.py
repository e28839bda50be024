"""Motions for the simulator of errors: static holds, slow wandering and abrupt steps, scaled to a tip tilt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import Bools, Floats
from sim.estimation.shapes import tip_tilt

SETTLE_S = 4.0  # upright for a second, then into the motion: not evaluated
UPRIGHT_S = 1.5
SAG_RAD = np.radians(1.0)  # a tower at start-up stands only nearly upright
TWIST_RAD = np.radians(3.0)
UNEVEN = 0.35  # RMS of a module's own bend against the common one


@dataclass(frozen=True, slots=True)
class Motion:
    """bends (T, M, 3): rotation vector of each module over its rest [rad]; evaluated (T,): which steps count."""

    t_s: Floats
    bends: Floats
    evaluated: Bools


def _wander(rng: np.random.Generator, t_s: Floats, low_hz: float, high_hz: float, shape: tuple[int, ...]) -> Floats:
    """Smooth random signals (T, *shape) of unit RMS: eight sines each with frequencies in a band."""
    hz = rng.uniform(low_hz, high_hz, (8, *shape))
    phase = rng.uniform(0.0, 2.0 * np.pi, (8, *shape))
    out = np.zeros((len(t_s), *shape))
    for k in range(8):
        out += np.sin(2.0 * np.pi * np.multiply.outer(t_s, hz[k]) + phase[k])
    return out / 2.0


def _steps(
    rng: np.random.Generator, t_s: Floats, hold_s: tuple[float, float], move_s: tuple[float, float], shape: tuple[int, ...]
):
    """Random targets joined by minimum-jerk moves: signals (T, *shape), and where they stand still (T,)."""
    out, still = np.zeros((len(t_s), *shape)), np.ones(len(t_s), dtype=np.bool_)
    value, t0 = np.zeros(shape), UPRIGHT_S
    while t0 < t_s[-1]:
        move, hold = rng.uniform(*move_s), rng.uniform(*hold_s)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        target = rng.normal(0.0, UNEVEN, shape)
        target[..., 0] += np.cos(angle)
        target[..., 1] += np.sin(angle)
        target = target * rng.uniform(0.6, 1.0)
        s = np.clip((t_s - t0) / move, 0.0, 1.0)
        blend = s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
        inside = (t_s >= t0) & (t_s < t0 + move + hold)
        out[inside] = value + blend[inside].reshape(-1, *([1] * len(shape))) * (target - value)
        still[(t_s >= t0) & (t_s < t0 + move)] = False
        value, t0 = target, t0 + move + hold
    return out, still


def make_motion(kind: str, tilt_deg: float, modules: int, duration_s: float, rate_hz: float, seed: int) -> Motion:
    """A motion of `kind` static, slow or abrupt whose tip tilt has its 95th percentile at `tilt_deg` over the evaluated steps.

    static: four poses, moved to in 2 s, held 4-6 s; only the holds count. slow: bands of 0.03-0.15 Hz. abrupt: a new pose every
    0.8-1.6 s, reached in 0.25-0.45 s. Modules bend unevenly (35 %) and twist by 3 degrees RMS of their own.
    """
    rng = np.random.default_rng([seed, {"static": 1, "slow": 2, "abrupt": 3}[kind], round(tilt_deg)])
    t_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    counted = t_s >= SETTLE_S
    if kind == "slow":
        common = _wander(rng, t_s, 0.03, 0.15, (1, 2))
        bend = common + UNEVEN * _wander(rng, t_s, 0.03, 0.15, (modules, 2))
        twist = _wander(rng, t_s, 0.03, 0.15, (modules,))
    else:
        hold, move = ((4.0, 6.0), (1.5, 2.5)) if kind == "static" else ((0.5, 1.2), (0.25, 0.45))
        signal, still = _steps(rng, t_s, hold, move, (modules, 3))
        bend, twist = signal[..., :2], signal[..., 2] / UNEVEN
        if kind == "static":
            counted = counted & still
    start = np.clip((t_s - UPRIGHT_S) / 2.0, 0.0, 1.0)
    envelope = (start * start * (3.0 - 2.0 * start))[:, None]
    if kind == "abrupt":
        envelope = np.ones_like(envelope)  # the steps start from the upright pose by themselves
    sag = rng.normal(0.0, SAG_RAD / np.sqrt(2.0 * modules), (modules, 2))
    shape = np.zeros((len(t_s), modules, 3))
    shape[..., 2] = TWIST_RAD * twist * envelope

    def scaled(size: float) -> Floats:
        out = shape.copy()
        out[..., :2] = sag + size * bend * envelope[..., None]
        return out

    target, size = np.radians(tilt_deg), np.radians(tilt_deg) / modules
    for _ in range(8):
        got = float(np.percentile(tip_tilt(scaled(size)[counted]), 95.0))
        if abs(got - target) < np.radians(0.2):
            break
        size *= target / got
    return Motion(t_s=t_s, bends=scaled(size), evaluated=counted)
