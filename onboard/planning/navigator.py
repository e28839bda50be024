"""One idea: what a way-finding controller is asked and what it may answer: a plan to play, or a gait to run to its end.

The state is as old as the newest pose; the commands that the motors get between then and the plan's start are known. They are
prepended to every sampled plan as its lead-in: predicting the robot forward costs nothing and uses the planner's own model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onboard.errors import NotANumberError
from onboard.messages import Floats, Plan
from onboard.planning.costs import StrutState
from onboard.planning.planar import planar_pose
from onboard.ports import Dynamics


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when a decision is due.

    t_s: when `state` (nx,) was true. lead_in (P, nu): commands at control steps from t_s until the decision takes effect.
    now_s: when it is made. start_s: when it takes effect. world (K, 16): what stands around.
    """

    t_s: float
    state: Floats
    lead_in: Floats
    now_s: float
    start_s: float
    world: Floats


@dataclass(frozen=True, slots=True)
class GaitOrder:
    """A primitive to run to its end: cable targets step by step, minimum and range (nu,) of the cables' lengths [u]."""

    name: str
    steps: tuple[tuple[float, ...], ...]
    min_u: float
    range_u: Floats
    start_s: float


Decision = Plan | GaitOrder


class Navigator(Protocol):
    """Drives the robot to a goal, one decision after the other. Same seed, same questions, same answers."""

    def set_goal(self, goal: Floats) -> None:
        """Go to `goal` (2,) [u] from now on. Raises PlanningError or NotANumberError; the old goal then stays."""

    def decide(self, situation: Situation) -> Decision:
        """What to do from situation.start_s on. Raises PlanningError when there is nothing to do."""


@dataclass(slots=True)
class LeadIn:
    """A dynamics whose rollouts begin with commands that are already decided; the horizon stays as long as the model's."""

    dynamics: Dynamics
    lead_in: Floats

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        """States (M, T', nx) from `state` at the lead-in's begin; the last P steps of `controls` (M, T, nu) fall off the end."""
        if len(self.lead_in):
            before = np.broadcast_to(self.lead_in, (len(controls), *self.lead_in.shape))
            controls = np.concatenate([before, controls], axis=1)[:, : controls.shape[1]]
        return self.dynamics.rollout(state, controls, world)


def pose_at_start(layout: StrutState, situation: Situation) -> Floats:
    """Planar pose (3,) when the decision takes effect, at constant velocity. Raises NotANumberError for a non-finite state."""
    state = situation.state
    if not np.isfinite(state).all():
        raise NotANumberError("the state to decide from is not finite")
    caps = layout.positions(state)
    velocity = state[3 * layout.caps : 6 * layout.caps].reshape(layout.caps, 3)
    return planar_pose(caps + (situation.start_s - situation.t_s) * velocity)
