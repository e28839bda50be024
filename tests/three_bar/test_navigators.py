"""Controllers decide as the paper and the reference say, from worlds and states that a person can check by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from onboard.errors import NotANumberError, PlanningError
from onboard.messages import Floats, Plan
from onboard.planning.assembly import GaitData, NavigatorData, build
from onboard.planning.astar import BodyCheck, arc_cost, grid_heuristic, nearest_nodes, search
from onboard.planning.astar_navigator import AstarNavigator, usable
from onboard.planning.costs import StrutState
from onboard.planning.hybrid import WavefrontNavigator
from onboard.planning.navigator import GaitOrder, LeadIn, Situation, pose_at_start
from onboard.planning.primitives import Entry, Library, apply
from onboard.planning.value_navigator import ValueNavigator
from onboard.planning.wavefront import Wavefront
from tests.three_bar.planning_support import SETTINGS, WALL, box_row, terrain, world

LAYOUT = StrutState(6, 6)
START_CAPS = np.array(
    [[0.8, 1.0, 0.25], [-0.9, -0.9, 1.8], [-0.94, 1.23, 0.2], [0.47, -1.29, 0.8], [-0.02, 1.24, 1.6], [-1.14, -1.13, 0.25]]
)


class Slider:
    """A robot that goes where its first two motors push it, 1 u in 2 s at full command, and never turns."""

    def rollout(self, state: Floats, controls: Floats, world_rows: Floats) -> Floats:
        states = np.repeat(state[None, None], len(controls), axis=0).repeat(controls.shape[1] // 20, axis=1)
        moved = np.cumsum(controls[:, :, :2], axis=1)[:, 19::20] * 0.01 * 0.5
        for cap in range(6):
            states[:, :, 3 * cap : 3 * cap + 2] += moved
        return states


def entry(name: str, dx: float, dy: float, turn: float, seconds: float = 5.0) -> Entry:
    return Entry(
        name=name, left_u=1.0, right_u=1.2, dx_u=dx, dy_u=dy, turn_rad=turn, seconds=seconds, dx_sd_u=0.0, dy_sd_u=0.0,
        turn_sd_rad=0.0, timeouts=0, samples=1,
    )  # fmt: skip


ROLL, CW, CCW = entry("roll", 0.0, -1.0, 0.0), entry("cw", 0.0, -0.2, -0.5), entry("ccw", 0.0, 0.2, 0.5)
LIBRARY = Library(
    format=1, robot="three_bar", physics_hash="0" * 64, measured_with="test", scene="flat", friction=1.8,
    housing_radius_u=0.1, seed=0, entries=[ROLL, CW, CCW, entry("roll", 0, -3.0, 0.0, seconds=30.0), entry("crawl", 0, 9, 0)],
)  # fmt: skip
GAITS = [GaitData(name=n, steps=[[0.0] * 6], min_u=0.8, range_u=1.2) for n in ("roll", "cw", "ccw")]


def data(kind: str, *rows: Floats) -> NavigatorData:
    return NavigatorData(
        kind=kind,  # type: ignore[arg-type]
        robot="three_bar",
        physics_hash="0" * 64,
        caps=6,
        pairs=[(3, 5), (1, 3), (5, 1), (0, 2), (4, 0), (2, 4)],
        cap_radius_u=0.175,
        step_s=0.01,
        bounds_u=((-8.0, 8.0), (-6.0, 6.0)),
        world=world(*rows).tolist(),
        settings=SETTINGS,
        gaits=GAITS,
        seed=3,
        library=LIBRARY,
    )


def state_at(x: float, y: float, axis_rad: float) -> Floats:
    caps = START_CAPS - START_CAPS.mean(axis=0) * [1, 1, 0]
    axes = caps[1::2] - caps[0::2]
    mean = (axes / np.linalg.norm(axes, axis=1, keepdims=True)).mean(axis=0)
    turn = axis_rad - np.arctan2(mean[1], mean[0])
    c, s = np.cos(turn), np.sin(turn)
    caps = caps @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T + [x, y, 0]
    return np.concatenate([caps.ravel(), np.zeros(18), np.full(6, 1.0), np.zeros(6)])


def situation(x: float, y: float, axis_rad: float, now_s: float = 1.0, lead_in: Floats | None = None) -> Situation:
    rows = np.zeros((0, 6)) if lead_in is None else lead_in
    return Situation(now_s, state_at(x, y, axis_rad), rows, now_s, now_s + 0.1, world())


def test_algorithm_1_turns_by_where_the_way_lies() -> None:
    navigator = build(data("hybrid"), Slider())
    assert isinstance(navigator, WavefrontNavigator)
    navigator.set_goal(np.array([-6.0, 0.0]))
    for reverse_deg, expected in (
        (0, None), (44, None), (-44, None), (136, None), (-136, None), (180, None),
        (46, "cw"), (89, "cw"), (91, "ccw"), (130, "ccw"), (-46, "ccw"), (-89, "ccw"),
    ):  # fmt: skip
        way = navigator.way_from(np.array([5.0, 0.0]))
        assert way is not None and abs(abs(way) - np.pi) < 0.2, "open ground: straight at the goal"
        axis = way + np.radians(reverse_deg) + np.pi / 2  # the roll gait runs 90 degrees clockwise of the axis
        assert navigator.turn_for(np.array([5.0, 0.0, axis])) == expected, reverse_deg
    assert navigator.turn_for(np.array([-5.5, 0.0, 0.0])) is None, "close to the goal MPPI goes on whatever the heading"
    order = navigator.decide(situation(5.0, 0.0, way + np.radians(60) + np.pi / 2))
    assert isinstance(order, GaitOrder) and order.name == "cw" and order.start_s == pytest.approx(1.1)
    alone = build(data("mppi"), Slider())
    alone.set_goal(np.array([-6.0, 0.0]))
    assert isinstance(alone.decide(situation(5.0, 0.0, way + np.radians(60) + np.pi / 2)), Plan)


@pytest.mark.parametrize("kind", ["value", "mppi"])
def test_sampling_controllers_go_towards_the_goal_and_round_the_wall(kind: str) -> None:
    navigator = build(data(kind, WALL), Slider())
    navigator.set_goal(np.array([-5.0, -3.0]))
    plan = navigator.decide(situation(3.0, -3.0, 0.3))
    assert isinstance(plan, Plan)
    assert plan.start_s == pytest.approx(1.1) and plan.value.shape == (200, 6)
    assert plan.value[:, 1].mean() > 0.2, "the gap lies towards +y"
    straight = build(data(kind), Slider())
    straight.set_goal(np.array([-5.0, -3.0]))
    plan = straight.decide(situation(3.0, -3.0, np.pi / 2))
    assert isinstance(plan, Plan) and plan.value[:, 0].mean() < -0.3


def test_the_same_seed_gives_the_same_plans_and_another_seed_others() -> None:
    def plans(seed: int) -> list[Floats]:
        navigator = build(msgspec.structs.replace(data("value"), seed=seed), Slider())
        navigator.set_goal(np.array([-5.0, 0.0]))
        return [navigator.decide(situation(3.0, 0.0, 0.5, now_s)).value for now_s in (1.0, 1.5)]  # type: ignore[union-attr]

    assert all(np.array_equal(a, b) for a, b in zip(plans(1), plans(1), strict=True))
    assert not np.array_equal(plans(1)[0], plans(2)[0])


def test_a_lead_in_is_rolled_out_before_the_plan() -> None:
    lead = np.zeros((40, 6))
    lead[:, 0] = 1.0
    controls = np.zeros((3, 200, 6))
    states = LeadIn(Slider(), lead).rollout(state_at(0.0, 0.0, 0.0), controls, world())
    moved = LAYOUT.positions(states).mean(axis=2)[..., 0]
    assert moved[:, 0] == pytest.approx(0.1) and moved[:, -1] == pytest.approx(0.2)
    velocity = state_at(0.0, 0.0, 0.0)
    velocity[18:36:3] = 2.0
    asked = Situation(1.0, velocity, lead, 1.03, 1.13, world())
    assert pose_at_start(LAYOUT, asked)[0] == pytest.approx(0.26)
    with pytest.raises(NotANumberError):
        pose_at_start(LAYOUT, Situation(1.0, velocity * np.nan, lead, 1.03, 1.13, world()))


def test_value_frees_itself_where_nothing_gets_better() -> None:
    class Stuck(Slider):
        def rollout(self, state: Floats, controls: Floats, world_rows: Floats) -> Floats:
            return super().rollout(state, controls * 0.0, world_rows)

    navigator = build(data("value"), Stuck())
    assert isinstance(navigator, ValueNavigator)
    navigator.set_goal(np.array([-5.0, 0.0]))
    decisions = [navigator.decide(situation(3.0, 0.0, 0.0, 1.0 + 0.5 * k)) for k in range(16)]
    first = next(k for k, d in enumerate(decisions) if isinstance(d, GaitOrder))
    assert 0.5 * first == pytest.approx(SETTINGS.escape.patience_s + 0.5, abs=0.51)
    assert decisions[first].name == "rest"  # type: ignore[union-attr]
    kick = decisions[first + 1]
    assert isinstance(kick, Plan) and np.all(np.abs(kick.value) == 1.0)
    assert kick.expires_s - kick.start_s == pytest.approx(SETTINGS.escape.kick_s)
    assert navigator.escapes == 1


def body(*rows: Floats) -> BodyCheck:
    t = terrain(*rows)
    return BodyCheck(SETTINGS.astar, t, t.free_from(np.array([-5.0, -3.0])), world(*rows), SETTINGS.terrain.standing_u)


def test_a_turned_body_touches_where_its_corners_reach() -> None:
    check = body(WALL)
    assert len(check.boxes) == 1
    clear, end_on, turned, beyond = check.hits(
        np.array([[1.3, -3.0, np.pi / 2], [1.3, -3.0, 0.0], [1.35, -3.0, np.pi / 4 * 3], [30.0, 0.0, 0.0]])
    )
    assert not clear and end_on and turned and beyond, "half 1.475 x 0.75: beside the wall only lengthwise"
    assert len(body(box_row(0.0, 0.0, 0.25, 6.0, (1.5, 4.0))).boxes) == 0, "a beam with room beneath is no obstacle"


def test_a_star_is_optimal_on_open_ground_and_goes_round_walls() -> None:
    entries, goal = [ROLL, CW, CCW], np.array([-5.0, -3.0])
    front = Wavefront(terrain(WALL).grid(goal))
    front.set_goal(goal)
    start = np.array([4.0, -3.0, -np.pi / 2])  # rolls towards -x
    found = search(start, goal, entries, grid_heuristic(front), body(WALL), SETTINGS.astar)
    assert found.reached
    pose, hits = start, []
    for move in found.moves:
        pose = apply(pose, entries[move])
        hits.append(body(WALL).hits(pose[None])[0])
    assert not any(hits)
    assert np.linalg.norm(pose[:2] - goal) <= SETTINGS.astar.goal_reach_u
    nothing = lambda poses: np.maximum(np.linalg.norm(poses[:, :2] - goal, axis=1) - 0.8, 0.0)  # noqa: E731
    direct = search(np.array([1.0, -3.0, -np.pi / 2]), goal, entries, nothing, body(), SETTINGS.astar)
    price = sum(arc_cost(entries[m], 0.1) for m in direct.moves)
    assert direct.reached and price == pytest.approx(5.25), "no detour: five rolls and a shorter move"
    walled_in = [box_row(4.0 + dx, -3.0 + dy, 0.4, 0.4) for dx in (-1.3, 1.3) for dy in (-1.3, 1.3)]
    with pytest.raises(PlanningError, match="no primitive"):
        search(start + np.array([0.0, 0.0, 0.8]), goal, [ROLL], nothing, body(*walled_in), SETTINGS.astar)


def test_the_reverse_heuristic_knows_what_turning_costs() -> None:
    few = msgspec.structs.replace(SETTINGS, astar=msgspec.structs.replace(SETTINGS.astar, reverse_nodes=400))
    navigator = build(msgspec.structs.replace(data("astar_reverse"), settings=few), None)
    assert isinstance(navigator, AstarNavigator)
    navigator.set_goal(np.array([-5.0, -3.0]))
    assert navigator.heuristic is not None
    aligned, across = navigator.heuristic(np.array([[0.0, -3.0, -np.pi / 2], [0.0, -3.0, np.pi]]))
    assert 4.0 <= aligned < across
    near, metric = nearest_nodes(np.zeros((1, 3)), np.array([[3.0, 0, 0], [1.0, 0, 1.0], [2.0, 0, 0]]), 2, 0.5)
    assert list(near[0]) == [1, 2] and metric[0] == pytest.approx([1.5, 2.0])
    assert arc_cost(CW, 0.1) == pytest.approx(0.25)
    assert [e.name for e in usable(LIBRARY, ["roll", "cw", "ccw"], 10.0)] == ["roll", "cw", "ccw"], (
        "neither slow nor unknown ones"
    )
    with pytest.raises(PlanningError, match="no primitive"):
        usable(LIBRARY, ["hop"], 10.0)


def test_a_star_plays_the_next_move_of_its_last_plan_when_it_finds_none() -> None:
    navigator = build(data("astar_grid"), None)
    assert isinstance(navigator, AstarNavigator)
    with pytest.raises(PlanningError, match="no goal"):
        navigator.decide(situation(4.0, -3.0, -np.pi / 2))
    navigator.set_goal(np.array([-5.0, -3.0]))
    first = navigator.decide(situation(4.0, -3.0, -np.pi / 2))
    assert isinstance(first, GaitOrder) and first.name == "roll" and list(first.range_u[:2]) == [1.0, 1.2]
    off = navigator.decide(situation(40.0, -3.0, -np.pi / 2))
    assert isinstance(off, GaitOrder) and navigator.fallbacks == 1


@pytest.mark.parametrize("kind", ["value", "hybrid", "astar_grid"])
def test_goals_that_cannot_be_are_refused_and_the_old_one_stays(kind: str) -> None:
    navigator = build(data(kind, WALL), Slider())
    navigator.set_goal(np.array([-5.0, 0.0]))
    for goal in (np.array([0.0, -3.0]), np.array([50.0, 0.0])):
        with pytest.raises(PlanningError, match=r"obstacle|off the grid"):
            navigator.set_goal(goal)
    with pytest.raises(NotANumberError):
        navigator.set_goal(np.array([np.nan, 0.0]))
    navigator.decide(situation(-3.0, 0.0, np.pi / 2))
