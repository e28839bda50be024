"""The full vine simulator as a process of its own, in real time: the valve board's registers in, pictures out.

    python -m sim.vine.realtime robots/vine.toml --task FILE --boards DIR --socket PATH --poses SOCKET [--seed N]

Requests on the socket (JSON lines, key "do"): hide {seconds}: no pictures for a while; press_stop {pressed}; quit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
import sys
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onboard.clock import Clock, KernelTimer, WallClock
from onboard.errors import PrestressError, UsageError
from onboard.growing.task import GrowthTask, read_task
from onboard.link.pose_source import encode_pose
from onboard.messages import Floats
from onboard.runtime.realtime import enter_realtime
from onboard.vine_robot import VineRobot, load_vine
from sim.boards.registers import ValveRegisterFile
from sim.tower.feed import PlantFeed
from sim.vine.lines import PneumaticLines
from sim.vine.measure import joints
from sim.vine.plant import FRAME_S, evenly, plant_robot
from sim.vine.scene import Obstacle, Scene
from sim.vine.simulator import Simulator
from sim.vine.state import Options

PRIORITY = 10
REPORT_EVERY = 3  # frames
MAX_LAG_S = 0.25  # later than this the schedule is moved, not caught up


class VineReport(msgspec.Struct, frozen=True):
    """The plant now: host time, simulated time, centre line [m], actuators' values, how late, worst penetration, why it ended."""

    t_s: float = 0.0
    plant_s: float = 0.0
    line_m: list[list[float]] = []
    values: list[float] = []
    free: bool = False
    penetration_m: float = 0.0
    unconverged: int = 0
    lag_s: float = 0.0
    slips: int = 0
    failed: str = ""
    refused: str = ""


def scene_of(task: GrowthTask) -> Scene:
    """The task's obstacles as the simulator has them."""
    return Scene("task", tuple(Obstacle(np.array(item.corners_m), item.rounding_m) for item in task.obstacles))


class Camera:
    """Sends noisy points along the centre line to the pose source's socket, late; never waits."""

    def __init__(self, path: Path, robot: VineRobot, rng: np.random.Generator) -> None:
        self.path, self.robot, self.rng = path, robot.camera, rng
        self.hidden_until_s = -1.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._under_way: deque[tuple[float, Floats]] = deque()
        self._boot_id, self._sequence, self._next_s = int.from_bytes(os.urandom(4), "little"), 0, -1e300

    def tick(self, t_s: float, line: Floats) -> None:
        """Look at the centre line (P, 2) [m] at `t_s`, when it is time, and send what is due."""
        if t_s >= self._next_s - 1e-6:
            self._next_s = max(self._next_s, t_s - FRAME_S) + 1.0 / self.robot.rate_hz
            if t_s >= self.hidden_until_s:
                points = evenly(line, self.robot.points)
                noisy = points + self.robot.noise_m * self.rng.standard_normal(points.shape)
                self._under_way.append((t_s, np.column_stack([noisy, np.zeros(len(noisy))])))
        while self._under_way and t_s - self._under_way[0][0] >= 1e-3 * self.robot.delay_ms - 1e-9:
            taken_s, points = self._under_way.popleft()
            self._sequence += 1
            with contextlib.suppress(OSError):  # nobody listens yet, or no longer
                self._socket.sendto(encode_pose(self._boot_id, self._sequence, t_s - taken_s, points), str(self.path))


class RealtimeVine:
    """Steps the simulator when its time has come, coupled to the valve board and the camera."""

    def __init__(
        self, robot: VineRobot, scene: Scene, lines: PneumaticLines, camera: Camera, feed: PlantFeed, clock: Clock
    ) -> None:
        self.lines, self.camera, self.feed, self._clock = lines, camera, feed, clock
        self.sim = Simulator(plant_robot(robot), [scene], Options(links=robot.body.links))
        self.state = self.sim.start(0.0)
        self.sim.rollout(self.state, self.sim.controls(1, self.state))  # compiled or loaded before the clock starts
        self.quit, self.slips, self.lag_s = False, 0, 0.0
        self.penetration_m, self.unconverged = 0.0, 0
        self._index, self._start_s = 0, clock.now_s()

    @property
    def due_s(self) -> float:
        """When the next frame is due, host monotonic [s]."""
        return self._start_s + self._index * FRAME_S

    def run_due(self) -> None:
        """Do every frame whose time has come."""
        now_s = self._clock.now_s()
        self.lag_s = now_s - self.due_s
        if self.lag_s > MAX_LAG_S:
            self._start_s += self.lag_s
            self.slips += 1
        while self.due_s <= now_s and not self.quit:
            self._frame()

    def line(self) -> Floats:
        """Centre line (P, 2) [m]."""
        return joints(self.state.q[0], int(self.state.links[0]), self.sim.settings.half)

    def report(self, failed: str = "", refused: str = "") -> VineReport:
        """The plant as it is now."""
        return VineReport(
            t_s=self.due_s,
            plant_s=self._index * FRAME_S,
            line_m=self.line().tolist(),
            values=self.lines.values.tolist(),
            free=self.lines.free,
            penetration_m=self.penetration_m,
            unconverged=self.unconverged,
            lag_s=self.lag_s,
            slips=self.slips,
            failed=failed,
            refused=refused,
        )

    def _frame(self) -> None:
        self.lines.step(FRAME_S)
        controls = self.sim.controls(1, self.state)
        self.lines.controls(controls[0, 0])
        made = self.sim.rollout(self.state, controls)
        self.state = made.last
        self.penetration_m = max(self.penetration_m, float(made.report.penetration_m.max()))
        self.unconverged += int(made.report.status[0, 0]) & 1
        self._index += 1
        self.camera.tick(self.due_s, self.line())
        if self._index % REPORT_EVERY == 0:
            for request in self.feed.requests():
                self._answer(request)
            if self.feed.clients:
                self.feed.publish(self.report())

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            what = request.get("do")
            if what == "hide":
                self.camera.hidden_until_s = self.due_s + float(request["seconds"])
            elif what == "press_stop":
                self.lines.registers.press_stop(bool(request["pressed"]))
            elif what == "quit":
                self.quit = True
            else:
                raise UsageError(f"unknown request {what!r}")
        except (PrestressError, KeyError, TypeError, ValueError) as error:
            self.feed.publish(self.report(refused=f"{request.get('do')}: {error!r}"))


def run(world: RealtimeVine, stopped: list[int]) -> None:
    """Until a signal or a request to quit."""
    timer = KernelTimer()
    try:
        while not (stopped or world.quit):
            timer.arm(world.due_s)
            select.select([timer.fd], [], [], 0.5)
            timer.acknowledge()
            world.run_due()
    except PrestressError as error:
        world.feed.publish(world.report(failed=str(error)))
        raise
    finally:
        timer.close()
        world.feed.close()


def main(arguments: list[str] | None = None) -> int:
    """The process; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m sim.vine.realtime", description="The vine simulator in real time.")
    parser.add_argument("robot", type=Path, help="the robot's file")
    parser.add_argument("--task", type=Path, required=True, help="obstacles and goal")
    parser.add_argument("--boards", type=Path, required=True, help="folder of the virtual boards")
    parser.add_argument("--socket", type=Path, required=True, help="where to publish the truth")
    parser.add_argument("--poses", type=Path, required=True, help="socket of the daemon's pose source")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _: stopped.append(got))
    try:
        robot, task = load_vine(options.robot), read_task(options.task)
        registers = ValveRegisterFile(options.boards / robot.lines.board / "sim" / "registers.bin", len(robot.line_map.low) + 1)
        camera = Camera(options.poses, robot, np.random.default_rng([options.seed, 7]))
        feed, lines = PlantFeed(options.socket), PneumaticLines(robot, registers)
        world = RealtimeVine(robot, scene_of(task), lines, camera, feed, WallClock())
        for line in enter_realtime(PRIORITY).lines:
            print(f"plant: {line}", flush=True)
        run(world, stopped)
    except PrestressError as error:
        print(f"plant: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
