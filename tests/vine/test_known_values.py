"""Known right values of the vine simulator: closed forms and the paper's polynomials."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.vine import Options, Robot, Scene, Simulator, VineError, load_scene, paper_robot, wrinkling_moment
from sim.vine.kernels import laws
from sim.vine.kernels.work import INFEASIBLE, UNCONVERGED
from sim.vine.measure import clearance

FREE = Scene("free")


@pytest.mark.parametrize(
    ("gamma", "right"),
    [
        (0.0, 0.5),
        (math.pi / 6, 0.5512707),
        (math.pi / 4, 0.6017632),
        (math.pi / 2, math.pi / 4),
        (3 * math.pi / 4, 0.9403786),
        (math.pi, 1.0),
    ],
)
def test_wrinkled_share_of_the_moment(gamma: float, right: float) -> None:
    share, slope = laws.alpha.py_func(gamma)
    assert share == pytest.approx(right, abs=5e-8)
    if 0.0 < gamma < math.pi:
        step = 1e-6
        numeric = (laws.alpha.py_func(gamma + step)[0] - laws.alpha.py_func(gamma - step)[0]) / (2 * step)
        assert slope == pytest.approx(numeric, rel=1e-6)


def test_wrinkled_share_is_smooth_where_the_series_takes_over() -> None:
    inside, outside = laws.alpha.py_func(math.pi - 0.02 + 1e-9), laws.alpha.py_func(math.pi - 0.02 - 1e-9)
    assert inside[0] == pytest.approx(outside[0], abs=2e-9)
    assert inside[1] == pytest.approx(outside[1], rel=1e-3)


@pytest.mark.parametrize(
    ("pressure_pa", "strain", "onset"),
    [
        (5e3, 0.0051009, 0.0112886),
        (10e3, 0.0216983, 0.0482269),
        (15e3, 0.0576529, 0.1282716),
        (20e3, 0.1208049, 0.2688970),
    ],
)
def test_wrinkling_strain_and_onset_by_pressure(pressure_pa: float, strain: float, onset: float) -> None:
    robot = Robot(law="wrinkling", pressure_pa=pressure_pa)
    _, found_strain, found_onset, _, _ = laws.law_terms(laws.WRINKLING, robot.vector(), pressure_pa)
    assert found_strain == pytest.approx(strain, abs=5e-8)
    assert found_onset == pytest.approx(onset, abs=5e-8)
    assert found_onset > 2 * math.asin(found_strain)


def test_wrinkling_moment_at_ten_kilopascals() -> None:
    full = math.pi * 1e4 * 0.012**3
    found = wrinkling_moment(np.array([0.1, 0.2, 0.5, 1.0]), 1e4, 0.012) / full
    np.testing.assert_allclose(found, [0.8158, 0.9107, 0.9646, 0.9818], atol=5e-5)
    assert wrinkling_moment(-0.2, 1e4, 0.012) == -wrinkling_moment(0.2, 1e4, 0.012)


def test_wrinkling_moment_is_continuous_at_its_onset() -> None:
    for pressure_pa in (2e3, 5e3, 1e4, 2e4):
        p = Robot(law="wrinkling", pressure_pa=pressure_pa).vector()
        onset = laws.law_terms(laws.WRINKLING, p, pressure_pa)[2]
        below, above = wrinkling_moment(np.array([onset - 1e-9, onset + 1e-9]), pressure_pa, 0.012)
        assert below == pytest.approx(above, rel=1e-6)


def test_wrinkling_is_refused_outside_its_data() -> None:
    with pytest.raises(VineError, match="beyond pi"):
        wrinkling_moment(3.2, 1e4, 0.012)
    with pytest.raises(VineError, match="20000"):
        wrinkling_moment(0.1, 2.5e4, 0.012)


def test_straight_free_growth() -> None:
    """From 27 mm at 150 mm/s, 90 steps of 1/90 s: the tip at 177 mm, ten links."""
    sim = Simulator(paper_robot(), [FREE], Options.reference(links=20))
    state = sim.start(0.0)
    assert state.tip()[0, 0] == pytest.approx(0.027)
    run = sim.rollout(state, sim.controls(90, state, rate_m_s=0.15))
    assert run.last.tip()[0] == pytest.approx([0.177, 0.0], abs=1e-9)
    assert run.last.links[0] == 10


def test_two_links_swing_at_their_modal_frequencies() -> None:
    """m 20 g, I 1e-5 kg m^2, k 0.03 N m, half length 9 mm: 26.354 and 80.528 rad/s."""
    dt = 1e-4
    robot = paper_robot().changed(damping_nms=0.0)
    sim = Simulator(robot, [FREE], Options.reference(links=4, dt_s=dt))
    state = sim.start(0.0)
    frames = 6
    controls = sim.controls(frames, state, rate_m_s=0.0)

    def after(angles: list[float], rates: list[float]) -> np.ndarray:
        """The two links' angles and rates, moved consistently with the pins, after some steps."""
        moved = state.copy()
        half = robot.half_length_m
        x = y = vx = vy = 0.0
        for i in range(2):
            c, s = math.cos(angles[i]), math.sin(angles[i])
            moved.q[0, i] = x + half * c, y + half * s, angles[i]
            moved.v[0, i] = vx - half * s * rates[i], vy + half * c * rates[i], rates[i]
            x, y = x + 2 * half * c, y + 2 * half * s
            vx, vy = vx - 2 * half * s * rates[i], vy + 2 * half * c * rates[i]
        run = sim.rollout(moved, controls)
        return np.concatenate([run.last.q[0, :2, 2], run.last.v[0, :2, 2]])

    step = 1e-6
    columns = []
    for k in range(4):
        there, back = [0.0] * 4, [0.0] * 4
        there[k], back[k] = step, -step
        columns.append((after(there[:2], there[2:]) - after(back[:2], back[2:])) / (2 * step))
    turns = np.angle(np.linalg.eigvals(np.array(columns).T)) / (frames * dt)
    np.testing.assert_allclose(sorted(turns[turns > 0]), [26.354, 80.528], atol=0.02)


def test_growth_against_a_wall_stalls_with_the_stall_force() -> None:
    scene = load_scene("wall")
    robot = Robot()
    sim = Simulator(robot, [scene], Options(links=20))
    state = sim.start(0.0)
    run = sim.rollout(state, sim.controls(180, state), tape=True)
    assert not np.any(run.report.status & UNCONVERGED)
    assert clearance(run.last, 0, scene, robot, robot.half_length_m) == pytest.approx(0.0, abs=1e-5)
    assert np.abs(run.last.v).max() < 1e-6
    count = run.last.links[0]
    push = np.linalg.norm(run.tape[0][-1, 0, count - 1, :2]) / sim.settings.dt
    assert push == pytest.approx(robot.stall_force_n, rel=1e-3)


def test_hard_growth_against_a_wall_is_reported_as_infeasible() -> None:
    sim = Simulator(paper_robot(), [load_scene("wall")], Options.reference(links=20))
    state = sim.start(0.0)
    run = sim.rollout(state, sim.controls(120, state))
    assert np.any(run.report.status & INFEASIBLE)
    assert np.all(np.isfinite(run.q))
