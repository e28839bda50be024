"""One idea: the simulated robot. Motor commands in, cap positions and cable lengths out, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from onboard.errors import NotANumberError, RobotFault
from onboard.messages import Floats, frozen
from sim.three_bar.course import Scene, signed_distance
from sim.three_bar.mjcf import build_xml
from sim.three_bar.motors import motor_step
from sim.three_bar.robot_file import CABLES, ThreeBar

RESET_WARNINGS = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
)
CLEARANCE_U = 0.002  # gap under the lowest cap when the robot is put down


def flat_scene(spec: ThreeBar) -> Scene:
    """Level ground with the friction of the robot's file."""
    return Scene("flat", spec.contact.friction, spec.bodies.housing_radius_u, frozen(np.eye(3)))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that decides the future. physics: MuJoCo's integration state; rest_u, speed_rad_s (6,)."""

    physics: Floats
    rest_u: Floats
    speed_rad_s: Floats


class Plant:
    """The robot in a scene. Lengths in u, times in s; nothing here knows about goals."""

    def __init__(self, spec: ThreeBar, scene: Scene | None = None) -> None:
        self.spec = spec
        self.scene = scene or flat_scene(spec)
        self.model = mujoco.MjModel.from_xml_string(build_xml(spec, self.scene))
        self.data = mujoco.MjData(self.model)
        self.step_s = spec.plant.step_s
        self.world = self.scene.world()
        self._caps = np.array([self.model.site(f"cap{i}").id for i in range(6)])
        self._signature = mujoco.mjtState.mjSTATE_INTEGRATION
        self.rest_u = np.full(CABLES, spec.actuators.rest_start_u)
        self.speed_rad_s = np.zeros(CABLES)
        self.reset()

    def reset(self, x_u: float = 0.0, y_u: float = 0.0, yaw_rad: float = 0.0) -> None:
        """Put the robot down at rest at (x, y), turned by yaw, just above whatever lies there, cables at their start lengths.

        Raises RobotFault when it cannot be put down without touching an obstacle from the side.
        """
        mujoco.mj_resetData(self.model, self.data)
        self.rest_u = np.full(CABLES, self.spec.actuators.rest_start_u)
        self.speed_rad_s = np.zeros(CABLES)
        turn = np.array([np.cos(yaw_rad / 2.0), 0.0, 0.0, np.sin(yaw_rad / 2.0)])
        for rod in range(3):
            pose = self.data.qpos[7 * rod : 7 * rod + 7]
            moved, turned = np.zeros(3), np.zeros(4)
            mujoco.mju_rotVecQuat(moved, pose[:3].copy(), turn)
            mujoco.mju_mulQuat(turned, turn, pose[3:].copy())
            pose[:3], pose[3:] = moved + np.array([x_u, y_u, 0.0]), turned
        self.data.ctrl[:] = self.rest_u
        self._lift()
        mujoco.mj_step1(self.model, self.data)

    def _lift(self) -> None:
        radius = self.spec.bodies.cap_radius_u
        for _ in range(60):
            mujoco.mj_kinematics(self.model, self.data)
            left, right = self.caps()[0::2, None], self.caps()[1::2, None]
            points = left + (right - left) * np.linspace(0.0, 1.0, 9)[:, None]
            gap = float(signed_distance(points, self.world).min()) - radius
            if gap >= 0.0:
                self.data.qpos[2::7] -= max(gap - CLEARANCE_U, 0.0)
                return
            self.data.qpos[2::7] += CLEARANCE_U - gap
        raise RobotFault(f"the robot does not fit at its start in scene {self.scene.name!r}")

    def settle(self, seconds: float | None = None) -> None:
        """Let it come to rest with the motors off (3 s by the robot's file)."""
        self.run(np.zeros(CABLES), self.spec.gait.settle_s if seconds is None else seconds)

    def run(self, command: Floats, seconds: float) -> None:
        """Hold one motor command for a while."""
        for _ in range(round(seconds / self.step_s)):
            self.step(command)

    def step(self, command: Floats) -> None:
        """One step with motor commands (6,) in [-1, 1] (clipped).

        Raises NotANumberError for a non-finite command and RobotFault when the simulation broke down: MuJoCo then has put the
        robot back to its start by itself, so whatever follows is not this trial any more.
        """
        if not np.isfinite(command).all():
            raise NotANumberError(f"motor command {command} is not finite")
        self.follow(*motor_step(self.spec.actuators, self.rest_u, self.speed_rad_s, command, self.step_s))

    def follow(self, rest_u: Floats, speed_rad_s: Floats) -> None:
        """One step with rest lengths (6,) [u] and spool speeds (6,) that drives outside have made. Raises as `step`."""
        self.rest_u, self.speed_rad_s = rest_u, speed_rad_s
        self.data.ctrl[:] = self.rest_u
        mujoco.mj_step2(self.model, self.data)
        mujoco.mj_step1(self.model, self.data)  # after mj_step, positions and lengths would lag one step behind
        if self.resets():
            raise RobotFault(f"simulation diverged at {self.data.time:.2f} s and was reset by MuJoCo")

    def resets(self) -> int:
        """How often MuJoCo has put the robot back to its start because the state blew up."""
        return int(sum(self.data.warning[kind].number for kind in RESET_WARNINGS))

    @property
    def time_s(self) -> float:
        """Simulated time since the last reset."""
        return float(self.data.time)

    def caps(self) -> Floats:
        """Cap centres (6, 3) [u]; left caps are the even ones."""
        return np.array(self.data.site_xpos[self._caps])

    def cable_lengths(self) -> Floats:
        """Measured lengths (6,) [u] of the driven cables."""
        return np.array(self.data.ten_length[:CABLES])

    def cable_pull(self) -> Floats:
        """Spring force (6,) [g u/s^2] in the driven cables, zero when slack; the damper acts beside it."""
        stretch = self.cable_lengths() - self.rest_u
        return self.spec.tendons.driven.stiffness_g_s2 * np.maximum(stretch, 0.0)

    def snapshot(self) -> Snapshot:
        """The present state, to come back to or to branch off from."""
        physics = np.zeros(mujoco.mj_stateSize(self.model, self._signature))
        mujoco.mj_getState(self.model, self.data, physics, self._signature)
        return Snapshot(frozen(physics), frozen(self.rest_u), frozen(self.speed_rad_s))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot taken from a plant with the same robot and scene."""
        mujoco.mj_setState(self.model, self.data, snapshot.physics, self._signature)
        self.rest_u, self.speed_rad_s = snapshot.rest_u.copy(), snapshot.speed_rad_s.copy()
        mujoco.mj_step1(self.model, self.data)
