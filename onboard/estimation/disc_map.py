"""The default pose estimator: joint maximum a posteriori over all discs, in direction or inclination mode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.estimation.banded import factor, inverse
from onboard.estimation.consistency import Consistency
from onboard.estimation.converge import Problem, converge
from onboard.estimation.drift import correct, learn
from onboard.estimation.equations import DIRECTION, HUBER, INCLINATION, W_BEND, W_LENGTH, W_TWIST, W_WARP
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.map_kernel import track
from onboard.estimation.report import Reporter, usable
from onboard.messages import EstimateFlag, Floats, PoseEstimate, StrutObservations

if TYPE_CHECKING:
    from onboard.robot import RobotSpec

Degrees = Annotated[float, Meta(gt=0.0, le=180.0)]
SmallLength = Annotated[float, Meta(gt=0.0, le=0.1)]


class DiscMapConfig(Section, frozen=True):
    """[estimator] type "disc_map". Defaults were tuned on the simulator of errors (docs/estimation.md); sigmas are 1 sigma.

    mode: "direction" uses inclination and azimuth, "inclination" gravity alone. memory_s: over how long readings are
    averaged; gyros carry the estimate meanwhile, 0 looks at each tick alone. length_sigma_m: strut lengths and joint
    positions. warp_sigma_m: amplitude by which a ring leaves its plane; WARPED is raised beyond warp_limit_m.
    twist_sigma_deg, bend_sigma_deg: prior of a module's rotation around the upright one. inclination_floor_deg,
    azimuth_floor_deg: what sensors do not know about themselves (mounting, joints). huber_sigmas: residuals beyond count
    linearly. drift_correlation_s: how long the pose's own azimuth error stays the same. inconsistent_sigmas,
    inconsistent_after_s: when a strut is left out. start_iterations: of Levenberg-Marquardt at start and on recovery.
    recover_sigmas: mean normalised residual of the tower beyond which the pose is solved anew.
    """

    mode: Literal["direction", "inclination"] = "direction"
    memory_s: Annotated[float, Meta(ge=0.0, le=5.0)] = 0.25
    length_sigma_m: SmallLength = 0.002
    warp_sigma_m: SmallLength = 0.003
    warp_limit_m: SmallLength = 0.012
    twist_sigma_deg: Degrees = 5.0
    bend_sigma_deg: Degrees = 25.0
    inclination_floor_deg: Annotated[float, Meta(ge=0.0, le=20.0)] = 0.5
    azimuth_floor_deg: Annotated[float, Meta(ge=0.0, le=45.0)] = 0.5
    huber_sigmas: Annotated[float, Meta(ge=0.5, le=100.0)] = 2.5
    drift_correlation_s: Annotated[float, Meta(ge=0.0, le=600.0)] = 5.0
    inconsistent_sigmas: Annotated[float, Meta(ge=1.0, le=100.0)] = 6.0
    inconsistent_after_s: Annotated[float, Meta(gt=0.0, le=60.0)] = 0.5
    start_iterations: Annotated[int, Meta(ge=1, le=200)] = 30
    recover_sigmas: Annotated[float, Meta(ge=1.0, le=1000.0)] = 8.0

    def build(self, spec: RobotSpec) -> DiscMap:
        """The estimator of this robot."""
        return DiscMap(self, DiscGeometry.of(spec.structure), spec.safety.estimate_max_sigma_m)


class DiscMap:
    """State and one update per tick; see map_kernel for the mathematics."""

    def __init__(self, config: DiscMapConfig, geometry: DiscGeometry, max_sigma_m: float) -> None:
        self.config, self.geometry = config, geometry
        modules, n = geometry.strut_length_m.shape
        count, size = modules * n, 6 * modules
        self._mode = DIRECTION if config.mode == "direction" else INCLINATION
        self._weight = np.zeros(5)
        self._weight[W_LENGTH] = config.length_sigma_m**-2
        self._weight[W_WARP] = config.warp_sigma_m**-2
        self._weight[W_TWIST] = math.radians(config.twist_sigma_deg) ** -2
        self._weight[W_BEND] = math.radians(config.bend_sigma_deg) ** -2
        self._weight[HUBER] = config.huber_sigmas
        self._floor_incl = math.radians(config.inclination_floor_deg)
        self._floor_az = math.radians(config.azimuth_floor_deg)
        self._anchor = np.zeros((modules, 3))
        self._direction = np.zeros((count, 3))
        self._motion, self._moving = np.zeros((count, 3)), np.zeros(count)
        self._weights = np.ones((2, count))
        self._residual = np.zeros((count, 2))
        self._information = np.zeros((size, size))
        self._lower = np.zeros((size, size))
        self._reporter = Reporter(geometry, max_sigma_m)
        self._consistency = Consistency(modules, n, config.inconsistent_sigmas, config.inconsistent_after_s)
        self.reset()

    def reset(self) -> None:
        """Back to the rest pose, as at start-up: drifts, exclusions and information are forgotten."""
        modules, n = self.geometry.strut_length_m.shape
        self._position = self.geometry.rest_position_m.copy()
        self._rotation = np.tile(np.eye(3), (modules + 1, 1, 1))
        self._warp = np.zeros(modules)
        self._offset, self._variance = np.zeros(modules * n), np.zeros(modules * n)
        self._last_sigma_az = np.zeros(modules * n)
        self._used = np.zeros(modules * n, dtype=np.bool_)
        self._last_t_s: float | None = None
        self._strained = 0
        self._reporter.reset()
        self._consistency.reset()

    @property
    def azimuth_drift_rad(self) -> Floats:
        """Estimated azimuth offset of every strut (MN,) [rad], measured minus true."""
        return self._offset.copy()

    def update(self, observations: StrutObservations) -> PoseEstimate:
        """The estimate at `observations.t_s`; raises EstimationError only when no strut was ever seen."""
        seen = usable(observations)
        self._reporter.require(observations, seen)
        dt_s = 0.0 if self._last_t_s is None else max(0.0, observations.t_s - self._last_t_s)
        correct(
            observations.direction, observations.rate_rad_s, observations.sigma_inclination_rad,
            observations.sigma_azimuth_rad, seen, self._used, dt_s, self._floor_incl, self._floor_az, self._last_sigma_az,
            self._offset, self._variance, self._direction, self._motion, self._moving,
            self._weights[0], self._weights[1],
        )  # fmt: skip
        trust = np.where(self._consistency.excluded, 1e-9, 1.0) * seen
        if self._last_t_s is None:
            self._solve_anew(trust)
        else:
            self._follow(trust, dt_s)
        self._last_t_s, self._used = observations.t_s, seen
        self._consistency.update(self._residual, seen, dt_s)
        use = seen & ~self._consistency.excluded
        if self._mode == DIRECTION and dt_s > 0.0:
            noise = (1.0 / self._weights[0].max()) * max(1.0, self.config.drift_correlation_s / dt_s)
            learn(
                self._position, self._rotation, self._warp, self.geometry.lower_m, self.geometry.upper_m,
                self.geometry.saddle, self._direction, use, noise, self._offset, self._variance,
            )  # fmt: skip
        flags = EstimateFlag.NONE
        if float(np.abs(self._warp).max()) > self.config.warp_limit_m:
            flags |= EstimateFlag.WARPED
        strut_flags = observations.flags
        if self._consistency.excluded.any():
            strut_flags = strut_flags | np.where(self._consistency.excluded, 64, 0)
        return self._reporter.build(observations, use, self._position, self._rotation, inverse(self._lower), strut_flags, flags)

    def _follow(self, trust: Floats, dt_s: float) -> None:
        geometry, config = self.geometry, self.config
        keep = math.exp(-dt_s / config.memory_s) if config.memory_s > 0.0 else 0.0
        cost = track(
            self._position, self._rotation, self._warp, geometry.lower_m, geometry.upper_m, geometry.strut_length_m,
            geometry.saddle, self._direction, self._weights[0], self._weights[1], trust, self._motion, self._moving, self._mode,
            self._weight, self._anchor, keep, self._information, self._lower, self._residual,
        )  # fmt: skip
        count = float(trust.sum())
        strained = not cost <= 0.5 * config.recover_sigmas**2 * max(count, 1.0)
        self._strained = self._strained + 1 if strained else 0
        if math.isnan(cost) or self._strained > 20:
            self._solve_anew(trust)
            self._strained = 0

    def _solve_anew(self, trust: Floats) -> None:
        """Converge from the present pose and from the rest pose; the lower cost wins."""
        geometry = self.geometry
        rest = (geometry.rest_position_m, np.tile(np.eye(3), (geometry.modules + 1, 1, 1)), np.zeros(geometry.modules))
        starts = [rest] if self._last_t_s is None else [rest, (self._position, self._rotation, self._warp)]
        problem = Problem(geometry, self._direction, self._weights, trust, self._mode, self._weight, self._anchor)
        best = math.inf
        for start in starts:
            position, rotation, warp = (part.copy() for part in start)
            cost, _ = converge(problem, position, rotation, warp, self.config.start_iterations)
            if cost < best:
                best = cost
                self._position, self._rotation, self._warp = position, rotation, warp
                self._information[:], self._residual[:] = problem.h, problem.residual
        if not factor(self._information, self._lower):
            self._information[:] = np.diag(np.tile([1e4, 1e4, 1e4, 100.0, 100.0, 100.0], geometry.modules))
            factor(self._information, self._lower)
