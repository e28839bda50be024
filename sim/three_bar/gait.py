"""One idea: a gait is a list of cable targets; a tracking loop winds the motors until every cable is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.planning.gait import CableTracker, deal
from sim.three_bar.plant import Plant
from sim.three_bar.pose import displacement, planar_pose
from sim.three_bar.robot_file import CABLES, Primitive, ThreeBar

Watch = Callable[[Plant], None]


def cable_order(spec: ThreeBar, caps: Floats) -> list[int] | None:
    """Which entry of a step each cable takes, by the lower caps of caps (6, 3); None when the robot stands in no known way."""
    order = deal(spec.symmetry, caps)
    return None if order is None else list(order)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one primitive did: planar displacement (x along the axis [u], y [u], turn [rad]) and how long it took."""

    dx_u: float
    dy_u: float
    turn_rad: float
    seconds: float
    timeouts: int

    @property
    def distance_u(self) -> float:
        """Length of the planar displacement."""
        return float(np.hypot(self.dx_u, self.dy_u))


def side_ranges(left_u: float, right_u: float) -> Floats:
    """Ranges (6,) [u] of the cables: even ones take the left, odd ones the right value. Unequal sides steer a roll."""
    return np.array([left_u, right_u] * (CABLES // 2))


def track(
    plant: Plant,
    target: Sequence[float] | Floats,
    primitive: Primitive,
    watch: Watch | None = None,
    range_u: Floats | None = None,
) -> bool:
    """Drive one gait step to its end, with ranges (6,) instead of the primitive's; False when it ran into the time limit."""
    gait = plant.spec.gait
    ranges = primitive.range_u if range_u is None else range_u
    tracker = CableTracker(gait, np.asarray(target), primitive.min_u, ranges)
    for _ in range(round(gait.step_limit_s / plant.step_s)):
        plant.step(tracker.command(plant.cable_lengths(), plant.rest_u))
        if watch is not None:
            watch(plant)
        if tracker.done.all():
            return True
    return False


def run_primitive(plant: Plant, primitive: Primitive, watch: Watch | None = None, range_u: Floats | None = None) -> Effect:
    """Rest, the primitive's steps, rest; each step's targets are dealt out anew by which caps are down."""
    spec, begin_s = plant.spec, plant.time_s
    before = planar_pose(plant.caps())
    rest = [1.0] * CABLES
    timeouts = 0
    for step in [rest, *primitive.steps, rest]:
        order = cable_order(spec, plant.caps())
        if order is None:
            plant.settle()
            order = cable_order(spec, plant.caps()) or list(range(CABLES))
        timeouts += not track(plant, [step[k] for k in order], primitive, watch, range_u)
    dx, dy, turn = displacement(before, planar_pose(plant.caps()))
    return Effect(float(dx), float(dy), float(turn), plant.time_s - begin_s, timeouts)
