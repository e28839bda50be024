"""Steering on board: the map of distances, the way left, the shape from pictures, tasks, and whole episodes on the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onboard.errors import EstimationError, NotANumberError, PlanningError
from onboard.planning.vine.cost import TipCost, WayLeft
from onboard.planning.vine.field import distances, field_of
from onboard.planning.vine.shape import CentreLine, ShapeFit
from onboard.planning.vine.state import layout_of
from onboard.planning.vine.steer import Steerer
from onboard.resources import robot_file
from onboard.vine_robot import load_vine
from sim.vine.goals import steering_task
from sim.vine.measure import obstacle_distance
from sim.vine.plant import Plant
from sim.vine.reach import follow, reachable
from sim.vine.scene import circle
from sim.vine.steer import field_for, steer
from sim.vine.steering import read_rows, summary

ROBOT = load_vine(robot_file("vine"))
LAYOUT = layout_of(ROBOT)
BOX = np.array([[0.2, -0.05], [0.3, -0.05], [0.3, 0.05], [0.2, 0.05]])


def field(*shapes):
    return field_of(shapes, (ROBOT.map.x_m[0], ROBOT.map.y_m[0]), ROBOT.map.cells, ROBOT.map.cell_m)


def test_distances_from_a_box_a_circle_and_a_wall_are_exact() -> None:
    assert distances(np.array([[0.1, 0.0], [0.25, 0.03], [0.33, 0.09]]), BOX, 0.0) == pytest.approx([0.1, -0.02, 0.05])
    assert distances(np.array([[0.0, 0.03], [0.0, 0.0]]), np.array([[0.0, 0.0]]), 0.01) == pytest.approx([0.02, -0.01])
    wall = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert distances(np.array([[0.5, -0.2], [1.3, 0.4]]), wall, 0.05) == pytest.approx([0.15, 0.45])


def test_a_field_gives_distance_and_outward_normal_between_cells() -> None:
    seen, normal = field((BOX, 0.0)).look_up(np.array([[0.1613, 0.0011], [0.2507, 0.1213]]))
    assert seen == pytest.approx([0.2 - 0.1613, 0.1213 - 0.05], abs=1e-4)
    np.testing.assert_allclose(normal, [[-1.0, 0.0], [0.0, 1.0]], atol=1e-3)


def test_a_field_refuses_what_is_not_a_number() -> None:
    with pytest.raises(NotANumberError):
        field((BOX * np.nan, 0.0))
    with pytest.raises(PlanningError, match="rounding"):
        field((BOX, -0.1))


def test_the_way_left_leads_around_the_box_and_is_straight_without_one() -> None:
    goal, start = np.array([0.45, 0.0]), np.array([[0.1, 0.0]])
    free = float(WayLeft(field(), goal, 0.012, 0.004)(start)[0])
    around = float(WayLeft(field((BOX, 0.0)), goal, 0.012, 0.004)(start)[0])
    assert free == pytest.approx(0.35, rel=0.02)
    shortest = 2 * np.hypot(0.1, 0.058) + 0.1  # hugging the corners of the box inflated by 8 mm
    assert 0.9 * shortest < around < 2.0 * shortest
    assert around > free + 0.02


def test_a_goal_inside_an_obstacle_is_refused() -> None:
    with pytest.raises(PlanningError, match="obstacle"):
        WayLeft(field((BOX, 0.0)), np.array([0.25, 0.0]), 0.012, 0.004)
    with pytest.raises(PlanningError, match="off the grid"):
        WayLeft(field(), np.array([5.0, 0.0]), 0.012, 0.004)


def test_a_rollout_that_comes_nearer_costs_less_and_a_broken_one_does_not_count() -> None:
    cost = TipCost(LAYOUT, WayLeft(field(), np.array([0.4, 0.1]), 0.012, 0.004), 0.008)
    states = np.stack([np.tile(LAYOUT.straight(length, heading), (3, 1)) for length, heading in ((0.3, 0.24), (0.3, -0.5))])
    near, far = cost(states, np.zeros((2, 3, 3)))
    assert near < far
    states[0, 1, 0] = np.nan
    assert np.isnan(cost(states, np.zeros((2, 3, 3)))[0])


def test_the_shape_is_recovered_from_a_noisy_centre_line() -> None:
    rng = np.random.default_rng(0)
    true = LAYOUT.straight(0.4, 0.3)
    true[1:11] = 0.1 * np.sin(np.arange(10))
    at = np.append(np.arange(0.0, 0.4, 0.012), 0.4)
    points = LAYOUT.points(true, at)
    errors = []
    for _ in range(10):
        seen = CentreLine(0.0, points + 1e-3 * rng.standard_normal(points.shape), 0.3, 0.0)
        found = ShapeFit(LAYOUT, 1e-3)(LAYOUT.straight(0.395, 0.25), seen)
        errors.append(np.linalg.norm(LAYOUT.points(found, at[1:-1]) - points[1:-1], axis=1).max())
        assert LAYOUT.length(found) == pytest.approx(0.4, abs=4e-3)
    assert np.median(errors) < 4e-3


def test_pictures_that_cannot_be_used_are_refused() -> None:
    fit, state = ShapeFit(LAYOUT, 1e-3), LAYOUT.straight(0.1)
    with pytest.raises(NotANumberError):
        fit(state, CentreLine(0.0, np.array([[0.0, 0.0], [np.nan, 0.0]]), 0.0, 0.0))
    with pytest.raises(EstimationError):
        fit(state, CentreLine(0.0, np.zeros((1, 2)), 0.0, 0.0))


def test_tasks_have_an_obstacle_on_the_straight_line_and_room_at_the_goal() -> None:
    for seed in range(12):
        task = steering_task(seed)
        assert 0.3 <= np.linalg.norm(task.goal) <= 0.6
        line = np.linspace(0.0, 1.0, 150)[:, None] * task.goal
        assert min(obstacle_distance(np.stack([p, p + 1e-7]), task.scene.obstacles[0]) for p in line) < 0.0
        spot = np.stack([task.goal, task.goal + 1e-7])
        assert all(obstacle_distance(spot, item) > 0.023 for item in task.scene.obstacles)
    assert steering_task(3).goal == pytest.approx(steering_task(3).goal)


def test_pictures_are_late_and_noisy() -> None:
    plant = Plant(ROBOT, steering_task(0), 0)
    plant.run(np.tile([0.15, 0.0, 0.0], (45, 1)))
    seen = plant.picture(0.5)
    assert 0.4 < seen.t_s <= 0.5 - 0.06
    off = seen.points_m[-1] - plant.seen[round(seen.t_s * 90)][1][-1]
    assert 0.0 < np.linalg.norm(off) < 5e-3


def test_actuators_follow_at_their_slew_rates() -> None:
    made = follow(ROBOT, np.tile([0.15, 1.0, 5.0], (90, 2, 1)))
    assert np.diff(made[:, 0, 1]).max() <= ROBOT.slew[0] / 90 + 1e-12
    assert made[-1, 0, 1:] == pytest.approx([1.0, 5.0])


def test_without_a_plan_nothing_grows() -> None:
    task = steering_task(0)
    steerer = Steerer(ROBOT, field_for(ROBOT, task), task.goal)
    assert steerer.command(0.0).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(PlanningError, match="no picture"):
        steerer.plan(0.0, 0.2)


def test_a_stale_plan_ends_in_holding_still() -> None:
    task = steering_task(1)
    steerer = Steerer(ROBOT, field_for(ROBOT, task), task.goal)
    steerer.see(Plant(ROBOT, task, 1).picture(0.0))
    plan = steerer.plan(0.0, 0.2)
    assert plan is not None
    assert steerer.command(0.3)[0] >= ROBOT.low[0]
    assert steerer.command(plan.expires_s + 0.01)[0] == 0.0


def test_a_search_says_how_near_it_came_when_the_goal_is_walled_in() -> None:
    task = steering_task(2)
    cage = [circle(*(task.goal + 0.045 * np.array([np.cos(a), np.sin(a)])), 0.015) for a in np.linspace(0, 2 * np.pi, 13)[:-1]]
    shut = type(task)(type(task.scene)("shut", tuple(cage)), task.goal)
    found = reachable(ROBOT, shut, 0, rollouts=1)
    assert found.rollouts == 200
    assert found.nearest_m > ROBOT.planner.tolerance_m


def test_rows_of_another_robot_or_cut_off_are_not_picked_up(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"identity": "a", "seed": 1}\n{"identity": "b", "seed": 2}\n{"identity": "a", "se')
    assert list(read_rows(path, "a")) == [1]


def test_the_success_rate_leaves_out_what_cannot_be_reached_and_counts_it() -> None:
    base = {"final_mm": 5.0, "plan_ms": 100.0, "plan_cpu_ms": 90.0}
    rows = [{**base, "seed": k, "success": k < 3, "reachable": k < 4} for k in range(5)]
    found = summary(rows)
    assert (found["steering_excluded"], found["steering_success_pct"], found["steering_failed"]) == (1, 75.0, [3])
    assert found["steering_valid"] is True


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", [5, 6])
def test_a_goal_behind_an_obstacle_is_reached(seed: int) -> None:
    made = steer(ROBOT, steering_task(1000 + seed), seed)
    assert made.final_m <= ROBOT.planner.tolerance_m
    assert made.worst_penetration_m < 1e-4
    assert made.refused_plans == 0
