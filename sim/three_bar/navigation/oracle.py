"""One idea: MuJoCo itself as a planner's model: it knows the plant's true state, hidden spin included."""

from __future__ import annotations

import numpy as np

from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.planning.costs import StrutState
from sim.three_bar.plant import Plant, Snapshot
from sim.three_bar.robot_file import CABLES, CAPS
from sim.three_bar.rollouts import PlantRollouts

LAYOUT = StrutState(caps=CAPS, cables=CABLES)
STRIDE = 20  # plant steps between states that are handed out


class PlantModel:
    """The Dynamics port over the plant. `remember` keeps snapshots, so that a plan may start from a state already past."""

    def __init__(self, plant: Plant, threads: int = 1) -> None:
        self._rollouts = PlantRollouts(plant, threads)
        self._past: dict[int, Snapshot] = {}
        self._at: Snapshot | None = None
        self._step_s = plant.step_s
        self._plant = plant

    def remember(self, t_s: float, seconds: float) -> None:
        """Keep the present state of the plant under `t_s`, for `seconds`."""
        key = round(t_s / self._step_s)
        self._past[key] = self._plant.snapshot()
        self._past.pop(key - round(seconds / self._step_s), None)

    def go_to(self, t_s: float) -> None:
        """Roll out from the state as of `t_s`. Raises PlanningError when it was not kept."""
        found = self._past.get(round(t_s / self._step_s))
        if found is None:
            raise PlanningError(f"the plant's state at {t_s:.2f} s was not kept")
        self._at = found

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        """States (M, T / STRIDE, 48) under controls (M, T, 6); velocities and motor speeds are left zero, `state` is not used."""
        if self._at is None:
            raise PlanningError("the plant's state to roll out from was not chosen")
        caps, rests = self._rollouts.states_over(self._at, controls)
        caps, rests = caps[:, STRIDE - 1 :: STRIDE], rests[:, STRIDE - 1 :: STRIDE]
        states = np.zeros((*caps.shape[:2], LAYOUT.size))
        states[..., : 3 * CAPS] = caps.reshape(*caps.shape[:2], 3 * CAPS)
        states[..., 6 * CAPS : 6 * CAPS + CABLES] = rests
        return states
