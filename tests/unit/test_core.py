"""The control core by itself: its inputs may come in any order that a real machine brings them in."""

from __future__ import annotations

import pytest

from onboard.errors import SafetyError
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.runtime.core import Core
from onboard.runtime.no_boards import NoBoards
from onboard.runtime.parts import LoopTotals
from onboard.runtime.warmup import rest_observations
from onboard.safety.table import Condition, Event, State
from onboard.telemetry.recorder import NullRecorder

SPEC = load_robot(robot_file("manipulator"))


def core() -> Core:
    return Core(SPEC, NoBoards(), NullRecorder())


def test_a_request_may_be_later_than_the_tick_that_follows_it() -> None:
    one = core()
    one.supervisor_tick(1.0, LoopTotals())
    one.request(1.0251, Event.STOP)
    one.supervisor_tick(1.025, LoopTotals())
    assert one.supervisor.state is State.SAFE


class ForgetfulBoards(NoBoards):
    """Counts how often it is asked to arm."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def arm(self, epoch: int) -> None:
        self.asked.append(epoch)


def test_while_arming_boards_are_asked_again_and_afterwards_never() -> None:
    sink = ForgetfulBoards()
    one = Core(SPEC, sink, NullRecorder())
    one.supervisor.conditions = Condition.BOARDS_READY
    epoch = one.request(1.0, Event.ARM).epoch
    for k in range(80):
        one.control_tick(1.0 + k / 80)
    assert len(sink.asked) == 4 and set(sink.asked) == {epoch}
    one.request(2.1, Event.DISARM)
    for k in range(80):
        one.control_tick(2.1 + k / 80)
    assert len(sink.asked) == 4


def test_a_posture_is_not_taught_from_nothing_or_from_a_poor_estimate() -> None:
    one = core()
    with pytest.raises(SafetyError, match="no pose estimate"):
        one.capture("x", 0)
    nothing = rest_observations(SPEC, 1.0)
    one.estimate = one.estimator.update(nothing)
    assert one.estimate is not None
    one._recent = [one.estimate]
    with pytest.raises(SafetyError, match="has not reported"):
        one.capture("x", 0)


def test_a_controller_that_refuses_numbers_does_not_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    from onboard.errors import NotANumberError

    one = core()
    one.estimate = one.estimator.update(rest_observations(SPEC, 1.0))
    one.supervisor.state = State.ACTIVE
    assert one.controller is not None

    def refuse(*_: object) -> None:
        raise NotANumberError("a value is not a number")

    monkeypatch.setattr(one.controller, "update", refuse)
    one._recent = [one.estimate]
    one.goal = one._here("here", 0)
    assert one.control_tick(1.0) is None
    assert one.not_finite == 1
