"""A growing robot as the daemon runs it: pictures, valve board and the planner process around the core."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onboard.clock import Clock
from onboard.growing.console import Console
from onboard.growing.core import GrowthCore
from onboard.growing.task import GrowthTask
from onboard.link.pose_source import PoseSource
from onboard.link.serial_boards import SerialBoards
from onboard.messages import Floats
from onboard.planning.vine.client import GrowthPlanner
from onboard.planning.vine.cost import WayLeft
from onboard.planning.vine.play import Player
from onboard.planning.vine.process import PlannerData
from onboard.ports import Recorder
from onboard.runtime.control_socket import Handler
from onboard.runtime.loop import LoopGroup
from onboard.runtime.parts import Record
from onboard.vine_robot import VineRobot


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """poses: socket that the camera sends to. port: serial port of the valve board. seed: of the planner."""

    poses: Path
    port: str
    seed: int = 0


class GrowthParts:
    """See onboard.runtime.parts; `begin` makes the core."""

    heart: GrowthCore

    def __init__(self, spec: VineRobot, task: GrowthTask, options: GrowthOptions, clock: Clock) -> None:
        self.spec, self.task, self._options, self._clock = spec, task, options, clock
        self.boards = SerialBoards(spec.valves(), clock, {spec.lines.board: options.port})
        self.field = task.field(spec)
        self.way = self.way_to(task.goal)  # refuses a goal that cannot be, before anything moves
        self.poses = PoseSource(options.poses, spec.camera.points)
        self.planner: GrowthPlanner | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def physics_hash(self) -> str:
        return self.spec.physics_hash

    @property
    def supervisor_hz(self) -> float:
        return self.spec.rates.supervisor_hz

    @property
    def connected(self) -> bool:
        return True  # there is no network between this computer and the board

    def way_to(self, goal: Floats) -> WayLeft:
        """Raises PlanningError for a goal off the map or in an obstacle."""
        return WayLeft(self.field, goal, self.spec.body.radius_m, self.spec.planner.keep_off_m)

    def aim(self, goal: Floats) -> None:
        """Another goal for player and planner."""
        self.heart.player.aim(goal, self.way_to(goal))
        if self.planner is not None:
            self.planner.set_goal(goal)

    def warm_up(self) -> None:
        """Start the planner process: it loads its model while the board comes up."""
        self.planner = GrowthPlanner(PlannerData(self.spec.file, self.task, self._options.seed), self._clock)

    def begin(self, recorder: Recorder, epoch_start: int) -> None:
        player = Player(self.spec, self.way, self.task.goal)
        self.heart = GrowthCore(self.spec, player, self.boards, recorder, epoch_start)

    def add_loops(self, loops: LoopGroup) -> None:
        loops.add("control", self.spec.rates.control_hz, self._control)

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        return [self.boards.run()]

    def console(self, loops: LoopGroup, record: Record, quit_daemon: Callable[[], None]) -> Handler:
        return Console(self, loops, self._clock, record, quit_daemon).answer

    def supervised(self, live: bool) -> None:
        """Nothing beside the core hangs on it."""

    def close(self) -> None:
        if self.planner is not None:
            self.planner.close()
        self.poses.close()

    def _control(self, t_s: float) -> None:
        core, planner, now_s = self.heart, self.planner, self._clock.now_s()
        for taken_s, points_m in self.poses.poll(now_s):
            core.picture(taken_s, points_m, now_s)
        plan = planner.poll(core.player.arrived) if planner is not None else None
        if plan is not None:
            core.plan(t_s, plan)
        core.control_tick(t_s)
        if planner is None or (not core.growing and planner.warm) or (planner.waiting and not planner.warm):
            return
        if core.due(t_s) and core.line is not None:
            period_s = 1.0 / self.spec.planner.rate_hz
            planner.ask(core.player, core.line, t_s, t_s + period_s, core.growing)
