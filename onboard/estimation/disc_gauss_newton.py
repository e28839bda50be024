"""Gauss-Newton layer by layer on inclinations: each module converged in turn, damped, from the last tick's pose."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.estimation.banded import factor, solve
from onboard.estimation.compiled import compiled
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.layer import place, residuals
from onboard.estimation.layered import Layered
from onboard.messages import Bools, Floats

if TYPE_CHECKING:
    from onboard.robot import RobotSpec


class DiscGaussNewtonConfig(Section, frozen=True):
    """[estimator] type "disc_gauss_newton". Tuned by the same sweep as the paper's step (docs/estimation.md)."""

    length_sigma_m: Annotated[float, Meta(gt=0.0, le=0.1, description="weight of strut lengths")] = 0.0034
    cosine_sigma: Annotated[float, Meta(gt=0.0, le=1.0, description="weight of cosines of inclinations")] = 0.014
    step_position_m: Annotated[
        float, Meta(gt=0.0, le=10.0, description="how far a module's pose may move in a tick: the damping, one sigma")
    ] = 0.011
    step_rotation_deg: Annotated[float, Meta(gt=0.0, le=180.0, description="how far it may turn in a tick, one sigma")] = 1.0
    iterations: Annotated[int, Meta(ge=1, le=50, description="of each module a tick")] = 2

    def build(self, spec: RobotSpec) -> Layered:
        """The estimator of this robot."""
        return self.on(DiscGeometry.of(spec.structure), spec.safety.estimate_max_sigma_m)

    def on(self, geometry: DiscGeometry, max_sigma_m: float) -> Layered:
        """The estimator on a geometry."""
        turn = math.radians(self.step_rotation_deg)

        def kernel(pose: Floats, position: Floats, rotation: Floats, cosine: Floats, use: Bools) -> None:
            gauss_newton_tick(
                pose, position, rotation, geometry.lower_m, geometry.upper_m, geometry.strut_length_m, cosine, use,
                self.length_sigma_m**-2, self.cosine_sigma**-2, self.step_position_m**-2, turn**-2, self.iterations,
            )  # fmt: skip

        return Layered(geometry, max_sigma_m, kernel)


@compiled
def gauss_newton_tick(
    pose: Floats,
    position: Floats,
    rotation: Floats,
    lower_m: Floats,
    upper_m: Floats,
    length_m: Floats,
    cosine: Floats,
    use: Bools,
    weight_length: float,
    weight_cosine: float,
    damp_position: float,
    damp_rotation: float,
    iterations: int,
) -> None:
    """Converge every layer's relative pose (M, 6) and chain the world poses of discs 1 .. M, all in place.

    The damping pulls towards the last tick's pose, so it is a random-walk prior, not only a trust region.
    """
    modules, n = length_m.shape
    h, lower, d, start = np.empty((6, 6)), np.zeros((6, 6)), np.empty(6), np.empty(6)
    for m in range(modules):
        for x in range(6):
            start[x] = pose[m, x]
        for _ in range(iterations):
            r, jac = residuals(
                position[m], rotation[m], pose[m], lower_m[m], upper_m[m], length_m[m], cosine[m * n : m * n + n],
                use[m * n : m * n + n],
            )  # fmt: skip
            for x in range(6):
                damp = damp_position if x < 3 else damp_rotation
                d[x] = damp * (start[x] - pose[m, x])
                for y in range(6):
                    h[x, y] = damp if x == y else 0.0
            for i in range(2 * n):
                w = weight_length if i % 2 == 0 else weight_cosine
                for x in range(6):
                    d[x] -= w * r[i] * jac[i, x]
                    for y in range(6):
                        h[x, y] += w * jac[i, x] * jac[i, y]
            if not factor(h, lower):
                break
            solve(lower, d)
            for x in range(6):
                pose[m, x] += d[x]
        place(position[m], rotation[m], pose[m], position[m + 1], rotation[m + 1])
