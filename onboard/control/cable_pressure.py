"""Pressure control: a vectorised PI on cable lengths, projected on what struts allow, around the pressures of the goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.control.reachable import ReachableSpace
from onboard.control.teaching import TeachingConfig
from onboard.errors import NotANumberError
from onboard.messages import EstimateFlag, Floats, PoseEstimate, Posture, Setpoints, frozen

if TYPE_CHECKING:
    from onboard.robot import RobotSpec

POOR = EstimateFlag.UNCERTAIN | EstimateFlag.LOST | EstimateFlag.COASTING
LONGEST_TICK_S = 0.1  # after a longer gap the integrator advances by this much only
SECOND_ORDER_M = 0.02  # at most this much of the tip's error is not explained by shapes to first order
RATE_FILTER_S = 0.05  # low-pass of length rates


class CablePressureConfig(Section, frozen=True):
    """[controller] type "cable_pressure_pi". Defaults were tuned on the MuJoCo plant (docs/safety.md, "How it is driven")."""

    proportional_pa_per_m: Annotated[
        float, Meta(ge=0.0, le=1e9, description="pressure per reachable length error; a cable that is too long pulls harder")
    ] = 1.0e6
    integral_pa_per_m_s: Annotated[float, Meta(ge=0.0, le=1e9, description="integral of the same")] = 1.5e7
    stiffness_pa_per_m: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1e9,
            description="what bending takes, for the feed-forward; 0 feeds the taught pressures forward as they are",
        ),
    ] = 7.0e6
    axial_gain: Annotated[
        float, Meta(ge=0.0, le=1e3, description="how much more for errors that are the same around a ring: twist and stretch")
    ] = 6.0
    trust_m: Annotated[
        float,
        Meta(gt=0.0, le=10.0, description="length errors whose standard deviation is above this are acted on less and less"),
    ] = 0.002
    damping_pa_s_per_m: Annotated[float, Meta(ge=0.0, le=1e9, description="pressure per reachable length rate")] = 5.0e5
    goal_speed_m_per_s: Annotated[float, Meta(gt=0.0, le=10.0, description="of the fastest cable on the way to a new goal")] = (
        0.06
    )
    shortest_move_s: Annotated[float, Meta(ge=0.0, le=60.0, description="no move is quicker than this")] = 1.0
    lag_s: Annotated[
        float, Meta(ge=0.0, le=10.0, description="the arm may follow this far behind before it counts as an error")
    ] = 0.4
    deadband_m: Annotated[
        float,
        Meta(
            ge=0.0,
            le=0.1,
            description="RMS error of a module below which nothing is integrated, so that friction does not make it hunt",
        ),
    ] = 0.00003
    max_rate_pa_per_s: Annotated[float, Meta(gt=0.0, le=1e8, description="fastest change of any set-point")] = 5.0e5
    integral_limit_pa: Annotated[float, Meta(ge=0.0, le=1e7, description="most that the integrator may add")] = 2.5e5
    integrate_max_sigma_m: Annotated[
        float, Meta(gt=0.0, le=1.0, description="tip uncertainty above which nothing is integrated")
    ] = 0.05

    teaching: TeachingConfig = TeachingConfig()

    def build(self, spec: RobotSpec) -> CablePressureControl:
        """The controller of this robot."""
        return CablePressureControl(self, spec)


class CablePressureControl:
    """The goal's lengths are approached along a smooth path; errors act on the cylinders of their own module.

    set-point = feed-forward + P e + I + D rate, with e the reachable part of (length - wanted length), as far as the estimate
    is trusted. The feed-forward goes smoothly from what the valves had when the goal was set to what should hold the goal.
    """

    def __init__(self, config: CablePressureConfig, spec: RobotSpec) -> None:
        assert spec.actuators is not None  # the loader asks for valves where there is a controller
        self._config, self._valves = config, spec.actuators
        self._space = ReachableSpace(spec.structure)
        self._cylinders = np.array(spec.structure.cylinders, dtype=np.int64)
        self._cables = spec.structure.cable_count
        lower, upper = spec.structure.rest_joints_m()
        ends = spec.structure.cable_ends()
        self._upright_m = np.array([np.linalg.norm(upper[m, top] - lower[m, bottom]) for m, top, bottom in ends])
        self._around = spec.structure.struts_per_module
        self._per_module = self._cables // spec.structure.modules
        self.reset(np.full(len(self._cylinders), spec.actuators.rest_pressure_pa))

    def reset(self, measured: Floats) -> None:
        """Forget goal and integrator; the next set-points start from `measured` (A,) [Pa]; NaN entries from rest pressure."""
        start = np.where(np.isfinite(measured), measured, self._valves.rest_pressure_pa)
        self._output = np.clip(start, self._valves.min_pressure_pa, self._valves.max_pressure_pa)
        self._integral = np.zeros(self._cables)
        self._goal: Posture | None = None
        self._last_s: float | None = None
        self._last_length: Floats | None = None
        self._rate = np.zeros(self._cables)
        self.saturated = 0

    def update(self, estimate: PoseEstimate, measured: Floats, goal: Posture) -> Setpoints:
        """Set-points (A,) [Pa] at `estimate.t_s`; raises NotANumberError for an estimate or goal that is not finite."""
        length = estimate.cable_length_m
        if not (np.isfinite(length).all() and np.isfinite(estimate.cable_jacobian).all()):
            raise NotANumberError("cable lengths of the estimate are not all numbers")
        if goal is not self._goal:
            self._set_out(estimate, goal)
        t_s = estimate.t_s
        dt_s = 0.0 if self._last_s is None else min(max(t_s - self._last_s, 0.0), LONGEST_TICK_S)
        reach = self._space.at(estimate)
        trust = reach.trust(estimate, self._config.trust_m)
        share, arrived = self._progress(t_s), self._progress(t_s - self._config.lag_s)
        off = reach.shape(length - self._from_length - arrived * (goal.cable_length_m - self._from_length))
        error = reach.length(trust.act(off, self._tip_off(estimate, goal, reach.tip @ off, arrived)))
        self._measure_rate(length, dt_s)
        config = self._config
        forward = self._from_pressure + share * (self._goal_pressure - self._from_pressure)
        direct = config.proportional_pa_per_m * self._weigh(error)
        if config.damping_pa_s_per_m > 0.0:
            direct += config.damping_pa_s_per_m * reach.length(trust.act(reach.shape(self._rate)))
        step = self._integrable(estimate) * config.integral_pa_per_m_s * dt_s * self._weigh(self._beyond_deadband(error))
        integral = np.clip(self._integral + step, -config.integral_limit_pa, config.integral_limit_pa)
        asked = forward + (direct + integral)[self._cylinders]
        issued = self._limit(asked, dt_s)
        # Where a limit holds a set-point back, the integrator may not push further against it.
        pushing = np.zeros(self._cables, dtype=np.bool_)
        pushing[self._cylinders] = (asked - issued) * step[self._cylinders] > 0.0
        self.saturated = int(np.count_nonzero(asked != issued))
        self._integral = reach.project(np.where(pushing, self._integral, integral))
        self._output, self._last_s = issued, t_s
        return Setpoints(t_s, frozen(issued), f"posture:{goal.name}")

    def _set_out(self, estimate: PoseEstimate, goal: Posture) -> None:
        """A new goal: the way to it starts at the present lengths and pressures, without a jump."""
        if not all(np.isfinite(part).all() for part in (goal.cable_length_m, goal.pressure_pa, goal.tip_m)):
            raise NotANumberError(f"posture {goal.name!r} holds a value that is not a number")
        if (
            goal.cable_length_m.shape != (self._cables,)
            or goal.pressure_pa.shape != self._output.shape
            or goal.tip_m.shape != (3,)
        ):
            raise NotANumberError(f"posture {goal.name!r} is not one of this robot: {self._cables} cable lengths are needed")
        self._goal, self._start_s = goal, estimate.t_s
        self._from_length = estimate.cable_length_m.copy()
        self._from_pressure = self._output.copy()
        self._goal_pressure = self._feed_forward(estimate, goal)
        self._integral = np.zeros(self._cables)
        farthest = float(np.abs(goal.cable_length_m - self._from_length).max())
        # A quintic's greatest speed is 15/8 of its mean speed.
        self._move_s = max(self._config.shortest_move_s, 1.875 * farthest / self._config.goal_speed_m_per_s)

    def _feed_forward(self, estimate: PoseEstimate, goal: Posture) -> Floats:
        """Pressures (A,) [Pa] that should hold the goal: the taught mean, and what its shape takes.

        A hand held the arm while it was taught, so the taught differences between cylinders are not those that hold it alone.
        """
        if self._config.stiffness_pa_per_m == 0.0:
            return goal.pressure_pa
        reach = self._space.at(estimate)
        trust = reach.trust(estimate, self._config.trust_m)
        bent = reach.length(trust.act(reach.shape(goal.cable_length_m - self._upright_m)))
        taught = np.zeros(self._cables)
        taught[self._cylinders] = goal.pressure_pa
        forward: Floats = self._axial(taught) - self._config.stiffness_pa_per_m * (bent - self._axial(bent))
        return forward[self._cylinders]

    def _axial(self, value: Floats) -> Floats:
        """The part of values (C,) that is the same around the ring: means of the cables of one group of one module."""
        by_group = value.reshape(-1, self._around)
        return np.repeat(by_group.mean(axis=1), self._around)

    def _weigh(self, error: Floats) -> Floats:
        """Errors (C,) with the axial part weighed up: twisting and stretching are that much stiffer than bending."""
        return error + (self._config.axial_gain - 1.0) * self._axial(error)

    def _progress(self, t_s: float) -> float:
        """Share of the way that should be done by now: a quintic without jerk at its ends."""
        x = min(max((t_s - self._start_s) / self._move_s, 0.0), 1.0) if self._move_s > 0.0 else 1.0
        return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)

    def _tip_off(self, estimate: PoseEstimate, goal: Posture, by_shape: Floats, arrived: float) -> Floats:
        """How far the tip is off (3,) [m]: by its shapes on the way, by the taught place itself near the goal.

        Both agree to first order. Shapes that are not fought over differ from the taught ones, so that near the goal
        second-order terms of some millimetres remain.
        """
        rest = (estimate.tip_m - goal.tip_m) - by_shape
        far = float(np.linalg.norm(rest))
        return by_shape + arrived * min(1.0, SECOND_ORDER_M / max(far, 1e-9)) * rest

    def _measure_rate(self, length: Floats, dt_s: float) -> None:
        if self._last_length is not None and dt_s > 0.0:
            self._rate += min(1.0, dt_s / RATE_FILTER_S) * ((length - self._last_length) / dt_s - self._rate)
        self._last_length = length

    def _integrable(self, estimate: PoseEstimate) -> float:
        poor = estimate.flags & POOR or not estimate.tip_sigma_m <= self._config.integrate_max_sigma_m
        return 0.0 if poor else 1.0

    def _beyond_deadband(self, error: Floats) -> Floats:
        by_module = error.reshape(-1, self._per_module)
        rms = np.sqrt(np.mean(by_module**2, axis=1, keepdims=True))
        kept = np.maximum(0.0, 1.0 - self._config.deadband_m / np.maximum(rms, 1e-12))
        reduced: Floats = (by_module * kept).reshape(-1)
        return reduced

    def _limit(self, asked: Floats, dt_s: float) -> Floats:
        step = self._config.max_rate_pa_per_s * dt_s
        near = np.clip(asked, self._output - step, self._output + step)
        inside: Floats = np.minimum(np.maximum(near, self._valves.min_pressure_pa), self._valves.max_pressure_pa)
        return inside
