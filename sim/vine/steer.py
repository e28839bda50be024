"""One idea: one steering episode: the full simulator as the plant, a camera with noise and delay, the onboard steerer, one clock.

The clock is simulated: a plan begins a planning period after its picture was asked for, whatever planning took on this
computer; what it took is reported beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onboard.clock import SimulatedClock
from onboard.messages import Floats
from onboard.planning.vine.field import Field, field_of
from onboard.planning.vine.shape import CentreLine
from onboard.planning.vine.steer import Steerer
from onboard.vine_robot import VineRobot
from sim.vine.goals import Task
from sim.vine.measure import joints
from sim.vine.robot import Robot
from sim.vine.simulator import Simulator
from sim.vine.state import Options, State

FRAME_S = 1 / 90
SETTLE_S = 1.0  # steered on after growth has stopped, before the distance counts


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


def field_for(robot: VineRobot, task: Task) -> Field:
    """The map that the planner gets of a task's obstacles."""
    shapes = [(item.corners, item.rounding_m) for item in task.scene.obstacles]
    return field_of(shapes, (robot.map.x_m[0], robot.map.y_m[0]), robot.map.cells, robot.map.cell_m)


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
        length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
        at = np.append(np.arange(0.0, length[-1] - 0.5 * camera.spacing_m, camera.spacing_m), length[-1])
        points = np.stack([np.interp(at, length, line[:, k]) for k in range(2)], axis=1)
        return CentreLine(stamp, points + camera.noise_m * self.rng.standard_normal(points.shape), *map(float, actual))


@dataclass
class Episode:
    """What came of it: distances of the true tip from the goal [m], times [s], planning times by wall and processor [s].

    lines: one a frame; tips: one a plan.
    """

    final_m: float
    nearest_m: float
    time_s: float
    length_m: float
    plan_s: list[float]
    plan_cpu_s: list[float]
    refused_plans: int
    worst_penetration_m: float
    lines: list[Floats]
    tips: list[Floats]


def steer(robot: VineRobot, task: Task, seed: int, threads: int = 1, progress: Callable[[float], None] | None = None) -> Episode:
    """Grow to the goal, or until the time is up or the tube is used up; then watch for a moment and measure."""
    steerer = Steerer(robot, field_for(robot, task), task.goal, seed, threads)
    plant, clock = Plant(robot, task, seed), SimulatedClock()
    period = max(1, round(1.0 / (robot.planner.rate_hz * FRAME_S)))
    glance = max(1, round(1.0 / (robot.camera.rate_hz * FRAME_S)))
    took: list[float] = []
    worked: list[float] = []
    tips: list[Floats] = []
    nearest = np.inf
    stopped = np.inf
    while clock.now_s() < min(robot.planner.time_limit_s, stopped) + SETTLE_S:
        now = clock.now_s()
        if now >= robot.planner.time_limit_s and not steerer.arrived:
            steerer.hold()
        begin, cpu = time.perf_counter(), time.process_time()
        steerer.see(plant.picture(now))
        steerer.plan(now, now + period * FRAME_S)
        took.append(time.perf_counter() - begin)
        worked.append(time.process_time() - cpu)
        for k in range(0, period, glance):
            now = clock.now_s()
            if steerer.watch(plant.picture(now), now):
                stopped = min(stopped, now)
            frames = min(glance, period - k)
            plant.run(np.stack([steerer.command(now + j * FRAME_S) for j in range(frames)]))
            clock.advance(frames * FRAME_S)
            nearest = min(nearest, float(np.linalg.norm(plant.tip() - task.goal)))
        tips.append(plant.tip())
        if progress:
            progress(clock.now_s())
    final = float(np.linalg.norm(plant.tip() - task.goal))
    length = float(np.hypot(*np.diff(plant.line(), axis=0).T).sum())
    return Episode(
        final,
        min(nearest, final),
        clock.now_s(),
        length,
        took,
        worked,
        steerer.refused,
        plant.worst_penetration_m,
        plant.lines,
        tips,
    )
