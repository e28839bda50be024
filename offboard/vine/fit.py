"""Fitting a vine's physical parameters to tracked shapes: a growing horizon, several starts, confidence.

A full-horizon fit in contact ends in wrong minima, so the horizon grows (18, 36, 60, 90 frames, then all) and each stage
starts from the last. What the data cannot tell is reported with its uncertainty, not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from offboard.vine.confidence import uncertainties
from offboard.vine.problem import USUAL, Problem
from offboard.vine.tracks import Trial
from sim.vine import Robot, VineError

Array = NDArray[np.float64]
HORIZONS = (18, 36, 60, 90)
FLOWN_APART_MM2 = 1e6
CERTAIN = 0.1  # relative uncertainty above which a value counts as not identified


@dataclass(frozen=True)
class Fit:
    """A fitted robot. uncertainty: relative standard error; spread: relative spread over equally good starts."""

    robot: Robot
    values: dict[str, float]
    uncertainty: dict[str, float]
    spread: dict[str, float]
    identified: dict[str, bool]
    loss_mm2: float
    train_error_m: float
    validation_error_m: float
    starts: int
    evaluations: int

    def summary(self) -> dict[str, Any]:
        """As plain values for JSON; what is infinite or was not measured is null."""

        def plain(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "law": self.robot.law,
            **{
                name: {
                    "value": self.values[name],
                    "uncertainty": plain(self.uncertainty[name]),
                    "spread": self.spread[name],
                    "identified": self.identified[name],
                }
                for name in self.values
            },
            "loss_mm2": self.loss_mm2,
            "train_error_mm": 1e3 * self.train_error_m,
            "validation_error_mm": plain(1e3 * self.validation_error_m),
            "starts": self.starts,
            "evaluations": self.evaluations,
        }


def network_start(stiffness_nm: float, seed: int) -> tuple[float, ...]:
    """Weights of a nearly linear odd network with a given slope at zero [N m/rad]."""
    rng = np.random.default_rng(seed)
    inner = np.geomspace(0.5, 20.0, 10) * rng.uniform(0.8, 1.25, 10)
    return tuple(np.concatenate([inner, rng.normal(scale=0.1, size=10), stiffness_nm / 10 / inner]))


def split(trials: Sequence[Trial], share: float = 0.25) -> tuple[list[Trial], list[Trial]]:
    """Training and validation trials: the last quarter is held out, at least one when there are two or more."""
    held = max(1, round(share * len(trials))) if len(trials) > 1 else 0
    cut = len(trials) - held
    return list(trials[:cut]), list(trials[cut:])


def descend(
    problem: Problem, packed: Array, report: Callable[[float], None] | None = None, limit: int = 60
) -> tuple[Array, float]:
    """Minimises over growing horizons; returns the packed unknowns and the full-horizon loss [mm^2]."""
    longest = problem.frames(10**6)
    stages = [h for h in HORIZONS if h < longest] + [longest]
    value = math.inf
    bounds = problem.bounds(packed)
    for horizon in stages:
        last = horizon == longest

        def guarded(x: Array, horizon: int = horizon) -> tuple[float, Array]:
            try:
                loss, gradient = problem.loss(x, horizon)
            except VineError:  # a trial step may ask for a robot that flies apart; the line search turns back
                return FLOWN_APART_MM2, np.zeros_like(x)
            if report:
                report(loss)
            return loss, gradient

        found = minimize(
            guarded,
            packed,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": limit if last else limit // 3, "ftol": 1e-14, "gtol": 1e-9, "maxls": 30},
        )
        packed, value = found.x, float(found.fun)
    return packed, value


def fit(
    trials: Sequence[Trial],
    robot: Robot,
    growth_m_s: float,
    free: tuple[str, ...] | None = None,
    starts: int = 3,
    seed: int = 0,
    heading: bool = False,
    time: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> Fit:
    """Fits the law of `robot` to trials, from the robot's own values and `starts` - 1 others within a factor of two.

    Raises VineError when there is nothing to fit or the unknowns exclude each other.
    """
    if not trials or starts < 1:
        raise VineError("fit: no trials, or no starts")
    training, held = split(trials)
    free = USUAL[robot.law] if free is None else free
    if not free and robot.law != "network":
        raise VineError("fit: no unknowns")
    rng = np.random.default_rng(seed)
    tries: list[tuple[float, Array, Robot]] = []
    evaluations = 0
    for number in range(starts):
        begin = robot
        if robot.law == "network":
            begin = robot.changed(network=network_start(robot.stiffness_nm, seed + number))
        problem = Problem(begin, training, free, growth_m_s, fit_heading=heading, fit_time=time)
        factors = {name: 2.0 ** rng.uniform(-1, 1) for name in free} if number else {}
        low = problem.start()
        packed = problem.start(factors)
        packed = np.clip(packed, *np.array(problem.bounds(low)).T)

        def shown(loss: float, number: int = number) -> None:
            if progress:
                progress(f"start {number + 1} of {starts}", loss)

        packed, loss = descend(problem, packed, shown)
        tries.append((loss, packed, begin))
        evaluations += problem.evaluations
    tries.sort(key=lambda item: item[0])
    loss, packed, begin = tries[0]
    problem = Problem(begin, training, free, growth_m_s, fit_heading=heading, fit_time=time)
    alike = np.array([p for value, p, _ in tries if value <= 1.05 * loss + 1e-9])
    errors = uncertainties(problem, packed)
    count = len(free)
    spread = alike[:, :count].std(axis=0) if len(alike) > 1 else np.zeros(count)
    unknowns = problem.unpack(packed)
    validation = math.nan
    if held:
        growth, scale = unknowns.values.get("growth", growth_m_s), unknowns.values.get("scale")
        validation = held_out_error(problem.fitted_robot(unknowns), growth, held, scale=scale, heading=heading, time=time)
    return Fit(
        problem.fitted_robot(unknowns),
        unknowns.values,
        {name: float(errors[k]) for k, name in enumerate(free)},
        {name: float(spread[k]) for k, name in enumerate(free)},
        {name: bool(errors[k] < CERTAIN and spread[k] < CERTAIN) for k, name in enumerate(free)},
        loss,
        float(problem.errors(packed).mean()),
        validation,
        starts,
        evaluations + problem.evaluations,
    )


def held_out_error(
    robot: Robot,
    growth_m_s: float,
    held: Sequence[Trial],
    against: Sequence[Trial] | None = None,
    scale: float | None = None,
    heading: bool = False,
    time: bool = False,
) -> float:
    """Mean distance [m] of held-out trials' points from the robot's lines; only the trials' own lengths and offsets are fitted.

    against: measure at other trackings of the same growths instead, such as without noise.
    """
    known = () if scale is None else ("scale",)
    problem = Problem(robot, held, known, growth_m_s, fit_heading=heading, fit_time=time)
    theirs = problem.start(None if scale is None else {"scale": scale / math.exp(problem.start()[0])})
    for horizon in (18, 10**6):
        theirs = _nuisances_only(problem, theirs, horizon)
    if against is not None:
        problem = Problem(robot, against, known, growth_m_s, fit_heading=heading, fit_time=time)
    return float(problem.errors(theirs).mean())


def _nuisances_only(problem: Problem, packed: Array, horizon: int) -> Array:
    """Minimises over the trials' nuisances alone."""
    own = len(problem.trials) * (1 + problem.fit_heading + problem.fit_time)
    fixed = packed[:-own]

    def part(x: Array) -> tuple[float, Array]:
        loss, gradient = problem.loss(np.concatenate([fixed, x]), horizon)
        return loss, gradient[-own:]

    bounds = problem.bounds(packed)[-own:]
    found = minimize(part, packed[-own:], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 15})
    return np.concatenate([fixed, found.x])
