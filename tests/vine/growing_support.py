"""A growing robot without clock, socket and process: a board that obeys at once, the full simulator, a perfect camera."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onboard.growing.core import GrowthCore
from onboard.growing.lines import CHANNELS
from onboard.messages import BoardReport, Plan, Setpoints, frozen
from onboard.planning.vine.cost import WayLeft
from onboard.planning.vine.field import field_of
from onboard.planning.vine.play import Player
from onboard.resources import robot_file
from onboard.runtime.parts import LoopTotals
from onboard.safety.table import Event
from onboard.vine_robot import load_vine
from sim.vine.lines import PneumaticLines
from sim.vine.measure import joints
from sim.vine.plant import FRAME_S, evenly, plant_robot
from sim.vine.scene import Scene
from sim.vine.simulator import Simulator
from sim.vine.state import Options

ROBOT = load_vine(robot_file("vine"))
GOAL = np.array([0.3, 0.0])


class Board:
    """The valve board as sink and as registers; on stop or silence all lines go to the safe pressure."""

    def __init__(self) -> None:
        self.epoch, self.armed, self.latched = 0, False, False
        self.output_pa = np.zeros(CHANNELS)
        self.measured_pa = np.zeros(CHANNELS)
        self.sent: list[Setpoints] = []
        self.now_s = 0.0
        self._reports: list[BoardReport] = []

    def arm(self, epoch: int) -> None:
        self.epoch, self.armed = epoch, True

    def disarm(self) -> None:
        self.armed, self.output_pa = False, np.zeros(CHANNELS)

    def stop(self) -> None:
        self.armed, self.latched, self.output_pa = False, True, np.zeros(CHANNELS)

    def send(self, setpoints: Setpoints) -> None:
        self.sent.append(setpoints)
        if self.armed:
            self.output_pa = setpoints.value.copy()

    def fall_silent(self) -> None:
        """As the firmware at its deadline."""
        self.stop()

    def say(self, t_s: float) -> None:
        report = BoardReport("vine0", t_s, 7, self.epoch, self.armed, self.latched, False, 0, 0, frozen(self.measured_pa))
        self._reports = [report]

    def reports(self) -> Sequence[BoardReport]:
        return self._reports

    def outputs(self) -> list[float]:
        return self.output_pa.tolist()

    def output_writes(self) -> int:
        return 1

    def write_pressures(self, pressures_pa: Sequence[float]) -> None:
        self.measured_pa = np.array(pressures_pa)


class Tape:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, float, bytes]] = []

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        self.messages.append((topic, t_s, payload))


class Grower:
    """Core, board and simulator on a clock of their own. blind, silent, idle: no pictures, no reports, no plans."""

    def __init__(self) -> None:
        self.board, self.tape = Board(), Tape()
        self.field = field_of([], (ROBOT.map.x_m[0], ROBOT.map.y_m[0]), ROBOT.map.cells, ROBOT.map.cell_m)
        way = WayLeft(self.field, GOAL, ROBOT.body.radius_m, ROBOT.planner.keep_off_m)
        self.core = GrowthCore(ROBOT, Player(ROBOT, way, GOAL), self.board, self.tape, 100)
        self.sim = Simulator(plant_robot(ROBOT), [Scene("free")], Options(links=ROBOT.body.links))
        self.state = self.sim.start(0.0)
        self.lines = PneumaticLines(ROBOT, self.board)  # type: ignore[arg-type]
        self.blind = self.silent = self.idle = False
        self.command = (0.15, 0.0, 0.0)  # what plans want
        self.frames = 0

    @property
    def t_s(self) -> float:
        return FRAME_S * self.frames

    @property
    def length_m(self) -> float:
        line = self.line()
        return float(np.hypot(*np.diff(line, axis=0).T).sum())

    def line(self) -> np.ndarray:
        return joints(self.state.q[0], int(self.state.links[0]), self.sim.settings.half)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / FRAME_S)):
            self.frames += 1
            self.lines.step(FRAME_S)
            controls = self.sim.controls(1, self.state)
            self.lines.controls(controls[0, 0])
            self.state = self.sim.rollout(self.state, controls, keep=False).last
            if not self.silent:
                self.board.say(self.t_s)
            if self.frames % 2 == 0:
                self._control()
            if self.frames % 4 == 0:
                self.core.supervisor_tick(self.t_s, LoopTotals(ticks=self.frames))

    def _control(self) -> None:
        if not self.blind:
            points = evenly(self.line(), ROBOT.camera.points)
            self.core.picture(self.t_s - 0.02, np.column_stack([points, np.zeros(len(points))]), self.t_s)
        self.core.control_tick(self.t_s)
        if self.core.due(self.t_s) and not self.idle:
            growth = 0.0 if self.core.player.arrived else self.command[0]
            value = frozen(np.tile((growth, *self.command[1:]), (30, 1)))
            start_s = self.t_s + 0.2
            self.core.plan(self.t_s, Plan(start_s, 1 / 15, value, start_s + 2.0, self.t_s, 1.0))

    def ready(self) -> None:
        """Seen, armed, valves open."""
        self.run(0.3)
        self.core.request(self.t_s, Event.ARM)
        self.run(0.5)

    def grow(self, seconds: float) -> None:
        self.ready()
        self.core.request(self.t_s, Event.GO)
        self.run(seconds)
