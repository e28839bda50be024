"""One idea: a three-bar robot can be stood on its end, which is stable and from which no gait starts."""

from __future__ import annotations

import mujoco
import numpy as np

from sim.three_bar.plant import Plant

ABOVE_U = 0.25  # of the lowest cap's centre: its radius is 0.175


def put_on_end(plant: Plant) -> None:
    """Turn the robot by a quarter turn where it is, its principal axis up, at rest just above the ground."""
    data, caps = plant.data, plant.caps()
    axis = (caps[1::2] - caps[0::2]).mean(axis=0)
    turn, middle = np.zeros(4), caps.mean(axis=0)
    mujoco.mju_axisAngle2Quat(turn, np.cross([0.0, 0.0, 1.0], [axis[0], axis[1], 0.0] / np.hypot(axis[0], axis[1])), np.pi / 2)
    for rod in range(3):
        pose, moved, turned = data.qpos[7 * rod : 7 * rod + 7], np.zeros(3), np.zeros(4)
        mujoco.mju_rotVecQuat(moved, pose[:3] - middle, turn)
        mujoco.mju_mulQuat(turned, turn, pose[3:].copy())
        pose[:3], pose[3:] = moved + middle, turned
    mujoco.mj_kinematics(plant.model, data)
    data.qpos[2::7] += ABOVE_U - plant.caps()[:, 2].min()
    data.qvel[:] = 0.0
    mujoco.mj_step1(plant.model, data)
