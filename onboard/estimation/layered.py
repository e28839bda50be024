"""What the two layer-by-layer estimators share: relative poses as state, gravity only, checks, recovery and a covariance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from onboard.estimation.banded import factor, inverse
from onboard.estimation.consistency import Consistency
from onboard.estimation.converge import Problem, converge
from onboard.estimation.drift import UNTRUSTED
from onboard.estimation.equations import HUBER, INCLINATION, W_BEND, W_LENGTH, W_TWIST, W_WARP, assemble
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.plausible import Plausible
from onboard.estimation.report import Reporter, usable
from onboard.estimation.so3 import log_so3, relative
from onboard.messages import Bools, EstimateFlag, Floats, PoseEstimate, SensorFlag, StrutObservations

Kernel = Callable[[Floats, Floats, Floats, Floats, Bools], None]


class Layered:
    """Runs `kernel(pose, position, rotation, cosine, use)` once per tick on the relative poses (M, 6) and reports.

    The kernels believe what they are given, so readings that cannot be are kept from them, and a pose that does not fit its
    readings is solved anew from the rest pose and from the last one that fitted. Struts left out are INCONSISTENT, as with
    the joint estimate. Limits lie beyond what both kernels lag behind at 70 degrees of abrupt motion, seed 1000 (rms 10
    sigmas, one strut 14 on average, lengths off by 12 %).

    The covariance is that of the joint problem at the estimated poses with 2 mm on lengths and the sensors' own sigmas, plus weak
    priors (twist 10, bend 40 degrees) so that it exists for drop-outs too.
    """

    LENGTH_SIGMA_M = 0.002
    TWIST_SIGMA_RAD, BEND_SIGMA_RAD = math.radians(10.0), math.radians(40.0)
    SOUND_SIGMAS, STRAINED_SIGMAS = 8.0, 15.0  # rms of the tower's residuals: worth remembering; not to be believed
    STRAINED_LENGTH = 0.2  # a strut that seems this share too long or too short: no such pose exists
    LEFT_OUT_SIGMAS, LEFT_OUT_AFTER_S = 20.0, 0.5
    PATIENCE, PAUSE = 5, 5  # strained ticks before a pose is solved anew, and more of them before it is tried again
    ITERATIONS = 30

    def __init__(self, geometry: DiscGeometry, max_sigma_m: float, kernel: Kernel) -> None:
        self.geometry, self._kernel = geometry, kernel
        self._reporter = Reporter(geometry, max_sigma_m)
        modules, n = geometry.strut_length_m.shape
        self._weight = np.zeros(5)
        self._weight[W_LENGTH] = self.LENGTH_SIGMA_M**-2
        self._weight[W_TWIST], self._weight[W_BEND] = self.TWIST_SIGMA_RAD**-2, self.BEND_SIGMA_RAD**-2
        self._weight[W_WARP], self._weight[HUBER] = 1e12, 1e9
        size = 6 * modules
        self._h, self._g = np.zeros((size, size)), np.zeros(size)
        self._row, self._residual = np.zeros((modules, 14)), np.zeros((modules * n, 2))
        self._zero = np.zeros(modules)
        self._anchor, self._lower = np.zeros((modules, 3)), np.zeros((size, size))
        self._consistency = Consistency(modules, geometry.saddle, self.LEFT_OUT_SIGMAS, self.LEFT_OUT_AFTER_S)
        self.reset()

    def reset(self) -> None:
        """Back to the rest pose, as at start-up."""
        modules, n = self.geometry.strut_length_m.shape
        self._pose = np.zeros((modules, 6))
        self._pose[:, :3] = np.diff(self.geometry.rest_position_m, axis=0)
        self._position = self.geometry.rest_position_m.copy()
        self._rotation = np.tile(np.eye(3), (modules + 1, 1, 1))
        self._sound = (self._position.copy(), self._rotation.copy())
        self._plausible = Plausible(modules * n)
        self._strained, self._hurt = 0, False  # hurt: most readings were refused, and the pose has not been solved since
        self._last_t_s: float | None = None
        self._reporter.reset()
        self._consistency.reset()

    def update(self, observations: StrutObservations) -> PoseEstimate:
        """The estimate at `observations.t_s`; raises EstimationError only when no strut was ever seen."""
        readable = usable(observations)
        self._reporter.require(observations, readable)
        through = self._plausible.update(observations.t_s, observations.direction, readable)
        use = through & ~self._consistency.excluded
        self._step(np.ascontiguousarray(observations.direction[:, 2]), use)
        covariance = self._covariance(observations, through, use)
        strained = self._strain(use)
        refused, heard = np.count_nonzero(readable & ~through), np.count_nonzero(readable)
        self._hurt = self._hurt or bool(2 * refused > heard)
        healed = self._hurt and bool(10 * refused <= heard)
        if healed or (strained and self._strained >= self.PATIENCE):
            self._solve_anew(observations, use)
            self._strained, self._hurt = -self.PAUSE, False
            covariance = self._covariance(observations, through, use)
            strained = self._strain(use)
        self._strained = self._strained + 1 if strained else 0
        dt_s = 0.0 if self._last_t_s is None else observations.t_s - self._last_t_s
        self._last_t_s = observations.t_s
        self._consistency.update(self._residual, through, observations.flags, dt_s)
        blamed = readable & ~use
        if strained:
            blamed |= self._consistency.to_blame(use & (np.abs(self._residual[:, 0]) > self.STRAINED_SIGMAS), observations.flags)
        flags = observations.flags | np.where(blamed, int(SensorFlag.INCONSISTENT), 0)
        extra = EstimateFlag.DEGRADED if strained else EstimateFlag.NONE
        return self._reporter.build(observations, use, self._position, self._rotation, covariance, flags, extra)

    def _step(self, cosine: Floats, use: Bools) -> None:
        """One call of the kernel; what is not finite afterwards is undone."""
        state = (self._pose, self._position, self._rotation)
        before = [part.copy() for part in state]
        self._kernel(self._pose, self._position, self._rotation, cosine, use)
        if not all(np.isfinite(part).all() for part in state):
            for part, old in zip(state, before, strict=True):
                part[:] = old

    def _strain(self, use: Bools) -> bool:
        """Whether the pose cannot be right: it contradicts the readings in use or the struts' lengths. Keeps sound ones."""
        geometry = self.geometry
        lower = np.matmul(geometry.lower_m, self._rotation[:-1].swapaxes(1, 2)) + self._position[:-1, None]
        upper = np.matmul(geometry.upper_m, self._rotation[1:].swapaxes(1, 2)) + self._position[1:, None]
        stretch = np.abs(np.linalg.norm(upper - lower, axis=2) / geometry.strut_length_m - 1.0).max()
        residual = self._residual[use, 0]
        rms = math.sqrt(float(np.mean(residual * residual))) if len(residual) else 0.0
        if not self._hurt and use.all() and rms < self.SOUND_SIGMAS and stretch < 0.5 * self.STRAINED_LENGTH:
            self._sound = (self._position.copy(), self._rotation.copy())
        return not (rms <= self.STRAINED_SIGMAS and stretch <= self.STRAINED_LENGTH)

    def _solve_anew(self, observations: StrutObservations, use: Bools) -> None:
        """Converge the joint problem from the last sound pose and from the rest pose; the lower cost wins."""
        geometry = self.geometry
        weight = observations.sigma_inclination_rad**-2.0
        problem = Problem(
            geometry, observations.direction, np.stack([weight, weight]), use.astype(np.float64), INCLINATION, self._weight,
            self._anchor,
        )  # fmt: skip
        rest = (geometry.rest_position_m, np.tile(np.eye(3), (geometry.modules + 1, 1, 1)))
        best = math.inf
        for start in (self._sound, rest):
            position, rotation, warp = start[0].copy(), start[1].copy(), self._zero.copy()
            cost, _ = converge(problem, position, rotation, warp, self.ITERATIONS)
            if cost < best:
                best, self._position, self._rotation = cost, position, rotation
        for m in range(geometry.modules):
            self._pose[m, :3] = self._rotation[m].T @ (self._position[m + 1] - self._position[m])
            self._pose[m, 3:] = log_so3(relative(self._rotation[m], self._rotation[m + 1]))
        self._consistency.reset()

    def _covariance(self, observations: StrutObservations, through: Bools, use: Bools) -> Floats:
        geometry = self.geometry
        weight = observations.sigma_inclination_rad**-2.0
        trust = np.where(use, 1.0, np.where(through, UNTRUSTED, 0.0))
        assemble(
            self._position, self._rotation, self._zero, geometry.lower_m, geometry.upper_m, geometry.strut_length_m,
            geometry.saddle, observations.direction, weight, weight, trust, INCLINATION,
            self._weight, self._anchor, self._h, self._g, self._row, self._residual,
        )  # fmt: skip
        if not factor(self._h, self._lower):
            return np.full_like(self._h, np.inf)
        return inverse(self._lower)
