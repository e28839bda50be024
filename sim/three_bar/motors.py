"""One idea: the motor law. Command u in [-1, 1] -> spool speed -> rest length; positive commands shorten the cable."""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats
from sim.three_bar.robot_file import Actuators


def motor_step(motors: Actuators, rest_u: Floats, speed_rad_s: Floats, command: Floats, step_s: float) -> tuple[Floats, Floats]:
    """Rest lengths [u] and spool speeds [rad/s] (..., 6) one step later.

    The speed follows the command at once, the length changes by the mean of old and new speed.
    """
    speed = motors.max_speed_rad_s * np.clip(command, -1.0, 1.0)
    wound = 0.5 * (speed_rad_s + speed) * motors.spool_radius_u * step_s
    return np.clip(rest_u - wound, motors.rest_min_u, motors.rest_max_u), speed


def rest_lengths_over(
    motors: Actuators, rest_u: Floats, speed_rad_s: Floats, commands: Floats, step_s: float
) -> tuple[Floats, Floats]:
    """Rest lengths and speeds after each of T steps, (M, T, 6) each, for commands (M, T, 6) from rest_u, speed (6,)."""
    rests, speeds = np.empty_like(commands), np.empty_like(commands)
    rest = np.broadcast_to(rest_u, commands[:, 0].shape)
    speed = np.broadcast_to(speed_rad_s, commands[:, 0].shape)
    for t in range(commands.shape[1]):
        rest, speed = motor_step(motors, rest, speed, commands[:, t], step_s)
        rests[:, t], speeds[:, t] = rest, speed
    return rests, speeds
