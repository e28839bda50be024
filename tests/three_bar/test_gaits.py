"""The gaits move and turn the robot as measured, whichever way it lies."""

from __future__ import annotations

import numpy as np
import pytest

from sim.three_bar.gait import CableTracker, Effect, cable_order, run_primitive
from sim.three_bar.plant import Plant
from sim.three_bar.pose import axis_angle, displacement, heading, lower_caps, planar_pose, wrap
from sim.three_bar.robot_file import ThreeBar


def cycles(plant: Plant, name: str, count: int = 4, settle_s: float = 3.0) -> list[Effect]:
    plant.reset(yaw_rad=0.7)
    plant.settle(settle_s)
    return [run_primitive(plant, plant.spec.primitive(name)) for _ in range(count)]


def test_a_roll_advances_1_7_to_2_3_a_cycle_against_the_heading(flat_plant: Plant) -> None:
    effects = cycles(flat_plant, "roll")
    assert all(1.7 <= e.distance_u <= 2.3 for e in effects)
    assert all(e.dy_u < -1.5 for e in effects), "the roll runs along the reverse of the heading"
    assert all(abs(np.degrees(e.turn_rad)) < 17 for e in effects)
    assert all(4.0 < e.seconds < 5.6 and not e.timeouts for e in effects)


def test_cw_turns_right_by_17_to_34_degrees(flat_plant: Plant) -> None:
    effects = cycles(flat_plant, "cw")
    assert all(-34 <= np.degrees(e.turn_rad) <= -15 for e in effects)
    assert all(6.8 < e.seconds < 8.4 for e in effects)


def test_ccw_turns_left(flat_plant: Plant) -> None:
    """Single cycles differ (slips on release); the mean over four from two starts is +15 to +25 degrees."""
    turns = [np.degrees(e.turn_rad) for s in (2.0, 3.0) for e in cycles(flat_plant, "ccw", settle_s=s)]
    assert 12 <= np.mean(turns) <= 28
    assert np.mean([t > 10 for t in turns]) >= 0.6


def test_the_symmetry_remap_is_what_keeps_a_roll_rolling(spec: ThreeBar, flat_plant: Plant) -> None:
    """Five cycles visit all three ways of lying; without dealing the targets out anew the second cycle goes nowhere."""
    flat_plant.reset()
    flat_plant.settle()
    seen = {lower_caps(flat_plant.caps())}
    roll = spec.primitive("roll")
    for _ in range(5):
        run_primitive(flat_plant, roll)
        seen.add(lower_caps(flat_plant.caps()))
    orders = {tuple(item.order) for item in spec.symmetry for lower in item.lower_caps if lower in seen}
    assert len(orders) == 3
    from sim.three_bar.gait import track

    flat_plant.reset()
    flat_plant.settle()
    run_primitive(flat_plant, roll)
    before = planar_pose(flat_plant.caps())
    for step in ([1.0] * 6, *roll.steps, [1.0] * 6):
        track(flat_plant, step, roll)
    moved = displacement(before, planar_pose(flat_plant.caps()))
    assert np.hypot(moved[0], moved[1]) < 1.2


def test_orders_follow_the_robot_through_its_threefold_symmetry(spec: ThreeBar) -> None:
    """Applying an order is relabelling rods: cable k of the relabelled robot joins the relabelled caps."""
    pairs = [frozenset(pair) for pair in spec.tendons.driven.pairs]
    for item in spec.symmetry:
        mapped = [pairs[k] for k in item.order]
        cap_of = {}
        for cap in range(6):
            mine = [k for k in range(6) if cap in pairs[k]]
            common = frozenset.intersection(*(mapped[k] for k in mine))
            assert len(common) == 1, "each cap maps to one cap"
            cap_of[cap] = next(iter(common))
        rods = {frozenset(rod) for rod in spec.bodies.rods}
        assert {frozenset(cap_of[c] for c in rod) for rod in spec.bodies.rods} == rods


def test_an_unknown_way_of_lying_has_no_order(spec: ThreeBar) -> None:
    caps = spec.start_caps.copy()
    assert cable_order(spec, caps) == [0, 1, 2, 3, 4, 5]
    caps[:, 2] = [0, 1, 0, 1, 0, 1]
    assert lower_caps(caps) == (0, 2, 4)
    assert cable_order(spec, caps) is None


def test_a_cable_that_has_arrived_stays_off_and_a_slack_one_is_not_let_out(spec: ThreeBar) -> None:
    tracker = CableTracker(spec.gait, np.full(6, 0.5), 1.0, 1.0)
    length = np.array([1.5, 1.55, 1.2, 1.2, 2.0, 1.65])
    rest = np.array([1.5, 1.5, 1.1, 1.4, 1.9, 1.6])
    command = tracker.command(length, rest)
    assert command[0] == command[1] == 0.0, "arrived"
    assert command[2] == -1.0, "taut and too short: let out"
    assert command[3] == 0.0, "slack: not let out further"
    assert command[4] == 1.0, "too long: wind in"
    assert 0.0 < command[5] <= 1.0
    assert tracker.command(np.full(6, 2.5), rest)[0] == 0.0, "latched"


def test_planar_pose_follows_a_turn_and_wraps(spec: ThreeBar) -> None:
    caps = spec.start_caps
    for turn in (0.3, 2.0, -3.0):
        c, s = np.cos(turn), np.sin(turn)
        turned = caps @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        assert wrap(axis_angle(turned) - axis_angle(caps) - turn) == pytest.approx(0.0, abs=1e-12)
        assert wrap(heading(turned) - axis_angle(turned)) == pytest.approx(np.pi / 2)
    assert wrap(np.radians(179.0) - np.radians(-179.0)) == pytest.approx(np.radians(-2.0))
