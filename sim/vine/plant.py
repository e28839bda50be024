"""One idea: the full simulator as a robot's plant behind slew-limited actuators, and the camera that looks at it."""

from __future__ import annotations

import numpy as np

from onboard.messages import Floats
from onboard.planning.vine.shape import CentreLine
from onboard.vine_robot import VineRobot
from sim.vine.goals import Task
from sim.vine.measure import joints
from sim.vine.robot import Robot
from sim.vine.simulator import Simulator
from sim.vine.state import Options, State

FRAME_S = 1 / 90


def plant_robot(robot: VineRobot) -> Robot:
    """The simulator's parameters for a robot's file."""
    body, a = robot.body, robot.actuators
    return Robot(
        half_length_m=0.5 * body.link_m,
        mass_kg=body.mass_kg,
        inertia_kg_m2=body.inertia_kg_m2,
        stiffness_nm=body.stiffness_n_m_per_rad,
        damping_nms=body.damping_n_m_s_per_rad,
        drag_ns_m=body.drag_n_s_per_m,
        radius_m=body.radius_m,
        friction=body.friction,
        pressure_pa=a.pressure.set_pa,
        top_rate_m_s=a.growth.max_m_s,
    )


def arc(line: Floats) -> Floats:
    """Arc lengths (P,) [m] of a centre line (P, 2) from its base."""
    length: Floats = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    return length


def evenly(line: Floats, count: int) -> Floats:
    """`count` points (count, 2) [m], evenly spaced along a centre line from base to tip."""
    length = arc(line)
    at = np.linspace(0.0, length[-1], count)
    return np.stack([np.interp(at, length, line[:, k]) for k in range(2)], axis=1)


class Plant:
    """The full simulator behind slew-limited actuators, and the camera that looks at it."""

    def __init__(self, robot: VineRobot, task: Task, seed: int) -> None:
        self.robot, self.rng = robot, np.random.default_rng([seed, 7])
        self.sim = Simulator(plant_robot(robot), [task.scene], Options(links=robot.body.links))
        self.state = self.sim.start(0.0)
        self.actual = np.zeros(2)  # base heading [rad], curvature [1/m]
        self.frames = 0
        self.seen: list[tuple[float, Floats, Floats]] = [(0.0, self.line(), self.actual.copy())]
        self.lines: list[Floats] = []
        self.worst_penetration_m = 0.0

    def line(self) -> Floats:
        """Centre line (P, 2) [m]."""
        return joints(self.state.q[0], int(self.state.links[0]), self.sim.settings.half)

    def tip(self) -> Floats:
        """Tip (2,) [m]."""
        tip: Floats = self.state.tip()[0]
        return tip

    def run(self, commands: Floats) -> None:
        """Frames of 1/90 s under commands (F, 3)."""
        controls = self.sim.controls(len(commands), self.state)
        for k, command in enumerate(commands):
            reach = self.robot.slew * FRAME_S
            self.actual = self.actual + np.clip(command[1:] - self.actual, -reach, reach)
            controls[k, 0, 0], controls[k, 0, 4], controls[k, 0, 5] = command[0], self.actual[0], self.actual[1]
        made = self.sim.rollout(self.state, controls)
        for k in range(len(commands)):
            self.state = made.state(k)
            self.frames += 1
            self.seen.append((self.frames * FRAME_S, self.line(), controls[k, 0, 4:6].copy()))
            self.lines.append(self.seen[-1][1])
        self.state = State(made.last.q, made.last.v, made.last.links, made.last.base)
        self.worst_penetration_m = max(self.worst_penetration_m, float(made.report.penetration_m.max()))

    def picture(self, now_s: float) -> CentreLine:
        """The newest picture that has arrived by `now_s`: noisy points at the camera's spacing, the actuators' reports then."""
        camera = self.robot.camera
        latest = np.floor((now_s - 1e-3 * camera.delay_ms) * camera.rate_hz + 1e-6) / camera.rate_hz
        stamp, line, actual = self.seen[max(0, min(round(latest / FRAME_S), len(self.seen) - 1))]
        length = arc(line)
        at = np.append(np.arange(0.0, length[-1] - 0.5 * camera.spacing_m, camera.spacing_m), length[-1])
        points = np.stack([np.interp(at, length, line[:, k]) for k in range(2)], axis=1)
        return CentreLine(stamp, points + camera.noise_m * self.rng.standard_normal(points.shape), *map(float, actual))
