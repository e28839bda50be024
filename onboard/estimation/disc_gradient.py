"""The paper's pose estimator: one gradient step for every layer per tick (its section "sequential layered optimisation")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.estimation.compiled import compiled
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.layer import loss_and_gradient, place
from onboard.estimation.layered import Layered
from onboard.messages import Bools, Floats

if TYPE_CHECKING:
    from onboard.robot import RobotSpec


class DiscGradientConfig(Section, frozen=True):
    """[estimator] type "disc_gradient": the paper's. Its gains are not public; these come from a sweep (docs/estimation.md)."""

    position_gain: Annotated[float, Meta(gt=0.0, le=1e3, description="step by q [m] per unit of gradient")] = 0.17
    rotation_gain: Annotated[float, Meta(gt=0.0, le=1e3, description="step by omega [rad] per unit of gradient")] = 3.8
    weight_length: Annotated[float, Meta(gt=0.0, le=1e6, description="the paper's lambda_l [1/m^2]")] = 1.0
    weight_cosine: Annotated[float, Meta(ge=0.0, le=1e6, description="the paper's lambda_z")] = 0.12
    steps: Annotated[int, Meta(ge=1, le=100, description="gradient steps a tick; the paper takes one")] = 1

    def build(self, spec: RobotSpec) -> Layered:
        """The estimator of this robot."""
        return self.on(DiscGeometry.of(spec.structure), spec.safety.estimate_max_sigma_m)

    def on(self, geometry: DiscGeometry, max_sigma_m: float) -> Layered:
        """The estimator on a geometry."""

        def kernel(pose: Floats, position: Floats, rotation: Floats, cosine: Floats, use: Bools) -> None:
            gradient_tick(
                pose, position, rotation, geometry.lower_m, geometry.upper_m, geometry.strut_length_m, cosine, use,
                self.weight_length, self.weight_cosine, self.position_gain, self.rotation_gain, self.steps,
            )  # fmt: skip

        return Layered(geometry, max_sigma_m, kernel)


@compiled
def gradient_tick(
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
    position_gain: float,
    rotation_gain: float,
    steps: int,
) -> None:
    """Move every layer's relative pose (M, 6) down its gradient and chain the world poses of discs 1 .. M, all in place."""
    modules, n = length_m.shape
    gradient = np.empty(6)
    for m in range(modules):
        for _ in range(steps):
            loss_and_gradient(
                position[m], rotation[m], pose[m], lower_m[m], upper_m[m], length_m[m], cosine[m * n : m * n + n],
                use[m * n : m * n + n], weight_length, weight_cosine, gradient,
            )  # fmt: skip
            for x in range(3):
                pose[m, x] -= position_gain * gradient[x]
                pose[m, 3 + x] -= rotation_gain * gradient[3 + x]
        place(position[m], rotation[m], pose[m], position[m + 1], rotation[m + 1])
