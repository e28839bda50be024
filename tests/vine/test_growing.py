"""The daemon's side of a growing robot: growth only where it may, and the shape held whatever falls silent."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.errors import ConfigError, SafetyError
from onboard.growing.task import GrowthTask, read_task
from onboard.link.pose_source import PoseSource
from onboard.messages import Plan, Setpoints, frozen
from onboard.planning.vine.process import PlannerData, Request, Worker
from onboard.safety.table import Event, State
from sim.vine.goals import steering_task
from sim.vine.plant import evenly
from sim.vine.realtime import Camera, scene_of
from sim.vine.rig import growth_task
from tests.vine.growing_support import GOAL, ROBOT, Grower


@pytest.fixture
def robot() -> Grower:
    return Grower()


def test_pressures_of_the_lines_stand_for_values_and_back() -> None:
    values = np.array([0.07, 1.1e4, math.radians(-20), 2.5])
    found, free = ROBOT.line_map.from_pa(ROBOT.line_map.to_pa(values, True))
    np.testing.assert_allclose(found, values)
    assert free
    assert not ROBOT.line_map.from_pa(ROBOT.line_map.to_pa(values, False))[1]


def test_armed_but_not_sent_anywhere_it_does_not_grow(robot: Grower) -> None:
    before = robot.length_m
    robot.ready()
    assert robot.core.supervisor.state is State.ACTIVE and robot.core.governor.free
    assert robot.length_m == pytest.approx(before, abs=1e-4)


def test_check_valves_open_only_when_the_lines_have_what_the_robot_had(robot: Grower) -> None:
    robot.run(0.3)
    robot.core.request(robot.t_s, Event.ARM)
    while not robot.lines.free:
        robot.run(1 / 90)
        assert robot.t_s < 2.0
    assert abs(robot.lines.values[2]) < math.radians(0.5) and abs(robot.lines.values[3]) < 0.05


def test_it_grows_by_plans_and_stops_at_the_goal(robot: Grower) -> None:
    robot.grow(3.5)
    assert robot.core.player.arrived
    tip = robot.line()[-1]
    assert np.linalg.norm(tip - GOAL) <= ROBOT.planner.tolerance_m
    assert robot.core.supervisor.state is State.ACTIVE  # held there, by plans


def test_a_plan_from_the_way_that_comes_after_arrival_hardly_grows(robot: Grower) -> None:
    robot.grow(2.5)
    assert robot.core.player.arrived
    robot.idle = True
    robot.core.plan(robot.t_s, Plan(robot.t_s, 1 / 15, frozen(np.tile((0.15, 0.0, 0.0), (30, 1))), robot.t_s + 2.0, 0.0, 1.0))
    length = robot.length_m
    robot.run(0.2)
    assert robot.length_m - length <= 0.4 * 0.15 * 0.2 + 2e-3


def test_base_and_muscles_follow_plans_at_their_slew_rates(robot: Grower) -> None:
    robot.command = (0.0, math.radians(40), 3.0)
    robot.grow(0.5)
    assert 0.0 < robot.lines.values[2] <= math.radians(60) * 0.5
    robot.run(1.0)
    assert robot.lines.values[2] == pytest.approx(math.radians(40), abs=1e-3)
    assert robot.lines.values[3] == pytest.approx(3.0, abs=1e-3)


def test_without_pictures_growth_stops_and_goes_on_when_they_are_back(robot: Grower) -> None:
    robot.grow(0.8)
    robot.blind = True
    robot.run(0.5)
    assert robot.core.supervisor.state is State.DEGRADED
    stopped = robot.length_m
    robot.run(0.5)
    assert robot.length_m == pytest.approx(stopped, abs=5e-4)
    robot.blind = False
    robot.run(2.0)
    assert robot.core.supervisor.state is State.ACTIVE and robot.length_m > stopped + 0.02


def test_without_plans_growth_stops_when_the_last_one_has_ended(robot: Grower) -> None:
    robot.grow(0.3)
    robot.idle = True
    robot.run(2.4)
    stopped = robot.length_m
    robot.run(0.5)
    assert robot.length_m == pytest.approx(stopped, abs=5e-4)
    robot.run(1.5)
    assert robot.core.supervisor.state is State.DEGRADED


def test_a_planner_that_falls_behind_stops_growth(robot: Grower) -> None:
    robot.ready()
    robot.core.request(robot.t_s, Event.GO)
    robot.idle = True
    length = robot.length_m
    late_s = robot.t_s - 1.0
    robot.core.plan(robot.t_s, Plan(late_s, 1 / 15, frozen(np.tile((0.15, 0.0, 0.0), (30, 1))), late_s + 2.0, 0.0, 1.0))
    robot.run(0.5)
    assert robot.length_m == pytest.approx(length, abs=5e-4)


def test_a_board_that_goes_to_its_safe_state_holds_the_shape(robot: Grower) -> None:
    robot.command = (0.15, math.radians(30), 2.0)
    robot.grow(1.0)
    heading, curvature, length = robot.lines.values[2], robot.lines.values[3], robot.length_m
    assert heading > math.radians(20)
    robot.board.fall_silent()
    robot.run(0.5)
    assert robot.core.supervisor.state in (State.SAFE, State.FAULT)
    assert robot.lines.values[2] == pytest.approx(heading, abs=math.radians(1.5))
    assert robot.lines.values[3] == pytest.approx(curvature, abs=0.3)
    assert robot.length_m - length < 0.005


def test_stop_holds_the_shape(robot: Grower) -> None:
    robot.grow(1.0)
    length = robot.length_m
    robot.core.request(robot.t_s, Event.STOP)
    robot.run(0.5)
    assert robot.core.supervisor.state is State.SAFE and not robot.core.going
    assert robot.length_m - length < 0.005


def test_a_wish_that_is_not_finite_or_old_is_not_sent(robot: Grower) -> None:
    robot.ready()
    governor, t_s = robot.core.governor, robot.t_s
    good = np.array([0.1, 1e4, 0.0, 0.0])
    for value, age_s, count in (
        (np.array([np.nan, 1e4, 0, 0]), 0.0, "not_finite"),
        (good, 1.0, "expired"),
        (good[:3], 0, "wrong_shape"),
    ):
        issued = governor.issue(t_s + 0.02, Setpoints(t_s + 0.02 - age_s, frozen(value), "test"), State.ACTIVE)
        assert issued is not None and issued.value[0] == 0.0
        assert getattr(governor.counts, count) == 1
    wild = governor.issue(t_s + 0.04, Setpoints(t_s + 0.04, frozen([9.0, 1e9, 9.0, -99.0]), "test"), State.ACTIVE)
    assert wild is not None
    assert wild.value[0] == ROBOT.actuators.growth.max_m_s and wild.value[1] == ROBOT.actuators.pressure.max_pa
    assert 0.0 < wild.value[2] <= 0.05 * ROBOT.slew[0]
    assert all(np.isfinite(sent.value).all() for sent in robot.board.sent)


def test_it_cannot_be_taught(robot: Grower) -> None:
    robot.ready()
    with pytest.raises(SafetyError, match="by hand"):
        robot.core.request(robot.t_s, Event.TEACH)


def test_the_same_in_gives_the_same_out() -> None:
    tapes = []
    for _ in range(2):
        one = Grower()
        one.grow(0.5)
        tapes.append(one.tape.messages)
    assert tapes[0] == tapes[1]


def test_pictures_reach_the_pose_source_late_and_in_the_number_it_expects(tmp_path: Path) -> None:
    source = PoseSource(tmp_path / "poses", ROBOT.camera.points)
    camera = Camera(tmp_path / "poses", ROBOT, np.random.default_rng(0))
    line = np.array([[0.0, 0.0], [0.1, 0.0], [0.1, 0.2]])
    found = []
    for frame in range(90):
        camera.tick(100.0 + frame / 90, line)
        found += source.poll(100.0 + frame / 90)
    assert 27 <= len(found) <= 30 and not source.refused
    assert found[10][0] - found[9][0] == pytest.approx(1 / 30, abs=1e-4)
    points = found[0][1]
    assert np.abs(points[:, :2] - evenly(line, ROBOT.camera.points)).max() < 6e-3
    source.close()


def request(number: int, t_s: float, points: np.ndarray, **changes: object) -> Request:
    given = np.array([[t_s - 0.1, 0.0, 0.0, 0.0]])
    made = Request(
        number, t_s, t_s + 0.2, t_s - 0.06, points.tobytes(), 0.0, 0.0, given.tobytes(), (0.0, 0.0), (0.3, 0.0), True, False
    )
    return msgspec.structs.replace(made, **changes)


def test_the_planner_process_answers_with_plans_or_with_reasons() -> None:
    worker = Worker(PlannerData(ROBOT.file, GrowthTask(goal_m=(0.3, 0.0)), 0))
    points = np.column_stack([np.linspace(0, 0.027, ROBOT.camera.points), np.zeros(ROBOT.camera.points)])
    plan = worker.answer(request(1, 10.0, points)).plan()
    assert plan is not None and plan.start_s == pytest.approx(10.2)
    assert plan.value[:5, 0].mean() > 0.5 * ROBOT.actuators.growth.max_m_s
    reply = worker.answer(request(2, 10.2, np.full_like(points, np.nan)))
    assert reply.plan() is None and "finite" in reply.problem
    held = worker.answer(request(3, 10.4, points, arrived=True)).plan()
    assert held is not None and held.value[:, 0].max() <= 0.4 * ROBOT.actuators.growth.max_m_s + 1e-9
    reply = worker.answer(request(4, 10.6, points, goal=(5.0, 5.0)))
    assert reply.plan() is None and reply.problem


def test_a_task_file_says_where_obstacles_and_goal_are(tmp_path: Path) -> None:
    task = steering_task(3, ROBOT.body.radius_m)
    path = tmp_path / "task.json"
    path.write_bytes(msgspec.json.encode(growth_task(task)))
    again = read_task(path)
    np.testing.assert_allclose(again.goal, task.goal)
    for mine, theirs in zip(scene_of(again).obstacles, task.scene.obstacles, strict=True):
        np.testing.assert_allclose(mine.corners, theirs.corners)
        assert mine.rounding_m == theirs.rounding_m


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ('{"goal_m": [1]}', "goal_m"),
        ('{"obstacles": []}', "goal_m"),
        ('{"goal_m": [0.3, 0], "obstacles": [{"corners_m": []}]}', "corners_m"),
        ('{"goal_m": [300, 0]}', "goal_m"),
        ('{"goal_m": [0.3, 0], "obstacles": 3}', "obstacles"),
    ],
)
def test_a_wrong_task_file_is_refused_by_its_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "task.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_task(path)
