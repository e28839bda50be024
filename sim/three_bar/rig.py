"""A whole simulated three-bar robot on this computer: motor boards, plant in real time, and the real daemon with its planner."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from onboard.link.board_json import encode_config
from onboard.link.serial_board import actuator_config
from onboard.link.wire_types import SETPOINT_PA, TICKS_MASK
from onboard.navigation.motors import boarded
from onboard.three_bar_robot import ThreeBar
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet
from sim.rig import SimulatedRobot
from sim.three_bar.realtime import StrutReport

DRIFT_PPM = 50  # of the boards' clocks, either way


class SimulatedStruts(SimulatedRobot):
    """Like SimulatedRobot; `course`, `controller` and `model` by name. There is no broker: boards hang on serial lines."""

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
        return len(self.robot.boards.motor)

    def start_world(self) -> None:
        """Boards and plant."""
        self.fleet = BoardFleet(motor_configs(self.robot, self.seed), self.folder / "boards")
        commission_motors(self.robot, self.path, self.fleet)
        self.fleet.start()
        plant_socket = self._short("plant")
        words = ["-m", "sim.three_bar.realtime", str(self.path), "--course", self.course, "--seed", str(self.seed)]
        words += ["--boards", str(self.folder / "boards"), "--socket", str(plant_socket), "--poses", str(self.poses)]
        self.plant_process = self._spawn(words, "plant.log")
        self.plant = self._connect_plant(plant_socket)

    def ports(self) -> dict[str, str]:
        """Motor board -> path of its serial line."""
        assert self.fleet is not None
        return {board.id: self.fleet[board.id].port for board in self.robot.boards.motor}

    def _daemon_words(self) -> list[str]:
        words = ["-m", "onboard.cli.main", "run", "three_bar", "--hardware", "--robot", str(self.path)]
        words += ["--course", self.course, "--controller", self.controller, "--model", self.model, "--seed", str(self.seed)]
        words += ["--poses", str(self.poses)]
        return words + [word for board, port in self.ports().items() for word in ("--port", f"{board}={port}")]

    def _daemon_url(self) -> str:
        return ""

    def _short(self, name: str) -> Path:
        """A socket's path that fits into an address."""
        path = self.folder / f"{name}.sock"
        return path if len(os.fsencode(path)) < 100 else Path(f"/tmp/prestress-{name}-{os.getpid()}-{id(self) % 10000}.sock")


def motor_configs(spec: ThreeBar, seed: int) -> list[BoardConfig]:
    """One configuration a board: clocks start anywhere and drift, drawn from the seed."""
    rng = np.random.default_rng([seed, 0xB0A4D])
    return [
        BoardConfig(
            id=board.id,
            board="nano_rp2040",
            prefix="prestress",
            tick_offset_us=int(rng.integers(0, TICKS_MASK)),
            drift_ppm=int(rng.integers(-DRIFT_PPM, DRIFT_PPM + 1)),
            app="valve",
            channels=board.channels,
        )
        for board in spec.boards.motor
    ]


def commission_motors(spec: ThreeBar, path: Path, fleet: BoardFleet) -> None:
    """Give the boards the configuration that they keep from their first day: they start at standstill."""
    valves = boarded(spec, str(path)).actuators
    for board in spec.boards.motor:
        file = fleet[board.id].jail / "config.json"
        file.write_bytes(encode_config(actuator_config(valves, board.channels, SETPOINT_PA)))
        owner = file.parent.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
