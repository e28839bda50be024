"""Execution: a plan is followed, faults are survived, and no command ever lets the last holding pad go."""

from pathlib import Path

import numpy as np
import pytest

from onboard.clock import WallClock
from onboard.errors import PlanningError
from onboard.planning.contact.execution.executor import Executor, Mode
from onboard.planning.contact.execution.replan import plan_measured
from onboard.planning.contact.execution.step import Phase
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import load_scene
from onboard.planning.contact.worm import load_worm
from tests.worm.kinematic_worm import KinematicWorm, ScriptedPlanner, drive

GOAL = np.array([0.46, 0.2, 0.0])


@pytest.fixture(scope="module")
def parts(root: Path):
    spec = load_worm(root / "robots" / "worm_hardware.toml")
    scene = load_scene(root / "robots" / "scenes" / "worm_planar.toml")
    shape = np.tile([0.09, 0.0, 0.0], (2, 1))
    frames = np.empty((3, 3, 4))
    chain(np.array([[0, 0, 1, 0.1], [0, -1, 0, 0.2], [1, 0, 0, 0.02]], dtype=float), shape, frames)
    return spec, scene, State(frames, shape, np.ones(3, dtype=np.uint8))


@pytest.fixture
def run(parts):
    spec, scene, start = parts

    def plan(state: State):
        return plan_measured(spec, scene, state, GOAL, WallClock(), budget_s=60.0, expansions=1000)

    worm, planner = KinematicWorm(spec, scene, start), ScriptedPlanner(plan)
    return worm, planner, Executor(spec, scene, start, GOAL, worm, worm, planner)


def moving(executor: Executor) -> bool:
    return executor.run is not None and executor.run.phase is Phase.MOVE


def test_the_worm_crawls_to_its_goal_and_always_holds_on(run) -> None:
    worm, _, executor = run
    drive(worm, executor, 200.0)
    assert executor.mode is Mode.ARRIVED, executor.record
    assert np.linalg.norm(worm.frames[-1, :, 3] - GOAL) < 0.051
    assert worm.least_holding >= 1 and executor.record.steps >= 6


def test_every_release_waits_for_the_seals_that_have_to_hold(run) -> None:
    worm, _, executor = run
    before = worm.on.copy()
    while worm.t_s < 60.0 and executor.mode is not Mode.ARRIVED:
        worm.advance(0.05)
        sealed = worm.holding & worm.on
        executor.tick(worm.t_s)
        for pad in np.flatnonzero(before & ~worm.on):
            assert np.any(np.delete(sealed & worm.on, pad)), f"pad {pad} let go at {worm.t_s:.2f} s"
        before = worm.on.copy()


def test_a_lost_seal_stops_the_motion_and_a_new_plan_starts_from_what_still_holds(run) -> None:
    worm, planner, executor = run
    drive(worm, executor, 60.0, lambda: executor.run is not None and executor.run.phase is Phase.AIM and executor.held.sum() == 2)
    pad = int(np.flatnonzero(executor.held)[0])
    worm.leaking.add(pad)
    drive(worm, executor, 2.0, lambda: executor.mode is Mode.RESEALING)
    assert executor.mode is Mode.RESEALING and executor.record.seals_lost == 1
    worm.leaking.clear()
    asked = len(planner.asked)
    drive(worm, executor, 20.0, lambda: len(planner.asked) > asked)
    assert len(planner.asked) == asked + 1 and executor.record.replans["seal lost"] == 1
    np.testing.assert_array_equal(planner.asked[-1][0].attached.astype(bool), worm.holding)
    assert worm.least_holding >= 1


def test_a_pad_that_never_seals_is_tried_elsewhere_and_then_given_up_while_the_others_hold(run) -> None:
    worm, _, executor = run
    worm.dead = {2}
    worm.vacuum_pa[2] = 50_000.0  # it holds from before; once let go it never does again
    drive(worm, executor, 900.0)
    assert executor.mode is Mode.HOLDING and executor.record.reason
    assert "a pad does not seal" in executor.record.replans or executor.record.seals_lost
    assert worm.least_holding >= 1


def test_a_pad_that_slides_beyond_the_limit_makes_the_worm_plan_anew(run) -> None:
    worm, _, executor = run
    drive(worm, executor, 60.0, lambda: executor.run is None and executor.mode is Mode.STEPPING and executor.record.steps == 1)
    for pad in np.flatnonzero(executor.held):
        worm.shove(int(pad), np.array([0.0, 0.02, 0.0]))
    worm._place(worm.holding)
    drive(worm, executor, 20.0, lambda: executor.mode is Mode.PLANNING)
    assert executor.record.replans["drift"] == 1
    drive(worm, executor, 200.0)
    assert executor.mode is Mode.ARRIVED


def test_a_body_that_does_not_follow_is_noticed(run) -> None:
    worm, _, executor = run
    drive(worm, executor, 60.0, lambda: moving(executor))
    worm.stuck = True
    drive(worm, executor, 20.0, lambda: executor.mode is Mode.PLANNING)
    assert any("drift" in reason for reason in executor.record.replans)


def test_an_emergency_stop_in_mid_step_moves_nothing_and_lets_nothing_go(run) -> None:
    worm, _, executor = run
    drive(worm, executor, 60.0, lambda: moving(executor))
    before = worm.commands[-1]
    executor.stop()
    for _ in range(100):
        worm.advance(0.05)
        executor.tick(worm.t_s)
    assert executor.mode is Mode.HOLDING
    np.testing.assert_array_equal(worm.commands[-1].pressures, before.pressures)
    np.testing.assert_array_equal(worm.commands[-1].suction, before.suction)
    assert worm.least_holding >= 1


def test_a_dead_planner_leaves_all_pads_holding(run) -> None:
    worm, planner, executor = run
    planner.dead = True
    drive(worm, executor, 60.0)
    assert executor.mode is Mode.HOLDING and "planner" in executor.record.reason
    assert worm.t_s < 35.0 and worm.holding.all() and all(c.suction.all() for c in worm.commands)


def test_lost_poses_freeze_the_motion_and_then_end_the_run(run) -> None:
    worm, _, executor = run
    drive(worm, executor, 60.0, lambda: moving(executor))
    worm.blind = True
    drive(worm, executor, 0.5)
    frozen = executor.want.shape.copy()
    drive(worm, executor, 2.0)
    np.testing.assert_array_equal(executor.want.shape, frozen)
    drive(worm, executor, 5.0)
    assert executor.mode is Mode.HOLDING and "poses" in executor.record.reason


def test_poses_that_are_not_numbers_are_refused_and_counted(run) -> None:
    worm, _, executor = run
    drive(worm, executor, 3.0)
    worm.blind = True
    worm.reading = type(worm.reading)(worm.t_s + 0.05, np.full((3, 3, 4), np.nan))
    before = executor.estimate.frames.copy()
    worm.advance(0.05)
    executor.tick(worm.t_s)
    np.testing.assert_array_equal(executor.estimate.frames, before)
    assert executor.record.not_finite == 1


def test_no_plan_at_all_holds_with_the_reason(run) -> None:
    worm, planner, executor = run

    def refuse(state: State):
        raise PlanningError("no surface path leads there")

    planner.make = refuse
    drive(worm, executor, 200.0)
    assert executor.mode is Mode.HOLDING and "no surface path" in executor.record.reason and worm.holding.all()


def test_a_worm_without_execution_numbers_is_refused(root: Path, parts) -> None:
    _, scene, start = parts
    spec = load_worm(root / "robots" / "worm.toml")
    with pytest.raises(PlanningError, match="execution"):
        Executor(spec, scene, start, GOAL, None, None, None)
