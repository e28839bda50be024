"""A rolling strut robot as the daemon runs it: poses, motor boards and the planner process around the core."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onboard.clock import Clock
from onboard.link.endpoint import Endpoint
from onboard.link.motor_boards import MotorBoards
from onboard.link.pose_source import PoseSource
from onboard.navigation.console import Console
from onboard.navigation.core import NavigationCore
from onboard.navigation.mission import Mission, mission_text, recovery_of, with_library
from onboard.planning.client import PlannerClient
from onboard.ports import Recorder
from onboard.runtime.control_socket import Handler
from onboard.runtime.loop import LoopGroup
from onboard.runtime.parts import Record
from onboard.telemetry import schemas
from onboard.three_bar_robot import CAPS, ThreeBar, motor_robot, physics_hash


@dataclass(frozen=True, slots=True)
class NavigationOptions:
    """file: the robot's. poses: socket that the pose source sends to. broker: where the boards are."""

    file: Path
    poses: Path
    broker: Endpoint


class NavigationParts:
    """See onboard.runtime.parts; `begin` makes the core."""

    heart: NavigationCore

    def __init__(self, spec: ThreeBar, mission: Mission, options: NavigationOptions, clock: Clock) -> None:
        self.spec, self.mission, self.options, self._clock = spec, mission, options, clock
        self.motors = MotorBoards(motor_robot(spec, str(options.file)), options.broker, clock)
        self.poses = PoseSource(options.poses, CAPS)
        self.terrain = mission.data.terrain
        self.planner: PlannerClient | None = None

    @property
    def name(self) -> str:
        return self.spec.robot.name

    @property
    def physics_hash(self) -> str:
        return physics_hash(self.options.file)

    @property
    def supervisor_hz(self) -> float:
        return self.spec.rates.supervisor_hz

    @property
    def connected(self) -> bool:
        return self.motors.connected

    def warm_up(self) -> None:
        """Start the planner process: it loads its model and solves the way to the course's goal while boards come up."""
        self.terrain.check_goal(self.mission.goal)
        self.planner = PlannerClient(self.mission.data, self.mission.goal, self.mission.manifest, self._clock)

    def begin(self, recorder: Recorder, epoch_start: int) -> None:
        mission, data = self.mission, with_library(self.mission.data)
        t_s = self._clock.now_s()
        recorder.write(schemas.MISSION, t_s, schemas.encode({"t_s": t_s, "data": mission_text(data)}))
        self.heart = NavigationCore(
            self.spec, mission.settings, mission.world, self.motors, recorder, epoch_start, recovery_of(data)
        )

    def add_loops(self, loops: LoopGroup) -> None:
        loops.add("control", self.spec.rates.control_hz, self._control)

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        return [self.motors.run()]

    def console(self, loops: LoopGroup, record: Record, quit_daemon: Callable[[], None]) -> Handler:
        return Console(self, loops, self._clock, record, quit_daemon).answer

    def supervised(self, live: bool) -> None:
        self.motors.armed = live

    def close(self) -> None:
        if self.planner is not None:
            self.planner.close()
        self.poses.close()

    def _control(self, t_s: float) -> None:
        core, scale = self.heart, self.spec.units.unit_length_m
        now_s = self._clock.now_s()
        for taken_s, markers_m in self.poses.poll(now_s):
            core.pose(taken_s, markers_m / scale, now_s)
        planner = self.planner
        if planner is not None:
            decision = planner.poll()
            if decision is not None:
                core.decision(t_s, decision)
        core.control_tick(t_s)
        situation = core.due(t_s)
        if situation is not None and planner is not None:
            planner.ask(situation)
            core.driver.asked(t_s)
        elif planner is not None and (not planner.warm or planner.swapping):
            standing = core.look(t_s)
            if standing is not None and not planner.waiting:
                planner.ask(standing)
