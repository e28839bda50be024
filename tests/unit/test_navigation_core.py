"""The heart of a rolling robot: poses, reports and decisions in, motor speeds out; the same in, the same out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from onboard.errors import SafetyError
from onboard.messages import BoardReport, Plan, Setpoints, frozen
from onboard.navigation.core import NavigationCore
from onboard.planning.course import load_course, scene_of
from onboard.planning.settings import load_settings
from onboard.runtime.parts import LoopTotals
from onboard.safety.table import Event, State
from onboard.three_bar_robot import load_robot

SPEC = load_robot()
SETTINGS = load_settings("three_bar")
WORLD = scene_of(load_course("flat_obstacle")).world()
GOAL = np.array([-5.0, 0.0])


class Boards:
    """Boards that obey at once and say so."""

    def __init__(self) -> None:
        self.epoch, self.armed, self.silent = 0, False, False
        self.sent: list[Setpoints] = []
        self._reports: list[BoardReport] = []

    def arm(self, epoch: int) -> None:
        self.epoch, self.armed = epoch, True

    def disarm(self) -> None:
        self.armed = False

    def stop(self) -> None:
        self.armed = False

    def send(self, setpoints: Setpoints) -> None:
        self.sent.append(setpoints)

    def say(self, t_s: float) -> None:
        rest = frozen([1.5, 1.5])
        self._reports = [
            BoardReport(board.id, t_s, 7, self.epoch, self.armed, False, False, 0, 0, rest) for board in SPEC.motors.boards
        ]

    def reports(self) -> Sequence[BoardReport]:
        return self._reports


class Tape:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, float, bytes]] = []

    def write(self, topic: str, t_s: float, payload: bytes) -> None:
        self.messages.append((topic, t_s, payload))


class Robot:
    """A core on a clock of its own, standing at its start; `blind` and `silent` take poses and boards away."""

    def __init__(self) -> None:
        self.boards, self.tape = Boards(), Tape()
        self.core = NavigationCore(SPEC, SETTINGS, WORLD, self.boards, self.tape, 100)
        self.tick, self.blind, self.silent, self.planning = 0, False, False, True

    @property
    def t_s(self) -> float:
        return 0.01 * self.tick

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.01)):
            self.tick += 1
            if not self.silent:
                self.boards.say(self.t_s)
            if not self.blind:
                self.core.pose(self.t_s - 0.03, SPEC.start_caps, self.t_s)
            self.core.control_tick(self.t_s)
            situation = self.core.due(self.t_s)
            if situation is not None:
                self.core.driver.asked(self.t_s)
                if self.planning:
                    value = frozen(np.full((200, 6), 0.5))
                    self.core.decision(
                        self.t_s, Plan(situation.start_s, 0.01, value, situation.start_s + 2.0, situation.t_s, 1.0)
                    )
            if self.tick % 2 == 0:
                self.core.supervisor_tick(self.t_s, LoopTotals(ticks=self.tick))

    def drive(self) -> None:
        self.run(1.0)
        self.core.request(self.t_s, Event.ARM)
        self.run(0.1)
        self.core.request(self.t_s, Event.GO, GOAL)
        self.run(1.0)


@pytest.fixture
def robot() -> Robot:
    one = Robot()
    one.drive()
    return one


def test_it_drives_by_plans_once_it_is_armed_and_told_where(robot: Robot) -> None:
    assert robot.core.supervisor.state is State.ACTIVE
    assert np.all(robot.boards.sent[-1].value == 0.5) and robot.boards.sent[-1].source == "plan"


def test_a_goal_must_be_two_finite_numbers_and_the_robot_armed(robot: Robot) -> None:
    for wrong in (None, np.zeros(3), np.array([np.nan, 0.0])):
        with pytest.raises(SafetyError, match="goal"):
            robot.core.request(robot.t_s, Event.GO, wrong)
    with pytest.raises(SafetyError, match="by hand"):
        robot.core.request(robot.t_s, Event.TEACH)
    with pytest.raises(SafetyError, match="disarmed"):
        Robot().core.request(0.0, Event.GO, GOAL)


def test_without_plans_the_motors_go_off_then_it_degrades_then_it_is_safe(robot: Robot) -> None:
    robot.planning = False
    robot.run(2.6)
    assert np.all(robot.boards.sent[-1].value == 0.0) and robot.core.supervisor.state is State.ACTIVE
    robot.run(1e-3 * SPEC.safety.plan_silence_ms)
    assert robot.core.supervisor.state is State.DEGRADED
    robot.run(SPEC.safety.degraded_limit_s)
    assert robot.core.supervisor.state is State.SAFE and robot.core.goal is None


def test_plans_that_come_again_are_driven_again(robot: Robot) -> None:
    robot.planning = False
    robot.run(3.0 + 1e-3 * SPEC.safety.plan_silence_ms)
    robot.planning = True
    robot.run(2.0)
    assert robot.core.supervisor.state is State.ACTIVE and np.all(robot.boards.sent[-1].value == 0.5)


def test_a_short_blindness_is_driven_through_and_a_long_one_is_waited_out(robot: Robot) -> None:
    robot.blind = True
    robot.run(1.0)
    assert robot.core.supervisor.state is State.ACTIVE and np.all(robot.boards.sent[-1].value == 0.5)
    robot.run(1.0)
    assert robot.core.supervisor.state is State.DEGRADED and np.all(robot.boards.sent[-1].value == 0.0)
    robot.blind = False
    robot.run(1.5)
    assert robot.core.supervisor.state is State.ACTIVE and np.all(robot.boards.sent[-1].value == 0.5)


def test_silent_boards_end_in_the_safe_state_at_once(robot: Robot) -> None:
    robot.silent = True
    robot.run(1e-3 * SPEC.safety.board_silence_ms + 0.1)
    assert robot.core.supervisor.state is State.SAFE


def test_at_the_goal_the_motors_are_off_and_nothing_is_missed(robot: Robot) -> None:
    robot.core.request(robot.t_s, Event.GO, SPEC.start_caps.mean(axis=0)[:2] + 0.1)
    robot.run(10.0)
    assert robot.core.arrived and robot.core.supervisor.state is State.ACTIVE
    assert np.all(robot.boards.sent[-1].value == 0.0)


def test_the_same_inputs_give_the_same_commands_and_recording() -> None:
    first, second = Robot(), Robot()
    for one in (first, second):
        one.drive()
        one.blind = True
        one.run(2.0)
    assert first.tape.messages == second.tape.messages
    assert len(first.boards.sent) > 200
