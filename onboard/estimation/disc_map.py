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
from onboard.estimation.report import Reporter
from onboard.estimation.so3 import log_so3, relative
from onboard.messages import EstimateFlag, Floats, PoseEstimate, SensorFlag, StrutObservations

if TYPE_CHECKING:
    from onboard.robot import RobotSpec

MIN_STRUTS = 2  # a module with fewer coasts


class DiscMapConfig(Section, frozen=True):
    """[estimator] type "disc_map": the default. Tuned on the simulator of errors (docs/estimation.md); sigmas are one sigma."""

    mode: Annotated[
        Literal["direction", "inclination"],
        Meta(description="what is measured: inclination and drifting azimuth, or gravity alone"),
    ] = "direction"
    memory_s: Annotated[
        float,
        Meta(ge=0.0, le=5.0, description="over how long readings are averaged while gyros carry the pose; 0: each tick alone"),
    ] = 0.4
    length_sigma_m: Annotated[float, Meta(gt=0.0, le=0.1, description="of strut lengths and joint positions")] = 0.002
    warp_sigma_m: Annotated[float, Meta(gt=0.0, le=0.1, description="amplitude by which a ring leaves its plane")] = 0.003
    warped_sigmas: Annotated[
        float, Meta(gt=0.0, le=100.0, description="alternating residual of a module's struts beyond which its ring is not flat")
    ] = 1.0
    twist_sigma_deg: Annotated[float, Meta(gt=0.0, le=180.0, description="prior of a module's twist around the upright one")] = (
        6.0
    )
    bend_sigma_deg: Annotated[float, Meta(gt=0.0, le=180.0, description="prior of a module's bend, each way")] = 25.0
    inclination_floor_deg: Annotated[
        float, Meta(ge=0.0, le=20.0, description="what sensors do not know about themselves: mounting, joints")
    ] = 0.5
    azimuth_floor_deg: Annotated[float, Meta(ge=0.0, le=45.0, description="the same for the azimuth")] = 0.5
    huber_sigmas: Annotated[float, Meta(ge=0.5, le=100.0, description="residuals beyond this count linearly")] = 2.5
    drift_correlation_s: Annotated[
        float, Meta(ge=0.0, le=600.0, description="how long the pose's own azimuth error stays the same when drift is learnt")
    ] = 2.0
    coast_s: Annotated[float, Meta(gt=0.0, le=600.0, description="how slowly a module without readings relaxes to straight")] = (
        10.0
    )
    inconsistent_sigmas: Annotated[
        float, Meta(ge=1.0, le=100.0, description="average residual beyond which a strut is left out")
    ] = 6.0
    inconsistent_after_s: Annotated[float, Meta(gt=0.0, le=60.0, description="time constant of that average")] = 0.5
    start_iterations: Annotated[int, Meta(ge=1, le=200, description="of Levenberg-Marquardt at start and on recovery")] = 30
    recover_sigmas: Annotated[
        float, Meta(ge=1.0, le=1000.0, description="mean residual of the tower beyond which the pose is solved anew")
    ] = 8.0

    def build(self, spec: RobotSpec) -> DiscMap:
        """The estimator of this robot."""
        return self.on(DiscGeometry.of(spec.structure), spec.safety.estimate_max_sigma_m)

    def on(self, geometry: DiscGeometry, max_sigma_m: float) -> DiscMap:
        """The estimator on a geometry; UNCERTAIN is raised when the tip's sigma exceeds `max_sigma_m`."""
        return DiscMap(self, geometry, max_sigma_m)


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
        self._direction = np.zeros((count, 3))
        self._motion, self._moving = np.zeros((count, 3)), np.zeros(count)
        self._weights = np.ones((2, count))
        self._residual = np.zeros((count, 2))
        self._information = np.zeros((size, size))
        self._lower = np.zeros((size, size))
        self._reporter = Reporter(geometry, max_sigma_m)
        self._consistency = Consistency(modules, geometry.saddle, config.inconsistent_sigmas, config.inconsistent_after_s)
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
        self._trust = np.zeros(modules * n)
        self._silent, self._coasting = np.zeros(modules, dtype=np.bool_), False
        self._anchor = np.zeros((modules, 3))
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
        self.advance(observations)
        excluded = self._consistency.excluded
        flags = EstimateFlag.NONE
        if self._consistency.alternation > self.config.warped_sigmas:
            flags |= EstimateFlag.WARPED
        strut_flags = observations.flags
        if excluded.any():
            strut_flags = strut_flags | np.where(excluded, int(SensorFlag.INCONSISTENT), 0)
        use = self._trust == 1.0
        return self._reporter.build(observations, use, self._position, self._rotation, inverse(self._lower), strut_flags, flags)

    def advance(self, observations: StrutObservations) -> None:
        """Move the state to the observations' tick: `update` without the report."""
        geometry, config = self.geometry, self.config
        dt_s = 0.0 if self._last_t_s is None else max(0.0, observations.t_s - self._last_t_s)
        count = correct(
            observations.direction, observations.rate_rad_s, observations.sigma_inclination_rad,
            observations.sigma_azimuth_rad, observations.valid, self._consistency.excluded, self._used, self._trust, dt_s,
            self._floor_incl, self._floor_az, self._last_sigma_az, self._offset, self._variance, self._direction, self._motion,
            self._moving, self._weights[0], self._weights[1],
        )  # fmt: skip
        if count == 0:
            self._reporter.require(observations, self._used)
        if self._last_t_s is None:
            self._solve_anew()
        else:
            if count < len(self._trust) or self._coasting:
                self._coast(dt_s)
            self._follow(dt_s, max(count, 1))
        self._last_t_s = observations.t_s
        self._consistency.update(self._residual, self._used, observations.flags, dt_s)
        if self._mode == DIRECTION:
            ticks = max(1.0, config.drift_correlation_s / max(dt_s, 1e-9))
            learn(
                self._position, self._rotation, self._warp, geometry.lower_m, geometry.upper_m, geometry.saddle,
                self._direction, self._trust, self._weights[0], ticks, self._offset, self._variance,
            )  # fmt: skip

    def _coast(self, dt_s: float) -> None:
        """Modules with fewer than two struts hold the rotation they had, and relax to straight over `coast_s`."""
        n = self.geometry.lower_m.shape[1]
        silent = self._trust.reshape(-1, n).sum(axis=1) < MIN_STRUTS
        for m in np.flatnonzero(silent & ~self._silent):
            self._anchor[m] = log_so3(relative(self._rotation[m], self._rotation[m + 1]))
        self._anchor[silent] *= math.exp(-dt_s / self.config.coast_s)
        self._anchor[~silent] = 0.0
        self._silent, self._coasting = silent, bool(silent.any())

    def _follow(self, dt_s: float, count: int) -> None:
        geometry, config = self.geometry, self.config
        keep = math.exp(-dt_s / config.memory_s) if config.memory_s > 0.0 else 0.0
        cost = track(
            self._position, self._rotation, self._warp, geometry.lower_m, geometry.upper_m, geometry.strut_length_m,
            geometry.saddle, self._direction, self._weights[0], self._weights[1], self._trust, self._motion, self._moving,
            self._mode, self._weight, self._anchor, keep, self._information, self._lower, self._residual,
        )  # fmt: skip
        strained = not cost <= 0.5 * config.recover_sigmas**2 * count
        self._strained = self._strained + 1 if strained else 0
        if math.isnan(cost) or self._strained > 20:
            self._solve_anew()
            self._consistency.reset()
            self._strained = 0

    def _solve_anew(self) -> None:
        """Converge from the present pose and from the rest pose; the lower cost wins."""
        geometry = self.geometry
        rest = (geometry.rest_position_m, np.tile(np.eye(3), (geometry.modules + 1, 1, 1)), np.zeros(geometry.modules))
        starts = [rest] if self._last_t_s is None else [rest, (self._position, self._rotation, self._warp)]
        problem = Problem(geometry, self._direction, self._weights, self._trust, self._mode, self._weight, self._anchor)
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
