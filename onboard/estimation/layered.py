"""What the two layer-by-layer estimators share: relative poses as state, gravity only, a covariance of the joint problem."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from onboard.estimation.banded import factor, inverse
from onboard.estimation.equations import HUBER, INCLINATION, W_BEND, W_LENGTH, W_TWIST, W_WARP, assemble
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.report import Reporter, usable
from onboard.messages import Bools, EstimateFlag, Floats, PoseEstimate, StrutObservations

Kernel = Callable[[Floats, Floats, Floats, Floats, Bools], None]


class Layered:
    """Runs `kernel(pose, position, rotation, cosine, use)` once per tick on the relative poses (M, 6) and reports.

    The covariance is that of the joint problem at the estimated poses with 2 mm on lengths and the sensors' own sigmas, plus weak
    priors (twist 10, bend 40 degrees) so that it exists for drop-outs too.
    """

    LENGTH_SIGMA_M = 0.002
    TWIST_SIGMA_RAD, BEND_SIGMA_RAD = math.radians(10.0), math.radians(40.0)

    def __init__(self, geometry: DiscGeometry, max_sigma_m: float, kernel: Kernel) -> None:
        self.geometry, self._kernel = geometry, kernel
        self._reporter = Reporter(geometry, max_sigma_m)
        modules, n = geometry.strut_length_m.shape
        size = 6 * modules
        self._weight = np.zeros(5)
        self._weight[W_LENGTH] = self.LENGTH_SIGMA_M**-2
        self._weight[W_TWIST], self._weight[W_BEND] = self.TWIST_SIGMA_RAD**-2, self.BEND_SIGMA_RAD**-2
        self._weight[W_WARP], self._weight[HUBER] = 1e12, 1e9
        self._h, self._g = np.zeros((size, size)), np.zeros(size)
        self._row, self._residual = np.zeros((modules, 14)), np.zeros((modules * n, 2))
        self._zero = np.zeros(modules)
        self._anchor, self._lower = np.zeros((modules, 3)), np.zeros((size, size))
        self.reset()

    def reset(self) -> None:
        """Back to the rest pose, as at start-up."""
        modules = self.geometry.modules
        self._pose = np.zeros((modules, 6))
        self._pose[:, :3] = np.diff(self.geometry.rest_position_m, axis=0)
        self._position = self.geometry.rest_position_m.copy()
        self._rotation = np.tile(np.eye(3), (modules + 1, 1, 1))
        self._reporter.reset()

    def update(self, observations: StrutObservations) -> PoseEstimate:
        """The estimate at `observations.t_s`; raises EstimationError only when no strut was ever seen."""
        use = usable(observations)
        self._reporter.require(observations, use)
        cosine = np.ascontiguousarray(observations.direction[:, 2])
        state = (self._pose, self._position, self._rotation)
        before = [part.copy() for part in state]
        self._kernel(self._pose, self._position, self._rotation, cosine, use)
        if not all(np.isfinite(part).all() for part in state):
            for part, old in zip(state, before, strict=True):
                part[:] = old
        covariance = self._covariance(observations, use)
        return self._reporter.build(
            observations, use, self._position, self._rotation, covariance, observations.flags, EstimateFlag.NONE
        )

    def _covariance(self, observations: StrutObservations, use: Bools) -> Floats:
        geometry = self.geometry
        weight = observations.sigma_inclination_rad**-2.0
        assemble(
            self._position, self._rotation, self._zero, geometry.lower_m, geometry.upper_m, geometry.strut_length_m,
            geometry.saddle, observations.direction, weight, weight, use.astype(np.float64), INCLINATION,
            self._weight, self._anchor, self._h, self._g, self._row, self._residual,
        )  # fmt: skip
        if not factor(self._h, self._lower):
            return np.full_like(self._h, np.inf)
        return inverse(self._lower)
