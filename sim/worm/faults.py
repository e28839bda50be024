"""What is imperfect about the worm's plant: numbers of one trial, drawn from its seed, and faults put in by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Imperfections:
    """One worm on one day.

    lag_s, delay_s: first-order lag and dead time from a chamber's command to its pressure. gain: true over commanded
    pressure, by chamber, shape (n, 4). hysteresis: width of the play between pressure and deformation [units], by chamber.
    seal_pct: chance that a pad pressed flat on a surface seals at all. leak_per_s: rate at which a holding seal begins to
    leak; total_pct of leaks let go, the others only weaken. pose_m, pose_deg, pose_delay_s, pose_hz: of the pose source.
    slip_m: how far a pad's place shifts when it takes hold. force_n, moment_n_m: what tears a fully evacuated pad off.
    """

    lag_s: float = 0.2
    delay_s: float = 0.04
    gain: np.ndarray = field(default_factory=lambda: np.ones((2, 4)))
    hysteresis: float = 4.0
    seal_pct: float = 92.0
    leak_per_s: float = 1.0 / 600.0
    total_pct: float = 20.0
    pose_m: float = 0.0005
    pose_deg: float = 0.3
    pose_delay_s: float = 0.05
    pose_hz: float = 30.0
    slip_m: float = 0.001
    force_n: float = 30.0
    moment_n_m: float = 0.3


def draw(rng: np.random.Generator, segments: int) -> Imperfections:
    """The imperfections of a seeded trial: lags, gains and plays differ by a third, a tenth and a half."""
    return Imperfections(
        lag_s=0.2 * rng.uniform(0.7, 1.3),
        delay_s=0.04 * rng.uniform(0.5, 1.5),
        gain=rng.uniform(0.9, 1.1, (segments, 4)),
        hysteresis=rng.uniform(2.0, 6.0),
    )


@dataclass
class Faults:
    """Faults put in by hand, for tests and demonstrations; all may change during a run.

    dead_pads never seal. frozen: nothing arrives any more from the daemon. blind: no poses leave the pose source.
    shove_m: how far every pad shifts at once, used up when applied.
    """

    dead_pads: set[int] = field(default_factory=set)
    leaking: set[int] = field(default_factory=set)
    frozen: bool = False
    blind: bool = False
    shove_m: np.ndarray | None = None
