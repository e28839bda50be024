"""Kinesthetic teaching: pressures give way to a hand, and follow it until they nearly hold the arm where it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.control.reachable import ReachableSpace
from onboard.errors import NotANumberError
from onboard.messages import EstimateFlag, Floats, PoseEstimate, Setpoints, frozen

if TYPE_CHECKING:
    from onboard.robot import RobotSpec

LONGEST_TICK_S = 0.1
POOR = EstimateFlag.UNCERTAIN | EstimateFlag.LOST | EstimateFlag.COASTING


class TeachingConfig(Section, frozen=True):
    """[controller.teaching]: how the arm yields to a hand."""

    assist_pa_per_m: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1e9,
            description="pressure taken off for each metre that a hand lengthens a cylinder; below the arm's stiffness, 6e6",
        ),
    ] = 3.0e6
    follow_s: Annotated[float, Meta(gt=0.0, le=60.0, description="how fast pressures follow the hand")] = 0.5
    assist_limit_pa: Annotated[float, Meta(ge=0.0, le=1e7, description="at most this much")] = 1.5e5
    max_rate_pa_per_s: Annotated[float, Meta(gt=0.0, le=1e8, description="fastest change of any set-point while teaching")] = (
        1.0e5
    )


class Teacher:
    """Set-points while the supervisor is in `teaching`.

    target = start + shift - assist (reachable part of (length - length at start)), followed with a lag. The negative
    stiffness softens the arm and leaves in the valves most of the pressure difference that the taught shape needs, so that
    going there later starts from nearly the right pressures.
    """

    def __init__(self, spec: RobotSpec) -> None:
        assert spec.actuators is not None  # made only for robots with actuators
        config = getattr(spec.controller, "teaching", None)
        self._config = config if isinstance(config, TeachingConfig) else TeachingConfig()
        self._valves = spec.actuators
        self._space = ReachableSpace(spec.structure)
        self._cylinders = np.array(spec.structure.cylinders, dtype=np.int64)
        self.start(np.full(len(self._cylinders), spec.actuators.rest_pressure_pa))

    def start(self, held: Floats) -> None:
        """Begin from the pressures `held` (A,) [Pa]; NaN entries begin from the rest pressure."""
        rest = self._valves.rest_pressure_pa
        begin = np.where(np.isfinite(held), held, rest)
        self._base = np.clip(begin, self._valves.min_pressure_pa, self._valves.max_pressure_pa)
        self._output = self._base.copy()
        self._shift_pa, self._wanted_shift_pa = 0.0, rest - float(self._base.mean())
        self._from_length: Floats | None = None
        self._last_s: float | None = None

    def update(self, t_s: float, estimate: PoseEstimate, measured: Floats) -> Setpoints:
        """Set-points (A,) [Pa] at `t_s`; with a poor estimate pressures stay. Raises NotANumberError."""
        length, config = estimate.cable_length_m, self._config
        if not (np.isfinite(length).all() and np.isfinite(estimate.cable_jacobian).all()):
            raise NotANumberError("cable lengths of the estimate are not all numbers")
        if self._from_length is None:
            self._from_length = length.copy()
        dt_s = 0.0 if self._last_s is None else min(max(t_s - self._last_s, 0.0), LONGEST_TICK_S)
        self._last_s = t_s
        if not estimate.flags & POOR:
            step = config.max_rate_pa_per_s * dt_s
            self._shift_pa += float(np.clip(self._wanted_shift_pa - self._shift_pa, -step, step))
            moved = self._space.at(estimate).project(length - self._from_length)
            assist = np.clip(config.assist_pa_per_m * moved, -config.assist_limit_pa, config.assist_limit_pa)
            target = self._base + self._shift_pa - assist[self._cylinders]
            follow = np.clip((target - self._output) * min(1.0, dt_s / config.follow_s), -step, step)
            self._output = np.clip(self._output + follow, self._valves.min_pressure_pa, self._valves.max_pressure_pa)
        return Setpoints(t_s, frozen(self._output), "teaching")
