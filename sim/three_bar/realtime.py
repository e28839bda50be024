"""The three-bar plant as a process of its own, in real time: motor boards' registers in, rest lengths back, poses out.

    python -m sim.three_bar.realtime robots/three_bar.toml --course C --boards DIR --socket PATH --poses SOCKET [--seed N]

Requests on the socket (JSON lines, key "do"): hide {seconds}: no poses for a while; push {force, seconds}: along x, y, z
[g u/s^2] on the first rod; tip {}: onto its end; press_stop {board, pressed}; lock {motor, locked}; quit.
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
from onboard.link.pose_source import encode_pose
from onboard.messages import Floats
from onboard.runtime.realtime import enter_realtime
from onboard.three_bar_robot import motor_robot
from sim.boards.motor_rig import MotorPlantFeed
from sim.three_bar.course import load_course, scene_of
from sim.three_bar.imu import RodImus
from sim.three_bar.navigation.conditions import Conditions
from sim.three_bar.navigation.trial import place
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import load_robot
from sim.three_bar.tip import put_on_end
from sim.tower.feed import PlantFeed

PRIORITY = 10
REPORT_EVERY = 5  # plant steps
MAX_LAG_S = 0.25  # later than this the schedule is moved, not caught up


class StrutReport(msgspec.Struct, frozen=True):
    """The plant now: host time, simulated time, caps (6, 3) and rest lengths [u], spool speeds; how late; why it ended."""

    t_s: float = 0.0
    plant_s: float = 0.0
    caps_u: list[list[float]] = []
    rest_u: list[float] = []
    speed_rad_s: list[float] = []
    lag_s: float = 0.0
    slips: int = 0
    failed: str = ""
    refused: str = ""


class PoseFeed:
    """Sends cap positions to the pose source's socket: noisy, late, with drop-outs; never waits."""

    def __init__(self, path: Path, conditions: Conditions, rng: np.random.Generator, step_s: float, unit_m: float) -> None:
        self.path, self.conditions, self.rng, self.step_s, self.unit_m = path, conditions, rng, step_s, unit_m
        self.hidden_until_s = -1.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._under_way: deque[tuple[float, Floats]] = deque()
        self._boot_id, self._sequence = int.from_bytes(os.urandom(4), "little"), 0

    def tick(self, t_s: float, caps_u: Floats) -> None:
        """Measure at `t_s` and send what is due."""
        c = self.conditions
        noise, lost, gap = self.rng.standard_normal(caps_u.shape), self.rng.random(), self.rng.random()
        if c.gap_every_s > 0.0 and gap < self.step_s / c.gap_every_s:
            self.hidden_until_s = max(self.hidden_until_s, t_s + c.gap_s)
        if lost >= c.loss and t_s >= self.hidden_until_s:
            self._under_way.append((t_s, self.unit_m * (caps_u + c.noise_u * noise)))
        while self._under_way and t_s - self._under_way[0][0] >= c.delay_s - 1e-9:
            taken_s, markers_m = self._under_way.popleft()
            self._sequence += 1
            with contextlib.suppress(OSError):  # nobody listens yet, or no longer
                self._socket.sendto(encode_pose(self._boot_id, self._sequence, t_s - taken_s, markers_m), str(self.path))


class RealtimeStruts:
    """Steps the plant when its time has come, coupled to its boards and its pose feed."""

    def __init__(self, plant: Plant, drives: MotorPlantFeed, poses: PoseFeed, feed: PlantFeed, clock: Clock) -> None:
        self.plant, self.drives, self.poses, self.feed, self._clock = plant, drives, poses, feed, clock
        self.imus = RodImus(plant)
        self.quit, self.slips, self.lag_s = False, 0, 0.0
        self._index, self._start_s = 0, clock.now_s()
        self._push_until_s = -1.0

    @property
    def due_s(self) -> float:
        """When the next step is due, host monotonic [s]."""
        return self._start_s + self._index * self.plant.step_s

    def run_due(self) -> None:
        """Do every step whose time has come; raises RobotFault when the simulation broke down."""
        now_s = self._clock.now_s()
        self.lag_s = now_s - self.due_s
        if self.lag_s > MAX_LAG_S:
            self._start_s += self.lag_s
            self.slips += 1
        while self.due_s <= now_s and not self.quit:
            self._step()

    def report(self, failed: str = "", refused: str = "") -> StrutReport:
        """The plant as it is now."""
        plant = self.plant
        return StrutReport(
            t_s=self.due_s,
            plant_s=plant.time_s,
            caps_u=plant.caps().tolist(),
            rest_u=plant.rest_u.tolist(),
            speed_rad_s=plant.speed_rad_s.tolist(),
            lag_s=self.lag_s,
            slips=self.slips,
            failed=failed,
            refused=refused,
        )

    def _step(self) -> None:
        if self.plant.time_s >= self._push_until_s:
            self.plant.data.xfrc_applied[:] = 0.0
        self.plant.follow(*self.drives.step(self.plant.step_s))
        for rod, (force, rate) in enumerate(self.imus.sample()):
            self.drives.imu(rod, self.imus.counter, force, rate)
        self._index += 1
        self.poses.tick(self.due_s, self.plant.caps())
        if self._index % REPORT_EVERY == 0:
            for request in self.feed.requests():
                self._answer(request)
            if self.feed.clients:
                self.feed.publish(self.report())

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            what = request.get("do")
            if what == "hide":
                self.poses.hidden_until_s = self.due_s + float(request["seconds"])
            elif what == "push":
                self.plant.data.xfrc_applied[1, :3] = request["force"]
                self._push_until_s = self.plant.time_s + float(request["seconds"])
            elif what == "tip":
                put_on_end(self.plant)
            elif what == "press_stop":
                self.drives.press_stop(int(request["board"]), bool(request["pressed"]))
            elif what == "lock":
                self.drives.lock(int(request["motor"]), bool(request["locked"]))
            elif what == "quit":
                self.quit = True
            else:
                raise UsageError(f"unknown request {what!r}")
        except (PrestressError, KeyError, TypeError, ValueError) as error:
            self.feed.publish(self.report(refused=f"{request.get('do')}: {error!r}"))


def run(world: RealtimeStruts, stopped: list[int]) -> None:
    """Until a signal or a request to quit; raises RobotFault after telling the clients."""
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
    parser = argparse.ArgumentParser(prog="python -m sim.three_bar.realtime", description="The three-bar plant in real time.")
    parser.add_argument("robot", type=Path, help="the robot's file")
    parser.add_argument("--course", required=True)
    parser.add_argument("--boards", type=Path, required=True, help="folder of the virtual boards")
    parser.add_argument("--socket", type=Path, required=True, help="where to publish the truth")
    parser.add_argument("--poses", type=Path, required=True, help="socket of the daemon's pose source")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _: stopped.append(got))
    try:
        spec, course = load_robot(options.robot), load_course(options.course)
        rng = np.random.default_rng([options.seed, 0])
        plant = Plant(spec, scene_of(course))
        place(plant, course, rng)
        poses = PoseFeed(options.poses, Conditions(), rng, plant.step_s, spec.units.unit_length_m)
        drives = MotorPlantFeed(motor_robot(spec), options.boards)
        for line in enter_realtime(PRIORITY).lines:
            print(f"plant: {line}", flush=True)
        run(RealtimeStruts(plant, drives, poses, PlantFeed(options.socket), WallClock()), stopped)
    except PrestressError as error:
        print(f"plant: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
