"""Seconds to go know obstacles, slopes and the heading, solve the robot's own equation, and say clearly where there is no way."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from onboard.errors import NotANumberError, PlanningError
from onboard.planning.terrain import terrain_of
from onboard.planning.value import ValueField
from onboard.planning.wavefront import Wavefront
from tests.three_bar.planning_support import BEAM, BOUNDS, SETTINGS, WALL, box_row, ramp_row, terrain, world

GOAL = np.array([-5.0, -3.0])


def field(*rows: np.ndarray, goal: np.ndarray = GOAL) -> ValueField:
    solved = ValueField(terrain(*rows), SETTINGS.terrain, SETTINGS.value)
    solved.set_goal(goal)
    return solved


@pytest.fixture(scope="module")
def walled() -> ValueField:
    return field(WALL)


@pytest.fixture(scope="module")
def open_ground() -> ValueField:
    return field(goal=np.zeros(2))


def test_ground_is_the_lowest_surface_with_room_above() -> None:
    t = terrain(BEAM, box_row(4.0, 0.0, 1.0, 1.0, (0.0, 0.8)))
    under, beside, on, away = (t.index(np.array(p))[0] for p in ((0.0, 1.0), (3.0 - 0.15, 0.0), (4.0, 0.0), (-4.0, 0.0)))
    assert t.height[tuple(under)] == 0.0 and t.ceiling[tuple(under)] == pytest.approx(1.5)
    assert t.height[tuple(beside)] == 0.0 and t.height[tuple(on)] == pytest.approx(0.8)
    assert t.ceiling[tuple(away)] > 100.0
    low = terrain(box_row(0.0, 0.0, 0.25, 6.0, (1.2, 4.0)))
    assert low.height[tuple(under)] == pytest.approx(4.0), "too low to pass: only its top is left to stand on"


def test_a_ramp_joins_what_a_cliff_parts() -> None:
    platform = box_row(6.0, 0.0, 2.0, 6.0, (0.0, 1.2))
    parted, joined = terrain(platform), terrain(platform, ramp_row((-6.0, 4.0), (-6.0, 6.0), 1.2))
    floor, top = np.array([-7.0, 0.0]), np.array([6.0, 0.0])
    at = tuple(parted.index(top)[0])
    assert not parted.free_from(floor)[at] and joined.free_from(floor)[at]
    with pytest.raises(PlanningError, match="obstacle"):
        parted.check_goal(top)
    joined.check_goal(top)
    front = Wavefront(joined.grid(top))
    front.set_goal(top)
    assert np.isfinite(front.cost(floor))


def test_clearance_is_the_distance_to_the_wall(walled: ValueField) -> None:
    t = walled.terrain
    clearance = t.clearance(t.free_from(GOAL))
    for x in (-4.0, -2.0, -1.0, 1.5, 4.0):
        cell = tuple(t.index(np.array([x, -2.0]))[0])
        assert clearance[cell] == pytest.approx(min(abs(x) - 0.5, 8.0 - abs(x), 4.0), abs=0.12)
    assert clearance[tuple(t.index(np.array([0.0, -3.0]))[0])] < 0.0


def test_values_fulfil_the_robots_own_equation(open_ground: ValueField) -> None:
    """Far from the goal, the best of all moves plus what then remains is the value itself (Bellman), away from all borders."""
    rng = np.random.default_rng(0)
    cell, table = np.pi / SETTINGS.value.headings, SETTINGS.value
    for _ in range(40):
        i, j = open_ground.terrain.index(rng.uniform([-4, -3], [4, 3]))[0] // 5
        k = int(rng.integers(table.headings))
        here = open_ground.centres[i, j]
        if np.linalg.norm(here) < 1.5:
            continue
        ends = here + open_ground.moves.offset[k]
        poses = np.column_stack([ends, (k + open_ground.moves.turn) * cell])
        factor = open_ground._factor(open_ground.terrain.clearance(open_ground.terrain.free_from(np.zeros(2))))
        there = open_ground.terrain.index(ends)[0] // 5
        slow = 0.5 * (factor[i, j, k] + factor[there[:, 0], there[:, 1], (k + open_ground.moves.turn) % table.headings])
        best = np.min(open_ground.moves.seconds * slow + open_ground.cost(poses))
        assert open_ground.cost(np.array([*here, k * cell])) == pytest.approx(best, abs=0.3)


def test_the_heading_counts_modulo_half_a_turn_and_rolling_beats_creeping(open_ground: ValueField) -> None:
    at = np.array([[4.0, 0.0, a] for a in (np.pi / 2, -np.pi / 2, 0.0, np.pi / 4)])
    rolling, backwards, across, skew = open_ground.cost(at)
    assert rolling == pytest.approx(backwards)
    assert rolling < skew < across
    assert across > rolling + 2.0 * SETTINGS.value.turn_time_s


def test_time_grows_steadily_away_from_the_goal(open_ground: ValueField) -> None:
    """No step near the goal: a robot that rolls straight in sees the seconds fall all the way."""
    way = open_ground.cost(np.column_stack([np.linspace(0.0, 5.0, 101), np.zeros(101), np.full(101, np.pi / 2)]))
    assert way[0] < 0.8 and np.all(np.diff(way) > -1e-6)
    assert np.diff(way).max() < 0.4, "a hundredth of the way never costs more than a few times its share"


def test_the_way_leads_round_the_wall(walled: ValueField) -> None:
    pose = np.array([3.0, -3.0, np.pi / 2])
    straight = field().cost(pose)
    assert walled.cost(pose) > straight + 8.0
    j = int((-3.0 - walled.origin[1]) / SETTINGS.value.cell_u)
    left = int((-0.75 - walled.origin[0]) / SETTINGS.value.cell_u)
    for outside, inside in ((left, left + 1), (left + 3, left + 2)):
        assert walled.free[outside, j] and not walled.free[inside, j]
        assert np.all(walled.value[inside, j] > walled.value[outside, j]), "the wall is uphill from both sides"
    assert np.isfinite(walled.value).all()


def test_a_new_goal_and_new_obstacles_are_taken_up(walled: ValueField) -> None:
    moving = field(WALL)
    assert np.array_equal(moving.value, walled.value), "same question, same answer"
    moving.set_goal(np.array([5.0, 3.0]))
    assert moving.cost(np.array([5.0, 3.0, 0.0])) < 0.8 < moving.cost(np.array([*GOAL, 0.0]))
    moving.set_goal(GOAL)
    assert np.array_equal(moving.value, walled.value)
    moving.set_terrain(terrain())
    assert moving.cost(np.array([3.0, -3.0, np.pi / 2])) == pytest.approx(field().cost(np.array([3.0, -3.0, np.pi / 2])))


def test_where_there_is_no_way_the_answer_says_so(walled: ValueField) -> None:
    closed = field(box_row(0.0, 0.0, 0.5, 6.0))
    assert closed.reachable(np.array([-3.0, 1.0])) and not closed.reachable(np.array([3.0, 1.0]))
    assert np.isfinite(closed.cost(np.array([3.0, 1.0, 0.0]))), "a robot that is there must still be told which way is better"
    with pytest.raises(PlanningError, match="off the grid"):
        closed.reachable(np.array([30.0, 1.0]))
    for goal, reason in ((np.array([0.0, -3.0]), "obstacle"), (np.array([30.0, 0.0]), "off the grid")):
        with pytest.raises(PlanningError, match=reason):
            walled.set_goal(goal)
    with pytest.raises(NotANumberError):
        walled.set_goal(np.array([np.nan, 0.0]))
    assert np.array_equal(walled.goal, GOAL), "the old goal stays"
    assert np.isnan(walled.cost(np.array([0.0, np.nan, 0.0])))
    off = walled.cost(np.array([[-8.0, -3.0, 0.0], [-10.0, -3.0, 0.0]]))
    assert off[1] > off[0] + 15.0
    with pytest.raises(PlanningError, match="no goal"):
        ValueField(terrain(), SETTINGS.terrain, SETTINGS.value).cost(np.zeros(3))
    with pytest.raises(NotANumberError):
        terrain_of(BOUNDS, world(WALL) * np.nan, 0.1, 1.4, 0.25)


def test_settings_name_what_is_wrong(tmp_path: object) -> None:
    from pathlib import Path

    from onboard.errors import ConfigError
    from onboard.planning.settings import load_settings
    from onboard.resources import root

    good = (root() / "robots" / "planners" / "three_bar.toml").read_text()
    path = Path(str(tmp_path)) / "p.toml"
    for old, new, key in (
        ("headings = 24", "headings = 25", "value.headings"),
        ("replan_s = 0.5", "replan_s = 2.5", "mppi.replan_s"),
        ("fresh_rho = 0.7", "fresh_rho = 1.0", "mppi.fresh_rho"),
        ("merge_u = 0.4", "merge_u = nan", "astar.merge_u"),
        ('robot = "three_bar"', 'robot = "worm"', "robot"),
    ):
        assert old in good
        path.write_text(good.replace(old, new))
        with pytest.raises(ConfigError, match=key):
            load_settings("three_bar", path)
    assert SETTINGS.digest != msgspec.structs.replace(SETTINGS, robot="other").digest
