"""Contact, friction and the solver: nothing is pushed through, nothing fails to converge."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.vine import Options, Robot, Scene, Simulator, box, circle, load_scene, paper_robot, polygon, wall
from sim.vine.dense import step_program
from sim.vine.generate import random_scene
from sim.vine.kernels.work import UNCONVERGED
from sim.vine.measure import clearance, joint_gaps, obstacle_distance
from sim.vine.state import State


def rolled(sim: Simulator, headings: object, frames: int, **controls: object):
    state = sim.start(headings)
    return sim.rollout(state, sim.controls(frames, state, **controls), tape=True)


def worst_by_other_code(sim: Simulator, run, every: int = 20) -> tuple[float, float]:
    """Deepest penetration and widest joint gap of kept states, by code apart from the solver [m]."""
    depth = gap = 0.0
    for t in range(every - 1, len(run.q), every):
        state = State(run.q[t], run.v[t], run.links[t], run.controls[t, :, 2:5])
        for b in range(sim.batch):
            depth = max(depth, -clearance(state, b, sim.scenes[b], sim.robots[b], sim.settings.half))
            gap = max(gap, joint_gaps(state.q[b], int(state.links[b]), sim.settings.half, state.base[b]))
    return depth, gap


def test_the_clutter_scene_keeps_its_tolerances() -> None:
    scene = load_scene("clutter")
    sim = Simulator(Robot(), [scene] * 16)
    headings = scene.heading_rad + scene.spread_rad * np.linspace(-1, 1, 16)
    run = rolled(sim, headings, 200)
    assert not np.any(run.report.status & UNCONVERGED)
    depth, gap = worst_by_other_code(sim, run)
    assert depth <= 5e-5
    assert gap <= 5e-5
    assert run.report.penetration_m.max() > 0  # the scene is not empty


def random_sweep(count: int, first: int, frames: int = 120) -> tuple[int, float]:
    scenes = [random_scene(first + k) for k in range(count)]
    sim = Simulator(Robot(), scenes, Options(links=30))
    run = rolled(sim, 0.0, frames)
    assert np.all(np.isfinite(run.last.q))
    depth, _ = worst_by_other_code(sim, run)
    return int(np.sum((run.report.status & UNCONVERGED) > 0)), max(depth, run.report.penetration_m.max())


def test_random_scenes_with_slots_funnels_and_pockets_never_fail() -> None:
    unconverged, depth = random_sweep(40, 0)
    assert unconverged == 0
    assert depth <= 1e-4


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_random_scenes_never_fail() -> None:
    for first in range(0, 10_000, 500):
        unconverged, depth = random_sweep(500, first)
        assert unconverged == 0
        assert depth <= 1e-4


def test_interior_point_alone_finds_the_same_motion() -> None:
    scene = load_scene("clutter")
    runs = []
    for alone in (False, True):
        sim = Simulator(Robot(), [scene] * 4, Options(links=30, interior_point_only=alone, max_substeps=1))
        runs.append(rolled(sim, scene.heading_rad + np.array([-0.3, -0.1, 0.1, 0.3]), 60))
        assert not np.any(runs[-1].report.status & UNCONVERGED)
    np.testing.assert_allclose(runs[0].q[-1], runs[1].q[-1], atol=1e-6)


@pytest.mark.parametrize("hard", [False, True])
def test_steps_agree_with_a_trusted_solver(hard: bool) -> None:
    """The next velocity against Clarabel on an independent dense statement: within 1e-4 of the growth rate."""
    scene = load_scene("clutter")
    robot = paper_robot() if hard else Robot()
    options = Options.reference(links=20, centre_discs=False) if hard else Options(links=20, max_substeps=1)
    sim = Simulator(robot, [scene] * 4, options)
    run = rolled(sim, np.array([-1.1, -0.9, -0.7, -0.5]), 160)
    touching = 0
    for t in range(40, 159, 9):
        before, after = run.state(t), run.state(t + 1)
        for b in range(4):
            count = int(before.links[b])
            if after.links[b] != count:
                continue
            one = State(*(x[b : b + 1] for x in (before.q, before.v, before.links, before.base)))
            program = step_program(one, robot, scene.obstacles, options, scene.rate_m_s, robot.pressure_pa)
            touching += len(program.e) > 0
            assert np.abs(program.solve() - after.v[b, :count])[:, :2].max() < 1e-4 * scene.rate_m_s
    assert touching >= 3


def slides(friction: float, slope: float) -> float:
    """Sideways travel of the tip of a soft vine grown onto a wall slanted by `slope` [m]."""
    away = np.array([-math.sin(slope), math.cos(slope)])
    middle = np.array([0.08, 0.0])
    scene = Scene("slanted", (wall(middle - 0.3 * away, middle + 0.3 * away, 0.01),))
    sim = Simulator(Robot(friction=friction, stiffness_nm=0.1), [scene], Options(links=16))
    run = rolled(sim, 0.0, 60)
    assert not np.any(run.report.status & UNCONVERGED)
    return float(np.abs(run.last.tip()[0, 1]))


def test_friction_holds_the_tip_on_a_slope_below_its_cone_and_lets_go_above() -> None:
    slope = 0.3
    assert slides(0.0, slope) > 0.05
    assert slides(0.7 * math.tan(slope), slope) > 0.05
    assert slides(1.3 * math.tan(slope), slope) < 0.005


def test_a_sliding_contact_rides_up_by_friction_times_its_travel_and_no_more() -> None:
    """The convex friction cone's known artefact: at 0.15 m/s, friction 0.3 and 1/90 s at most 0.5 mm."""
    scene = Scene("slanted", (wall((0.06, -0.05), (0.4, 0.1), 0.01),))
    robot = Robot(friction=0.3)
    sim = Simulator(robot, [scene], Options(links=20))
    run = rolled(sim, 0.0, 110)
    assert np.hypot(*run.v[-1, 0, run.last.links[0] - 1, :2]) > 0.05  # it slides
    assert -1e-4 < clearance(run.last, 0, scene, robot, sim.settings.half) < 0.3 * 0.15 / 90 + 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_signed_distance_of_both_codes_agree(seed: int) -> None:
    from sim.vine.kernels.geometry import signed_distance
    from sim.vine.scene import world

    rng = np.random.default_rng(seed)
    shapes = (
        polygon([(0, 0), (0.1, 0.01), (0.08, 0.09), (0.01, 0.05)]),
        circle(0.05, 0.02, 0.03),
        wall((0, 0), (0.1, 0.04), 0.006),
        box(-0.02, -0.03, 0.06, 0.02),
    )
    flat = world([Scene("shapes", shapes)])
    for point in rng.uniform(-0.1, 0.2, (60, 2)):
        for k, shape in enumerate(shapes):
            found = signed_distance(flat, k, point[0], point[1])
            line = np.array([point, point + 1e-9])
            assert found[0] == pytest.approx(obstacle_distance(line, shape), abs=1e-7)
            assert math.hypot(found[1], found[2]) == pytest.approx(1.0)
