"""A whole simulated three-bar robot on this computer: motor boards, plant in real time, and the real daemon with its planner."""

from __future__ import annotations

import os
from pathlib import Path

from onboard.link.broker import EmbeddedBroker
from onboard.three_bar_robot import ThreeBar, motor_robot
from sim.boards.launcher import BoardFleet
from sim.boards.motor_rig import motor_board_configs
from sim.rig import SimulatedRobot
from sim.three_bar.realtime import StrutReport


class SimulatedStruts(SimulatedRobot):
    """Like SimulatedRobot; `course`, `controller` and `model` by name."""

    report_kind = StrutReport

    def __init__(
        self,
        path: Path,
        spec: ThreeBar,
        folder: Path,
        *,
        course: str,
        controller: str = "value",
        model: str = "contact",
        seed: int = 0,
        runtime: Path | None = None,
        daemon_options: tuple[str, ...] = (),
    ) -> None:
        super().__init__(path, spec, folder, seed=seed, runtime=runtime, daemon_options=daemon_options)  # type: ignore[arg-type]
        self.robot = spec
        self.course, self.controller, self.model = course, controller, model
        self.poses = self._short("poses")

    @property
    def board_count(self) -> int:
        """How many motor boards there are."""
        return len(self.robot.motors.boards)

    def start_world(self) -> None:
        """Broker, boards and plant."""
        self._broker = EmbeddedBroker(self.robot.link.prefix, port=0)
        self._broker.start()
        robot = motor_robot(self.robot, str(self.path))
        self.fleet = BoardFleet(motor_board_configs(robot, self.endpoint, self.seed), self.folder / "boards")
        self.fleet.start()
        plant_socket = self._short("plant")
        words = ["-m", "sim.three_bar.realtime", str(self.path), "--course", self.course, "--seed", str(self.seed)]
        words += ["--boards", str(self.folder / "boards"), "--socket", str(plant_socket), "--poses", str(self.poses)]
        self.plant_process = self._spawn(words, "plant.log")
        self.plant = self._connect_plant(plant_socket)

    def _daemon_words(self) -> list[str]:
        words = ["-m", "onboard.cli.main", "run", "three_bar", "--hardware", "--robot", str(self.path)]
        words += ["--course", self.course, "--controller", self.controller, "--model", self.model, "--seed", str(self.seed)]
        return [*words, "--poses", str(self.poses)]

    def _short(self, name: str) -> Path:
        """A socket's path that fits into an address."""
        path = self.folder / f"{name}.sock"
        return path if len(os.fsencode(path)) < 100 else Path(f"/tmp/prestress-{name}-{os.getpid()}-{id(self) % 10000}.sock")
