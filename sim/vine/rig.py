"""A whole simulated vine on this computer: valve board, simulator in real time, and the real daemon with its planner."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np

from onboard.growing.task import GrowthTask, Shape
from onboard.link.wire_types import TICKS_MASK
from onboard.vine_robot import VineRobot
from sim.boards.commission import commission
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet
from sim.rig import SimulatedRobot
from sim.vine.goals import Task
from sim.vine.realtime import VineReport

DRIFT_PPM = 40  # a board's clock, at most


def growth_task(task: Task) -> GrowthTask:
    """A simulated scene and its goal as the robot is told them."""
    shapes = [
        Shape(corners_m=[(float(x), float(y)) for x, y in item.corners], rounding_m=item.rounding_m)
        for item in task.scene.obstacles
    ]
    return GrowthTask(goal_m=(float(task.goal[0]), float(task.goal[1])), obstacles=shapes)


class SimulatedVine(SimulatedRobot):
    """Like SimulatedRobot; `task`: obstacles and goal."""

    report_kind = VineReport

    def __init__(
        self,
        robot: VineRobot,
        task: Task,
        folder: Path,
        *,
        seed: int = 0,
        runtime: Path | None = None,
        daemon_options: tuple[str, ...] = (),
    ) -> None:
        super().__init__(Path(robot.file), robot, folder, seed=seed, runtime=runtime, daemon_options=daemon_options)  # type: ignore[arg-type]
        self.robot, self.task = robot, task
        self.task_file = self.folder / "task.json"
        self.poses = self._short("poses")

    def start_world(self) -> None:
        """Board and plant."""
        self._claim_folder()
        self.task_file.write_bytes(msgspec.json.encode(growth_task(self.task)))
        valves = self.robot.valves()
        rng = np.random.default_rng([self.seed, 0xB0A4D])
        board = BoardConfig(
            id=self.robot.lines.board,
            app="valve",
            board="nano_rp2040",
            prefix=self.robot.link.prefix,
            channels=valves.actuators.boards[0].channels,
            tick_offset_us=int(rng.integers(0, TICKS_MASK)),
            drift_ppm=int(rng.integers(-DRIFT_PPM, DRIFT_PPM + 1)),
        )
        self.fleet = BoardFleet([board], self.folder / "boards")
        commission(valves, self.fleet)  # type: ignore[arg-type]  # of a robot it reads the actuators alone
        self.fleet.start()
        plant_socket = self._short("plant")
        words = ["-m", "sim.vine.realtime", str(self.path), "--task", str(self.task_file), "--seed", str(self.seed)]
        words += ["--boards", str(self.folder / "boards"), "--socket", str(plant_socket), "--poses", str(self.poses)]
        self.plant_process = self._spawn(words, "plant.log")
        self.plant = self._connect_plant(plant_socket)

    def _daemon_words(self) -> list[str]:
        assert self.fleet is not None
        words = ["-m", "onboard.cli.main", "run", "vine", "--hardware", "--robot", str(self.path), "--seed", str(self.seed)]
        port = self.fleet[self.robot.lines.board].port
        return [*words, "--task", str(self.task_file), "--poses", str(self.poses), "--port", port]

    def _daemon_url(self) -> str:
        return ""  # there is no broker: the board hangs on a serial line

    def _short(self, name: str) -> Path:
        """A socket's path that fits into an address."""
        path = self.folder / f"{name}.sock"
        return path if len(os.fsencode(path)) < 100 else Path(f"/tmp/prestress-{name}-{os.getpid()}-{id(self) % 10000}.sock")
