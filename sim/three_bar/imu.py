"""One idea: what an inertial sensor in the middle of each rod feels, in its rod's axes (z from left to right cap)."""

from __future__ import annotations

import mujoco
import numpy as np

from onboard.messages import Floats
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import RODS

STANDARD_GRAVITY_M_S2 = 9.80665


class RodImus:
    """Specific force [m/s^2] and rate [rad/s] of the rods. The plant's gravity counts as standard gravity, lengths with it."""

    def __init__(self, plant: Plant) -> None:
        self._plant, self._gravity_u_s2 = plant, plant.spec.units.gravity_u_s2
        self._rate_hz, self.counter = plant.spec.imu.rate_hz, -1
        self._velocity = plant.data.qvel.reshape(RODS, 6)[:, :3].copy()
        self._before_s = plant.time_s

    def sample(self) -> list[tuple[Floats, Floats]]:
        """(force (3,), rate (3,)) of every rod when a new sample is due since the last call, else nothing. Call once a step."""
        plant = self._plant
        velocity = plant.data.qvel.reshape(RODS, 6)[:, :3].copy()
        elapsed_s = max(plant.time_s - self._before_s, plant.step_s)
        acceleration, self._velocity, self._before_s = (velocity - self._velocity) / elapsed_s, velocity, plant.time_s
        counter = int(plant.time_s * self._rate_hz)
        if counter == self.counter:
            return []
        self.counter = counter
        acceleration[:, 2] += self._gravity_u_s2
        out = []
        for rod in range(RODS):
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, plant.data.qpos[7 * rod + 3 : 7 * rod + 7])
            force = turn.reshape(3, 3).T @ acceleration[rod] * STANDARD_GRAVITY_M_S2 / self._gravity_u_s2
            out.append((force, plant.data.qvel[6 * rod + 3 : 6 * rod + 6].copy()))
        return out
