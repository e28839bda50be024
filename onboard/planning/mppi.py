"""One idea: model predictive path integral control. Draw plans, roll them out, weigh them, keep one; plan and act are two calls.

It knows bounds, a dynamics and a cost, nothing about a robot. Weights as in Williams et al. 2016 and section IV-A of the
three-bar paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from onboard.errors import NotANumberError, PlanningError
from onboard.messages import Floats, Plan, frozen
from onboard.planning.sampling import Bounds, Gaussian, Interpolation, Knots, Sampler
from onboard.ports import Dynamics

Choice = Literal["weighted", "best", "elite"]
NO_WORLD: Floats = frozen(np.zeros((0, 1)))


class Cost(Protocol):
    """What a rollout is worth; less is better."""

    def __call__(self, states: Floats, controls: Floats) -> Floats:
        """Costs (M,) of states (M, T', nx) reached under controls (M, T, nu)."""


@dataclass(frozen=True, slots=True)
class MppiConfig:
    """How plans are drawn and chosen.

    horizon_steps steps of step_s [s]; knots a plan; samples drawn in each of `iterations` rounds. choice: "weighted"
    softmax mean with `temperature` (in units of cost), "best" sample, or mean of the `elite` best. smoothing: width in
    knots of a moving average over the update, 1 for none. tail: what follows the end of a plan (nu,), None for the
    middle of the box. expire_s: a plan may be played this long after its start, None for the whole horizon.
    """

    horizon_steps: int
    step_s: float
    knots: int
    samples: int
    iterations: int = 1
    choice: Choice = "weighted"
    temperature: float = 0.1
    elite: int = 8
    interpolation: Interpolation = "hold"
    sampler: Sampler = field(default_factory=lambda: Gaussian(0.5))
    warm_start: bool = True
    smoothing: int = 1
    tail: Floats | None = None
    expire_s: float | None = None

    def __post_init__(self) -> None:
        rules = (
            (self.horizon_steps >= 1, f"horizon_steps is {self.horizon_steps}, must be at least 1"),
            (self.step_s > 0.0, f"step_s is {self.step_s}, must be above 0"),
            (1 <= self.knots <= self.horizon_steps, f"knots is {self.knots}, must be 1..{self.horizon_steps}"),
            (self.samples >= 1, f"samples is {self.samples}, must be at least 1"),
            (self.iterations >= 1, f"iterations is {self.iterations}, must be at least 1"),
            (np.isfinite(self.temperature) and self.temperature > 0.0, f"temperature is {self.temperature}, must be above 0"),
            (1 <= self.elite <= self.samples or self.choice != "elite", f"elite is {self.elite}, must be 1..{self.samples}"),
            (self.smoothing >= 1 and self.smoothing % 2 == 1, f"smoothing is {self.smoothing}, must be odd"),
            (self.expire_s is None or self.expire_s > 0.0, f"expire_s is {self.expire_s}, must be above 0"),
        )
        for holds, problem in rules:
            if not holds:
                raise PlanningError(problem)


def softmax_weights(costs: Floats, temperature: float) -> Floats:
    """Weights (M,) that sum to 1: exp(-(cost - least finite cost) / temperature); a non-finite cost weighs nothing.

    Raises PlanningError when no cost is finite.
    """
    finite = np.isfinite(costs)
    if not finite.any():
        raise PlanningError(f"all {len(costs)} sampled plans have a cost that is not finite")
    least = costs[finite].min()
    with np.errstate(over="ignore"):  # a spread beyond the range of floats weighs exactly nothing
        weights = np.where(finite, np.exp(-(np.where(finite, costs, least) - least) / temperature), 0.0)
    total: Floats = weights / weights.sum()
    return total


def smooth(update: Floats, width: int) -> Floats:
    """Moving average of odd `width` along the knots of (K, nu), the ends repeated."""
    if width == 1:
        return update
    padded = np.pad(update, ((width // 2, width // 2), (0, 0)), mode="edge")
    kernel = np.full(width, 1.0 / width)
    return np.stack([np.convolve(padded[:, c], kernel, mode="valid") for c in range(update.shape[1])], axis=1)


class Mppi:
    """The controller. Same seed, same calls, same plans."""

    def __init__(self, config: MppiConfig, bounds: Bounds, dynamics: Dynamics, cost: Cost, seed: int = 0) -> None:
        self.config, self.bounds, self.dynamics, self.cost = config, bounds, dynamics, cost
        self.rng = np.random.default_rng(seed)
        self.basis = Knots(config.horizon_steps, config.knots, config.interpolation)
        self.mean = self._tails()
        self.current: Plan | None = None
        self.refused_samples = 0

    def _tail(self) -> Floats:
        tail = self.bounds.middle if self.config.tail is None else np.asarray(self.config.tail, dtype=float)
        return self.bounds.clip(tail)

    def _tails(self) -> Floats:
        return np.tile(self._tail(), (self.config.knots, 1))

    def set_bounds(self, bounds: Bounds) -> None:
        """New limits, valid from the next tick: also for the plan that is being played."""
        if bounds.controls != self.bounds.controls:
            raise PlanningError(f"limits for {bounds.controls} controls, the plan has {self.bounds.controls}")
        self.bounds = bounds
        self.mean = bounds.clip(self.mean)

    def set_config(self, config: MppiConfig) -> None:
        """Another horizon, sampler or choice while running. The present plan carries over as far as the new horizon reaches."""
        old = self.basis.expand(self.mean)
        basis = Knots(config.horizon_steps, config.knots, config.interpolation)
        self.config, self.basis = config, basis
        at = np.minimum(np.floor(basis.times + 1e-9).astype(int), len(old) - 1)
        inside = basis.times < len(old)
        self.mean = self.bounds.clip(np.where(inside[:, None], old[at], self._tail()))

    def reset(self, knots: Floats | None = None) -> None:
        """Forget the present plan (a new goal), or start from given knots (K, nu)."""
        if knots is not None and not (np.shape(knots) == self.mean.shape and np.isfinite(knots).all()):
            raise PlanningError(f"knots must be finite and of shape {self.mean.shape}, got {np.shape(knots)}")
        self.mean = self._tails() if knots is None else self.bounds.clip(np.asarray(knots, dtype=float))
        self.current = None

    def plan(self, state: Floats, now_s: float, world: Floats = NO_WORLD, start_s: float | None = None) -> Plan:
        """Draw, roll out, choose; the plan starts at `start_s` (default: now).

        state (nx,) is where the robot will be at start_s. Raises NotANumberError for a non-finite state, PlanningError when
        no sample has a finite cost; the plan before it then stays as it is.
        """
        if not np.isfinite(state).all():
            raise NotANumberError("the state to plan from is not finite")
        begin_s = now_s if start_s is None else start_s
        mean = self._warm_mean(begin_s)
        best_cost, best = np.inf, mean
        for _ in range(self.config.iterations):
            knots = self.bounds.clip(self.config.sampler.draw(self.rng, self.config.samples, mean, self.bounds))
            knots[0] = mean  # the plan at hand competes too
            controls = self.bounds.clip(self.basis.expand(knots))
            costs = np.asarray(self.cost(self.dynamics.rollout(state, controls, world), controls), dtype=float)
            if costs.shape != (self.config.samples,):
                raise PlanningError(f"the cost gave shape {costs.shape} for {self.config.samples} samples")
            mean = self._choose(knots, costs, mean)
            first = int(np.argmin(np.where(np.isfinite(costs), costs, np.inf)))
            if costs[first] < best_cost:
                best_cost, best = float(costs[first]), knots[first]
        if self.config.choice == "best":
            mean = best
        self.mean = self.bounds.clip(mean)
        value = self.bounds.clip(self.basis.expand(self.mean))
        span_s = self.config.horizon_steps * self.config.step_s
        expires_s = begin_s + min(self.config.expire_s or span_s, span_s)
        self.current = Plan(begin_s, self.config.step_s, frozen(value), expires_s, now_s, best_cost)
        return self.current

    def act(self, t_s: float) -> Floats | None:
        """The control (nu,) that holds at `t_s`, inside the limits of now; None when no plan covers `t_s`."""
        row = None if self.current is None else self.current.sample(t_s)
        return None if row is None else self.bounds.clip(row)

    def _warm_mean(self, begin_s: float) -> Floats:
        if not self.config.warm_start:
            return self._tails()
        if self.current is None:
            return self.mean
        passed = (begin_s - self.current.start_s) / self.config.step_s
        return self.bounds.clip(self.basis.shift(self.mean, passed, self._tail()))

    def _choose(self, knots: Floats, costs: Floats, mean: Floats) -> Floats:
        """The next mean (K, nu) from samples (M, K, nu) and costs (M,)."""
        finite = np.isfinite(costs)
        self.refused_samples += int((~finite).sum())
        weights = softmax_weights(costs, self.config.temperature)
        if np.ptp(costs[finite]) == 0.0:
            return mean  # nothing was learned: the average of the noise is no reason to move
        if self.config.choice == "best":
            chosen_knots: Floats = knots[int(np.argmax(weights))]
            return chosen_knots
        if self.config.choice == "elite":
            order = np.argsort(np.where(finite, costs, np.inf), kind="stable")
            chosen = order[: min(self.config.elite, int(finite.sum()))]
            target = knots[chosen].mean(axis=0)
        else:
            target = np.tensordot(weights, knots, axes=1)
        return self.bounds.clip(mean + smooth(target - mean, self.config.smoothing))
