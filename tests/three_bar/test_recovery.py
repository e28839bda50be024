"""A robot that stands on its end or winds without getting anywhere is freed by primitives; one that drives is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.messages import Floats, Plan, frozen
from onboard.navigation.rescue import Rescue
from onboard.planning.assembly import GaitData, order_of
from onboard.planning.navigator import Decision, GaitOrder, Situation
from onboard.planning.primitives import Entry
from onboard.planning.recovery import MOST_TRIES, STUCK_S, TIPPED_S, Detector, Recovery, Trouble, room
from onboard.safety.faults import Fault
from onboard.safety.table import Event, State
from sim.three_bar.navigation.conditions import Conditions
from sim.three_bar.navigation.trial import Trial, run_trial
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar
from sim.three_bar.tip import put_on_end
from tests.three_bar.planning_support import FLOOR, SETTINGS, WALL, world
from tests.three_bar.test_navigators import entry
from tests.unit.test_navigation_core import Robot

FAR = np.array([50.0, 0.0])


class Winder:
    """A planner that is wrong about everything: it winds all motors in, always, and the robot only gets small."""

    def set_goal(self, goal: Floats) -> None:
        """Any will do."""

    def decide(self, situation: Situation) -> Decision:
        rows = frozen(np.ones((200, 6)))
        return Plan(situation.start_s, 0.01, rows, situation.start_s + 2.0, situation.t_s, 0.0)


def gaits(spec: ThreeBar) -> list[GaitOrder]:
    data = [GaitData(name=p.name, steps=[list(s) for s in p.steps], min_u=p.min_u, range_u=p.range_u) for p in spec.primitives]
    return [order_of(gait, 6) for gait in data]


def drive(plant: Plant, recovery: Recovery | None, seconds: float) -> tuple[Trial, float]:
    """How far the centre of mass gets under the Winder."""
    trial = Trial(plant, Winder(), SETTINGS, Conditions(), np.random.default_rng(1), None, recovery)
    outcome = run_trial(trial, FAR, 0.5, seconds)
    return trial, float(np.linalg.norm(np.ptp(outcome.path.mean(axis=1)[:, :2], axis=0)))


def test_a_robot_that_only_winds_is_freed_and_one_without_recovery_is_not(spec: ThreeBar, standing: Plant) -> None:
    start = standing.snapshot()
    trial, alone_u = drive(standing, None, STUCK_S + 12.0)
    assert alone_u < 0.6 and "stuck" not in trial.counts
    standing.restore(start)
    trial, freed_u = drive(standing, Recovery(gaits(spec), ()), STUCK_S + 12.0)
    assert trial.counts["stuck"] == 1 and trial.counts["tipped"] == 0
    assert freed_u > alone_u + 1.0, f"freed it gets {freed_u:.2f} u, alone {alone_u:.2f} u"


def test_a_robot_on_its_end_is_brought_down(spec: ThreeBar, standing: Plant) -> None:
    put_on_end(standing)
    standing.settle()

    def rise() -> float:
        axes = standing.caps()[1::2] - standing.caps()[0::2]
        mean = axes.sum(axis=0)
        return float(np.degrees(np.arcsin(abs(mean[2]) / np.linalg.norm(mean))))

    assert rise() > 80.0, "it stands there, and would go on standing"
    trial, _ = drive(standing, Recovery(gaits(spec), ()), TIPPED_S + 16.0)
    assert trial.counts["tipped"] >= 1 and rise() < 45.0


def caps_at(spec: ThreeBar, x: float, turn: float = 0.0) -> Floats:
    c, s = np.cos(turn), np.sin(turn)
    return spec.start_caps @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) + np.array([x, 0.0, 0.0])


@pytest.mark.parametrize("pace", [(0.05, 0.0), (0.0, 0.05)], ids=["creeping", "turning"])
def test_a_robot_that_gets_anywhere_is_left_alone(spec: ThreeBar, pace: tuple[float, float]) -> None:
    detector = Detector(spec.symmetry)
    for k in range(600):
        t_s = 0.1 * k
        assert detector.look(t_s, caps_at(spec, pace[0] * t_s, pace[1] * t_s)) is None


def test_standing_still_is_trouble_once_a_while_and_hopeless_in_the_end(spec: ThreeBar) -> None:
    detector, said = Detector(spec.symmetry), []
    for k in range(2000):
        trouble = detector.look(0.1 * k, caps_at(spec, 0.0))
        if trouble is not None:
            said.append(trouble)
    assert [one.kind for one in said] == ["stuck"] * len(said) and len(said) == 13
    assert [one.tries for one in said[:3]] == [0, 1, 2] and said[MOST_TRIES].hopeless and not said[MOST_TRIES - 1].hopeless
    assert "moved 0.00 u" in said[0].text
    for k in range(2000, 2300):  # moving on makes it a new story
        detector.look(0.1 * k, caps_at(spec, 0.01 * (k - 2000)))
    assert detector.tries == 0


def test_the_primitive_with_most_room_at_its_end_is_tried_first_and_not_twice_in_a_row(spec: ThreeBar) -> None:
    orders = [one for one in gaits(spec) if one.name in ("roll", "cw", "ccw")]
    effects: list[Entry] = [entry("roll", 0.0, -2.0, 0.0), entry("cw", 0.0, 1.5, 0.0), entry("ccw", 0.0, 0.0, 0.2)]
    recovery = Recovery(orders, effects)
    caps = spec.start_caps
    axis = np.arctan2(*(caps[1::2] - caps[0::2]).sum(axis=0)[1::-1])
    turned = caps_at(spec, 0.0, np.pi / 2 - axis) + np.array([2.2, 0.0, 0.0])  # its left, where cw leads to, faces the wall
    place = world(WALL)
    chosen = [recovery.order(Trouble("stuck", "", tries), 3.0, turned, place).name for tries in range(3)]
    assert chosen[0] != "cw" and chosen[-1] == "cw" and len(set(chosen)) == 3
    assert recovery.order(Trouble("stuck", "", 0), 3.0, turned, place).name == chosen[0], "a new story begins anew"
    assert recovery.order(Trouble("stuck", "", 0), 3.0, turned, place).start_s == 3.0


def test_room_is_measured_from_the_whole_body() -> None:
    lengthways, across = np.array([3.0, 0.0, 0.0]), np.array([3.0, 0.0, np.pi / 2])
    assert room(lengthways, 0.8, world(WALL)) == pytest.approx(3.0 - 0.5 - 1.5)
    assert room(across, 0.8, world(WALL)) == pytest.approx(2.5)
    assert room(across, 0.8, FLOOR[None]) == np.inf, "what one stands on is no obstacle"


def stuck_core(spec: ThreeBar) -> Robot:
    """A heart whose robot never moves, whatever is wound; driving to a goal."""
    robot = Robot()
    robot.core.rescue = Rescue(spec, robot.core.world, robot.core.driver, Recovery(gaits(spec), ()))
    robot.drive()
    return robot


def test_the_daemon_frees_a_stuck_robot_by_a_primitive_and_says_so(spec: ThreeBar) -> None:
    robot = stuck_core(spec)
    robot.run(STUCK_S + 1.0)
    core = robot.core
    assert Fault.ROBOT_STUCK in core.supervisor.troubles() and core.supervisor.state is State.ACTIVE
    texts = [notice.text for notice in core.take_outcome().notices]
    assert sum("freeing it with 'roll'" in text for text in texts) == 1
    assert core.command is not None and core.command.source == "gait" and core.driver.counts["gaits"] == 1
    plans = core.driver.counts["plans"]
    late = Plan(robot.t_s, 0.01, frozen(np.ones((200, 6))), robot.t_s + 2.0, robot.t_s, 0.0)
    core.decision(robot.t_s, late)
    robot.run(1.0)
    assert core.driver.counts["plans"] == plans and core.driver.player.running, "an answer from before does not end the primitive"


def test_after_six_primitives_in_vain_the_daemon_stands_still_and_waits_for_a_person(spec: ThreeBar) -> None:
    robot = stuck_core(spec)
    core = robot.core
    core.rescue._detector.tries = MOST_TRIES
    robot.run(STUCK_S + 1.0)
    assert core.goal is None and core.supervisor.state is State.ACTIVE and core.rescue.counts["stuck"] == 0
    assert Fault.ROBOT_STUCK in core.supervisor.troubles()
    assert any("did not help" in notice.text for notice in core.take_outcome().notices)
    core.request(robot.t_s, Event.GO, FAR)
    robot.run(1.0)
    assert core.going and Fault.ROBOT_STUCK not in core.supervisor.troubles(), "a new goal is a new story"


def test_a_stop_ends_a_rescue_at_once(spec: ThreeBar) -> None:
    robot = stuck_core(spec)
    robot.run(STUCK_S + 1.0)
    robot.core.request(robot.t_s, Event.STOP)
    robot.run(0.3)
    assert not robot.core.driver.player.running and robot.core.command is None
    assert robot.core.rescue.trouble is None and not robot.core.rescue.freeing
