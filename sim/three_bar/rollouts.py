"""One idea: many open-loop futures of the plant at once, in MuJoCo's own threads: the truth that models are compared to."""

from __future__ import annotations

import mujoco
import numpy as np
from mujoco import rollout

from onboard.errors import RobotFault
from onboard.messages import Floats
from sim.three_bar.motors import rest_lengths_over
from sim.three_bar.plant import Plant, Snapshot


def caps_from_poses(qpos: Floats, half_u: float) -> Floats:
    """Cap centres (..., 6, 3) [u] from the free joints of three rods (..., 21)."""
    pose = qpos.reshape(*qpos.shape[:-1], 3, 7)
    w, x, y, z = (pose[..., 3 + k] for k in range(4))
    axis = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=-1)
    caps = np.stack([pose[..., :3] - half_u * axis, pose[..., :3] + half_u * axis], axis=-2)
    return caps.reshape(*qpos.shape[:-1], 6, 3)


class PlantRollouts:
    """Rolls command sequences out from a snapshot; `threads` worker threads, each with its own MuJoCo data."""

    def __init__(self, plant: Plant, threads: int = 1) -> None:
        self.spec, self.model = plant.spec, plant.model
        self._data = [mujoco.MjData(self.model) for _ in range(threads)]
        self._scratch = mujoco.MjData(self.model)
        self._full = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self._integration = mujoco.mjtState.mjSTATE_INTEGRATION

    def caps_over(self, snapshot: Snapshot, commands: Floats) -> Floats:
        """Cap positions (M, T, 6, 3) [u] after each of T plant steps of commands (M, T, 6)."""
        return self.states_over(snapshot, commands)[0]

    def states_over(self, snapshot: Snapshot, commands: Floats) -> tuple[Floats, Floats]:
        """Cap positions (M, T, 6, 3) and rest lengths (M, T, 6) [u] after each of T plant steps of commands (M, T, 6).

        Raises RobotFault when a rollout ends in non-finite states.
        """
        spec, model = self.spec, self.model
        rests, _ = rest_lengths_over(spec.actuators, snapshot.rest_u, snapshot.speed_rad_s, commands, spec.plant.step_s)
        mujoco.mj_setState(model, self._scratch, snapshot.physics, self._integration)
        start = np.zeros(mujoco.mj_stateSize(model, self._full))
        mujoco.mj_getState(model, self._scratch, start, self._full)
        states, _ = rollout.rollout(
            model,
            self._data,
            start,
            rests,
            initial_warmstart=np.array(self._scratch.qacc_warmstart),
            persistent_pool=True,
        )
        if not np.isfinite(states).all():
            raise RobotFault("a plant rollout diverged")
        return caps_from_poses(states[:, :, 1 : 1 + model.nq], spec.bodies.cap_distance_u / 2.0), rests
