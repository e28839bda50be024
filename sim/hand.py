"""A virtual hand: takes the arm's tip to a wanted tilt with limited forces, holds it there, pushes it about, lets go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onboard.errors import UsageError
from onboard.messages import Floats
from sim.tower.truth import TowerTruth


class Pushable(Protocol):
    """What a hand needs from a plant."""

    @property
    def time_s(self) -> float:
        """Simulated time [s]."""

    def push(self, force_n: npt.ArrayLike, loop: int = -1) -> None:
        """Hold a force (3,) [N] on a loop."""


@dataclass(frozen=True)
class Grip:
    """How a hand holds: by a soft arm whose far end it moves, as a person does, slowly and without jerks.

    max_force_n: strength. stiffness_n_per_m, damping_n_s_per_m: of the arm. speed_m_s: how fast it moves at most; gain_1_s:
    how fast it goes for each metre (or radian times the arm's length) that is missing.
    """

    max_force_n: float = 60.0
    stiffness_n_per_m: float = 150.0
    damping_n_s_per_m: float = 10.0
    speed_m_s: float = 0.35
    gain_1_s: float = 1.5


class Hand:
    """Leads the tip's axis to a wanted tilt by level forces; call `update` every few milliseconds.

    The force comes from the tip's own place and speed, so that a hand can only take energy out; where its far end goes to
    follows from the tilt that is missing.
    """

    def __init__(self, length_m: float, grip: Grip | None = None) -> None:
        if not (np.isfinite(length_m) and length_m > 0.0):
            raise UsageError(f"a hand needs the arm's length, got {length_m}")
        self.grip = grip or Grip()
        self._length_m = length_m
        self.let_go()

    @property
    def force_n(self) -> Floats:
        """The force it holds (3,) [N]."""
        return self._force.copy()

    @property
    def holding(self) -> bool:
        """Whether it leads the tip."""
        return self._goal is not None

    def lead_to(self, tilt_rad: float, azimuth_rad: float) -> None:
        """Lead the tip's axis to `tilt_rad` from the vertical towards `azimuth_rad`."""
        if not (np.isfinite(tilt_rad) and np.isfinite(azimuth_rad) and 0.0 <= tilt_rad < 0.5 * np.pi):
            raise UsageError(f"a hand cannot lead to a tilt of {tilt_rad} rad towards {azimuth_rad} rad")
        self._goal = tilt_rad * np.array([np.cos(azimuth_rad), np.sin(azimuth_rad)])

    def let_go(self) -> None:
        """Hold no more; the next `update` takes the force away."""
        self._goal: Floats | None = None
        self._end: Floats | None = None
        self._last: tuple[float, Floats] | None = None
        self._force = np.zeros(3)

    def error_rad(self, truth: TowerTruth) -> float:
        """How far the tip's axis is from where it shall go [rad]; zero without a goal."""
        return 0.0 if self._goal is None else float(np.linalg.norm(self._goal - tilt_vector(truth)))

    def update(self, plant: Pushable, truth: TowerTruth) -> None:
        """Feel where the tip is and put the force on the plant."""
        if self._goal is None:
            plant.push(self._force)
            return
        tip, grip = truth.tip_m[:2], self.grip
        if self._end is None or self._last is None:
            self._end, self._last = tip.copy(), (truth.t_s, tip)
        dt = max(truth.t_s - self._last[0], 0.0)
        speed = (tip - self._last[1]) / dt if dt > 0.0 else np.zeros(2)
        self._last = (truth.t_s, tip)
        go = grip.gain_1_s * self._length_m * (self._goal - tilt_vector(truth))
        self._end = self._end + dt * _shorten(go, grip.speed_m_s)
        # Never further ahead than its strength can use, or it would have to come back before it could yield.
        self._end = tip + _shorten(self._end - tip, grip.max_force_n / grip.stiffness_n_per_m)
        pull = grip.stiffness_n_per_m * (self._end - tip) - grip.damping_n_s_per_m * speed
        self._force = np.array([*_shorten(pull, grip.max_force_n), 0.0])
        plant.push(self._force)


class Pusher:
    """Pushes that come and go at random: to `peak_n`, in any level direction, on any of the upper loops."""

    def __init__(self, seed: int, loops: int, peak_n: float = 8.0, hold_s: float = 0.8, pause_s: float = 0.7) -> None:
        self._rng = np.random.default_rng([seed, 0x9E37])
        self._loops, self._peak_n, self._hold_s, self._pause_s = loops, peak_n, hold_s, pause_s
        self._start_s = 0.0
        self._end_s = -1.0
        self._loop, self._peak = loops, np.zeros(3)
        self._pushing = False

    def update(self, plant: Pushable) -> None:
        """Put on the plant whatever push is on at its time: half a sine over `hold_s`."""
        t = plant.time_s
        if t >= self._end_s:
            if self._pushing:
                plant.push(np.zeros(3), self._loop)
            azimuth = self._rng.uniform(-np.pi, np.pi)
            size = self._peak_n * self._rng.uniform(0.5, 1.0)
            self._loop = int(self._rng.integers((self._loops + 1) // 2, self._loops + 1))
            self._peak = size * np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
            self._start_s = t + self._pause_s * self._rng.uniform(0.5, 1.5)
            self._end_s = self._start_s + self._hold_s * self._rng.uniform(0.5, 1.5)
            self._pushing = False
        if t >= self._start_s:
            part = (t - self._start_s) / (self._end_s - self._start_s)
            plant.push(np.sin(np.pi * part) * self._peak, self._loop)
            self._pushing = True


def tilt_vector(truth: TowerTruth) -> Floats:
    """The tip's tilt (2,) [rad]: angle from the vertical along the direction that its axis leans to."""
    axis = truth.rotation[-1, :, 2]
    level = float(np.hypot(axis[0], axis[1]))
    angle = float(np.arctan2(level, axis[2]))
    return np.zeros(2) if level < 1e-12 else angle / level * axis[:2]


def _shorten(vector: Floats, limit: float) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector if length <= limit else vector * (limit / length)
