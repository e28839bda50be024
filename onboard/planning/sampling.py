"""One idea: random control sequences. A few knots span a curve within bounds; a sampler draws knots; samplers mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from onboard.errors import NotANumberError
from onboard.messages import Floats, frozen

Interpolation = Literal["hold", "linear", "cubic"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Box of allowed controls: low, high (nu,). Raises ValueError when empty, NotANumberError when not a number."""

    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", frozen(self.low))
        object.__setattr__(self, "high", frozen(self.high))
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise NotANumberError(f"control bounds {self.low}, {self.high} must be finite")
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not np.all(self.low <= self.high):
            raise ValueError(f"control bounds need low <= high of one shape (nu,), got {self.low} and {self.high}")

    @property
    def controls(self) -> int:
        """Number of controls nu."""
        return int(self.low.size)

    @property
    def middle(self) -> Floats:
        """Centre of the box (nu,)."""
        centre: Floats = 0.5 * (self.low + self.high)
        return centre

    @property
    def half(self) -> Floats:
        """Half widths of the box (nu,)."""
        width: Floats = 0.5 * (self.high - self.low)
        return width

    def clip(self, controls: Floats) -> Floats:
        """The nearest controls (..., nu) inside the box."""
        inside: Floats = np.clip(controls, self.low, self.high)
        return inside


class Knots:
    """Time base of a plan: `count` knots over `steps` control steps, and how the curve runs between them.

    "hold" keeps each knot for its block, "linear" joins them, "cubic" is a Catmull-Rom curve (it may overshoot: clip it).
    Knot k stands at step k * steps / count for "hold", and k * (steps - 1) / (count - 1) otherwise. `basis` (steps, count).
    """

    def __init__(self, steps: int, count: int, interpolation: Interpolation = "hold") -> None:
        if steps < 1:
            raise ValueError(f"a horizon has at least one step, got {steps}")
        if not 1 <= count <= steps:
            raise ValueError(f"{count} knots do not fit a horizon of {steps} steps")
        self.steps, self.count, self.interpolation = steps, count, interpolation
        self.basis = frozen(self._rows(np.arange(steps, dtype=float)))
        spacing = steps / count if interpolation == "hold" else (steps - 1) / max(count - 1, 1)
        self.times = frozen(np.arange(count) * spacing)

    def _rows(self, at_step: Floats) -> Floats:
        """Weights of the knots (n, count) at fractional steps (n,) within the horizon."""
        rows = np.zeros((len(at_step), self.count))
        index = np.arange(len(at_step))
        if self.interpolation == "hold":
            # the small offset keeps a step that falls on a block's first instant in that block
            block = np.floor(at_step * self.count / self.steps + 1e-9).astype(int)
            rows[index, np.clip(block, 0, self.count - 1)] = 1.0
            return rows
        if self.count == 1:
            rows[:, 0] = 1.0
            return rows
        position = np.clip(at_step * (self.count - 1) / max(self.steps - 1, 1), 0.0, self.count - 1)
        left = np.minimum(np.floor(position).astype(int), self.count - 2)
        f = position - left
        if self.interpolation == "linear":
            weights = {0: 1.0 - f, 1: f}
        else:
            weights = {
                -1: 0.5 * (-(f**3) + 2 * f**2 - f),
                0: 0.5 * (3 * f**3 - 5 * f**2 + 2),
                1: 0.5 * (-3 * f**3 + 4 * f**2 + f),
                2: 0.5 * (f**3 - f**2),
            }
        for offset, weight in weights.items():
            np.add.at(rows, (index, np.clip(left + offset, 0, self.count - 1)), weight)
        return rows

    def expand(self, knots: Floats) -> Floats:
        """Controls (..., steps, nu) of knots (..., count, nu)."""
        controls: Floats = np.matmul(self.basis, knots)
        return controls

    def shift(self, knots: Floats, by_steps: float, tail: Floats) -> Floats:
        """Knots (count, nu) of the same curve seen `by_steps` later; beyond its end stands `tail` (nu,)."""
        if by_steps <= 0.0:
            return knots.copy()
        later = self.times + by_steps
        inside = later < self.steps - 1e-9
        moved = np.tile(np.asarray(tail, dtype=float), (self.count, 1))
        moved[inside] = self._rows(later[inside]) @ knots
        return moved


class Sampler(Protocol):
    """Draws knots."""

    def draw(self, rng: np.random.Generator, count: int, mean: Floats, bounds: Bounds) -> Floats:
        """Knots (count, K, nu) for a present plan `mean` (K, nu); the caller clips them to the bounds."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Independent of the present plan, anywhere in the box."""

    def draw(self, rng: np.random.Generator, count: int, mean: Floats, bounds: Bounds) -> Floats:
        return rng.uniform(bounds.low, bounds.high, (count, *mean.shape))


@dataclass(frozen=True, slots=True)
class Bang:
    """Independent of the present plan, only the lower end, the middle and the upper end of each control."""

    def draw(self, rng: np.random.Generator, count: int, mean: Floats, bounds: Bounds) -> Floats:
        level = rng.integers(-1, 2, (count, *mean.shape))
        drawn: Floats = bounds.middle + bounds.half * level
        return drawn


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The present plan plus white noise; `sigma` in half widths of the box."""

    sigma: float

    def draw(self, rng: np.random.Generator, count: int, mean: Floats, bounds: Bounds) -> Floats:
        drawn: Floats = mean + self.sigma * bounds.half * rng.standard_normal((count, *mean.shape))
        return drawn


@dataclass(frozen=True, slots=True)
class Coloured:
    """First-order autoregressive noise along the knots: correlation `rho` from knot to knot, `sigma` in half widths of the box.

    Around the present plan, or, with around_plan = False, around the middle of the box: with sigma above 1 most knots then
    saturate, which samples long full-power moves.
    """

    sigma: float
    rho: float
    around_plan: bool = True

    def __post_init__(self) -> None:
        if not (0.0 <= self.rho < 1.0 and self.sigma >= 0.0):
            raise ValueError(f"coloured noise needs 0 <= rho < 1 and sigma >= 0, got rho {self.rho}, sigma {self.sigma}")

    def draw(self, rng: np.random.Generator, count: int, mean: Floats, bounds: Bounds) -> Floats:
        noise = rng.standard_normal((count, *mean.shape))
        fresh = float(np.sqrt(1.0 - self.rho**2))
        for k in range(1, mean.shape[0]):
            noise[:, k] = self.rho * noise[:, k - 1] + fresh * noise[:, k]
        centre = mean if self.around_plan else bounds.middle
        drawn: Floats = centre + self.sigma * bounds.half * noise
        return drawn


@dataclass(frozen=True, slots=True)
class Mixture:
    """Shares of several samplers: parts = ((share, sampler), ...); the last part takes what rounding leaves."""

    parts: Sequence[tuple[float, Sampler]]

    def __post_init__(self) -> None:
        shares = [share for share, _ in self.parts]
        if not shares or min(shares) <= 0.0 or abs(sum(shares) - 1.0) > 1e-9:
            raise ValueError(f"shares of a mixture are positive and add up to 1, got {shares}")

    def draw(self, rng: np.random.Generator, count: int, mean: Floats, bounds: Bounds) -> Floats:
        edges = np.round(np.cumsum([0.0, *(share for share, _ in self.parts)]) * count).astype(int)
        drawn = [
            sampler.draw(rng, int(end - begin), mean, bounds)
            for (_, sampler), begin, end in zip(self.parts, edges[:-1], edges[1:], strict=True)
            if end > begin
        ]
        return np.concatenate(drawn)
