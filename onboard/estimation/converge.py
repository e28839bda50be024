"""Levenberg-Marquardt on all discs at once: for the first estimate and for recovery, not for every tick."""

from __future__ import annotations

import numpy as np

from onboard.estimation.banded import factor, solve
from onboard.estimation.equations import assemble
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.map_kernel import move
from onboard.messages import Floats


class Problem:
    """One tick's readings and priors, as `assemble` takes them (see there for shapes and units)."""

    def __init__(
        self,
        geometry: DiscGeometry,
        direction: Floats,
        weights: Floats,
        trust: Floats,
        mode: int,
        weight: Floats,
        anchor: Floats,
    ) -> None:
        self.geometry, self.direction, self.weights, self.trust = geometry, direction, weights, trust
        self.mode, self.weight, self.anchor = mode, weight, anchor
        size = 6 * geometry.modules
        self.h, self.g = np.zeros((size, size)), np.zeros(size)
        self.warp_row, self.residual = np.zeros((geometry.modules, 14)), np.zeros((len(direction), 2))

    def cost(self, position: Floats, rotation: Floats, warp: Floats) -> float:
        """Cost at the poses; h, g, warp_row and residual are those of this call."""
        geometry = self.geometry
        return assemble(
            position, rotation, warp, geometry.lower_m, geometry.upper_m, geometry.strut_length_m, geometry.saddle,
            self.direction, self.weights[0], self.weights[1], self.trust, self.mode, self.weight, self.anchor,
            self.h, self.g, self.warp_row, self.residual,
        )  # fmt: skip


def converge(problem: Problem, position: Floats, rotation: Floats, warp: Floats, iterations: int) -> tuple[float, int]:
    """Levenberg-Marquardt on the poses in place; returns cost and iterations used.

    The problem's h (undamped) and residual are those of the last accepted poses when it returns.
    """
    cost = problem.cost(position, rotation, warp)
    lower, damping, used = np.zeros_like(problem.h), 1e-4, 0
    for _ in range(iterations):
        used += 1
        damped = problem.h + np.diag(damping * np.diag(problem.h))
        if not factor(damped, lower):
            damping *= 10.0
            continue
        step = -problem.g
        solve(lower, step)
        trial = (position.copy(), rotation.copy(), warp.copy())
        move(*trial, step, problem.warp_row, 1.0)
        new = problem.cost(*trial)
        if new < cost:
            gain, cost = cost - new, new
            position[:], rotation[:], warp[:] = trial
            damping = max(damping * 0.1, 1e-9)
            if gain < 1e-12 * (1e-6 + cost):
                break
        else:
            problem.cost(position, rotation, warp)
            damping *= 10.0
            if damping > 1e8:
                break
    return cost, used
