"""The pressure loop acts on reachable errors only, starts without a jump, stays in range and trusts the covariance."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.control.cable_pressure import CablePressureConfig
from onboard.control.reachable import ReachableSpace
from onboard.errors import NotANumberError
from onboard.messages import EstimateFlag, frozen
from tests.unit.control_support import (
    CABLES,
    MEASURED,
    MODULES,
    SPEC,
    TICK_S,
    TOWER,
    VALVES,
    bent,
    estimate,
    goal,
    rotation_about,
)


def controller(**change):
    control = CablePressureConfig(**change).build(SPEC)
    control.reset(np.full(40, VALVES.rest_pressure_pa))
    return control


def test_at_rest_a_module_has_three_freedoms_and_their_bases_are_orthonormal():
    for pose in (bent(), bent(40.0), bent(70.0, 2.0)):
        basis = ReachableSpace(TOWER).at(estimate(pose=pose)).basis
        assert basis.shape == (MODULES, 8, 3)
        assert np.einsum("mki,mkj->mij", basis, basis) == pytest.approx(np.tile(np.eye(3), (MODULES, 1, 1)), abs=1e-9)


def test_projecting_twice_changes_nothing_and_most_directions_are_out_of_reach():
    reach, rng = ReachableSpace(TOWER).at(estimate(pose=bent(30.0))), np.random.default_rng(3)
    once = reach.project(rng.normal(size=CABLES))
    assert reach.project(once) == pytest.approx(once, abs=1e-12)
    rank = np.linalg.matrix_rank(np.array([reach.project(unit) for unit in np.eye(CABLES)]), tol=1e-9)
    assert rank == 3 * MODULES


def test_an_arc_of_the_arm_is_reachable_from_upright():
    up = estimate()
    change = estimate(pose=bent(2.0, 1.1)).cable_length_m - up.cable_length_m
    kept = ReachableSpace(TOWER).at(up).project(change)
    assert np.linalg.norm(kept - change) < 0.2 * np.linalg.norm(change)


def test_what_equal_pressure_does_to_the_rings_is_mostly_out_of_reach():
    """Measured on the plant, 0.35 to 0.2 MPa: main cables 2.19 mm longer, secondary ones 1.22: rings yield, discs do not."""
    change = np.zeros((MODULES, 2, 4))
    change[:, 0], change[:, 1] = 2.19e-3, 1.22e-3
    kept = ReachableSpace(TOWER).at(estimate()).project(change.reshape(-1))
    assert np.linalg.norm(kept) < 0.4 * np.linalg.norm(change)


@pytest.mark.parametrize("start", [2.0e5, 3.5e5, 5.5e5])
def test_the_first_set_points_are_what_the_valves_have(start):
    control = controller()
    control.reset(np.full(40, start))
    first = control.update(estimate(), MEASURED, goal(bent(40.0)))
    assert first.value == pytest.approx(np.full(40, start), abs=1e-6)


def test_measured_values_that_are_missing_or_out_of_range_start_inside_it():
    control = controller()
    measured = np.full(40, 9e9)
    measured[3], measured[4] = np.nan, -1.0
    control.reset(measured)
    first = control.update(estimate(), MEASURED, goal(bent()))
    assert first.value[3] == pytest.approx(VALVES.rest_pressure_pa)
    assert first.value[4] == pytest.approx(VALVES.min_pressure_pa)
    assert first.value[5] == pytest.approx(VALVES.max_pressure_pa)


def test_a_cable_that_stays_too_long_pulls_harder():
    control = controller(stiffness_pa_per_m=0.0)
    wanted, there = bent(20.0, 0.3), estimate()
    target = goal(wanted)
    for k in range(240):
        out = control.update(dataclasses.replace(there, t_s=k * TICK_S), MEASURED, target)
    too_long = there.cable_length_m - target.cable_length_m
    far = np.abs(too_long) > 0.004
    assert far.sum() > 10
    assert (np.sign(out.value[far] - 3.5e5) == np.sign(too_long[far])).all()


def test_at_the_goal_nothing_moves():
    control, pose = controller(stiffness_pa_per_m=0.0), bent(25.0)
    for k in range(160):
        out = control.update(estimate(k * TICK_S, pose), MEASURED, goal_25)
    assert out.value == pytest.approx(np.full(40, 3.5e5), abs=1.0)


goal_25 = goal(bent(25.0))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_whatever_the_estimate_does_range_and_rate_hold(seed):
    rng = np.random.default_rng(seed)
    control = controller(max_rate_pa_per_s=3e5)
    target, last, t_s = goal(bent(45.0)), None, 0.0
    for _ in range(40):
        t_s += float(rng.uniform(0.0, 0.05))
        pose = bent(float(rng.uniform(0, 80)), float(rng.uniform(-3, 3)))
        out = control.update(estimate(t_s, pose, float(rng.choice([1e-4, 1e-2, 1.0]))), MEASURED, target).value
        assert (out >= VALVES.min_pressure_pa).all() and (out <= VALVES.max_pressure_pa).all()
        if last is not None:
            assert (np.abs(out - last) <= 3e5 * 0.05 + 1e-6).all()
        last = out


def test_a_goal_out_of_reach_does_not_wind_up():
    """Held away from the goal for twenty seconds, the controller lets go within a few seconds after the error has turned."""
    control, far = controller(), goal(bent(60.0, 0.0))
    t_s, stuck = 0.0, estimate(pose=bent(-30.0, 0.0))
    for _ in range(20 * 80):
        t_s += TICK_S
        out = control.update(dataclasses.replace(stuck, t_s=t_s), MEASURED, far)
    held_back = np.flatnonzero(out.value >= VALVES.max_pressure_pa - 1.0)
    assert held_back.size > 3
    assert control.saturated >= held_back.size
    beyond, released = estimate(pose=bent(90.0, 0.0)), None
    for k in range(5 * 80):
        t_s += TICK_S
        out = control.update(dataclasses.replace(beyond, t_s=t_s), MEASURED, far)
        if released is None and (out.value[held_back] < VALVES.max_pressure_pa - 1e4).all():
            released = k * TICK_S
    assert released is not None and released < 2.0


@pytest.mark.parametrize(
    "change", [{"flags": EstimateFlag.UNCERTAIN}, {"flags": EstimateFlag.COASTING}, {"flags": EstimateFlag.LOST}]
)
def test_with_a_poor_estimate_the_integrator_stands_still(change):
    control, target = controller(proportional_pa_per_m=0.0, damping_pa_s_per_m=0.0, stiffness_pa_per_m=0.0), goal(bent(30.0))
    for k in range(100):
        out = control.update(estimate(k * TICK_S, **change), MEASURED, target)
    assert out.value == pytest.approx(np.full(40, 3.5e5), abs=1e-6)
    for k in range(100, 200):
        out = control.update(estimate(k * TICK_S), MEASURED, target)
    assert np.abs(out.value - 3.5e5).max() > 1e4


def test_the_tips_motion_by_shape_agrees_with_the_arms_own_geometry():
    """Reachable length changes are found back from small arcs, and so is where they take the tip."""
    for tilt in (0.0, 35.0):
        here, there = estimate(pose=bent(tilt, 0.0)), estimate(pose=bent(tilt + 0.5, 0.0))
        reach = ReachableSpace(TOWER).at(here)
        found = reach.tip @ reach.shape(there.cable_length_m - here.cable_length_m)
        moved = there.tip_m - here.tip_m
        assert np.linalg.norm(found - moved) < 0.2 * np.linalg.norm(moved)


def test_vague_shapes_are_acted_on_less_and_what_moves_the_tip_is_not_lost():
    """With discs equally uncertain, an arc shows clearly in the lengths; discs that lean to opposite sides in turn do not."""
    sure, unsure = estimate(sigma_m=1e-4), estimate(sigma_m=3e-2)
    reach, (position, rotation) = ReachableSpace(TOWER).at(sure), bent()
    for disc, side in ((1, 1.0), (2, -1.0), (3, 1.0), (4, -1.0)):
        rotation[disc] = rotation_about([0.0, 1.0, 0.0], side * 0.03)
    arc = reach.shape(estimate(pose=bent(5.0, 0.0)).cable_length_m - sure.cable_length_m)
    zigzag = reach.shape(estimate(pose=(position, rotation)).cable_length_m - sure.cable_length_m)
    for shape in (arc, zigzag):
        assert reach.trust(sure, 0.003).act(shape) == pytest.approx(shape, abs=0.02 * np.linalg.norm(shape))
    trust = reach.trust(unsure, 0.003)
    assert np.linalg.norm(trust.act(zigzag)) < 0.3 * np.linalg.norm(zigzag)
    assert (reach.tip @ trust.act(arc))[:2] == pytest.approx((reach.tip @ arc)[:2], rel=0.05, abs=1e-4)


def test_inside_the_dead_band_nothing_is_integrated():
    near = goal(bent(0.05))
    moved = []
    for deadband_m in (0.0, 1e-3):
        control = controller(proportional_pa_per_m=0.0, stiffness_pa_per_m=0.0, damping_pa_s_per_m=0.0, deadband_m=deadband_m)
        for k in range(160):
            out = control.update(estimate(k * TICK_S), MEASURED, near)
        moved.append(np.abs(out.value - 3.5e5).max())
    assert moved[0] > 50.0 and moved[1] == pytest.approx(0.0, abs=1e-6)


def test_a_new_goal_on_the_way_to_another_starts_without_a_jump():
    control, t_s, last = controller(), 0.0, None
    for target in (goal(bent(40.0), name="a"), goal(bent(-40.0), name="b"), goal(bent(10.0, 2.0), name="c")):
        for _ in range(50):
            t_s += TICK_S
            out = control.update(estimate(t_s, bent(5.0)), MEASURED, target).value
            if last is not None:
                assert np.abs(out - last).max() <= control._config.max_rate_pa_per_s * TICK_S + 1e-6
            last = out


def test_bad_numbers_are_refused_by_name():
    control = controller()
    broken = estimate(cable_length_m=frozen(np.full(CABLES, np.nan)))
    with pytest.raises(NotANumberError, match="cable lengths"):
        control.update(broken, MEASURED, goal(bent()))
    bad = dataclasses.replace(goal(bent()), pressure_pa=frozen(np.full(40, np.inf)), name="broken")
    with pytest.raises(NotANumberError, match="broken"):
        control.update(estimate(), MEASURED, bad)
    foreign = dataclasses.replace(goal(bent()), cable_length_m=frozen(np.ones(CABLES - 1)), name="foreign")
    with pytest.raises(NotANumberError, match="foreign"):
        control.update(estimate(), MEASURED, foreign)


def test_one_bad_estimate_leaves_no_trace():
    outputs = []
    for spoiled in (False, True):
        control = controller()
        for k in range(150):
            if spoiled and k == 50:
                with pytest.raises(NotANumberError):
                    control.update(estimate(k * TICK_S, cable_length_m=frozen(np.full(CABLES, np.nan))), MEASURED, goal_25)
            out = control.update(estimate(k * TICK_S, bent(10.0)), MEASURED, goal_25)
        outputs.append(out.value)
    assert (outputs[0] == outputs[1]).all()


def test_the_same_inputs_give_the_same_outputs_bit_for_bit():
    runs = []
    for _ in range(2):
        control, rng = controller(), np.random.default_rng(8)
        runs.append([control.update(estimate(k * TICK_S, bent(rng.uniform(0, 30))), MEASURED, goal_25).value for k in range(100)])
    assert all((a == b).all() for a, b in zip(*runs, strict=True))
