"""Fitting: known robots are found again from video-like tracks, and what tracks cannot tell is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from offboard.vine.evaluate import CONTACT, tracks
from offboard.vine.fit import descend, fit
from offboard.vine.problem import Problem
from offboard.vine.shape import Target, centre_line, distance
from offboard.vine.synthetic import synthetic_trial, truth
from offboard.vine.tracks import Trial, load, pad, save
from onboard.errors import ConfigError
from sim.vine import Robot, UnitsWarning, VineError


def test_shape_distance_is_zero_on_the_line_and_its_gradient_equals_differences() -> None:
    rng = np.random.default_rng(0)
    q = np.zeros((2, 5, 3))
    q[:, :, 0] = 0.009 + 0.018 * np.arange(5)
    q[:, 3, 0], q[1, 4, 0] = 0.06, 0.08
    links = np.array([4, 5])
    line, corners = centre_line(q, links, 0.009)
    on_it = Target(np.stack([np.linspace(line[k, 0], line[k, corners[k] - 1], 7) for k in range(2)]), np.array([7, 7]))
    assert distance(q, links, 0.009, on_it)[0] == pytest.approx([0, 0], abs=1e-18)
    q += 1e-3 * rng.normal(size=q.shape)
    away = Target(on_it.points + 2e-3 * rng.normal(size=on_it.points.shape), np.array([7, 5]))
    _, gradient = distance(q, links, 0.009, away)
    for index in [(0, 0, 0), (0, 1, 2), (0, 3, 1), (1, 2, 2), (1, 3, 2), (1, 4, 0)]:
        step, found = 1e-7, []
        for sign in (1, -1):
            moved = q.copy()
            moved[index] += sign * step
            found.append(distance(moved, links, 0.009, away)[0].sum())
        assert (found[0] - found[1]) / (2 * step) == pytest.approx(gradient[index], rel=1e-5, abs=1e-9)


def test_the_loss_gradient_equals_differences() -> None:
    robot, growth = truth("linear")
    trial = synthetic_trial(robot, growth, 0, 36, noise_m=1e-3, seed=3)
    problem = Problem(
        robot.changed(stiffness_nm=0.04), [trial], ("growth", "stiffness", "mass"), 0.125, fit_heading=True, fit_time=True
    )
    packed = problem.start()
    packed[-2:] = 0.02, 0.3
    _, gradient = problem.loss(packed)
    for k, name in enumerate(problem.names()):
        best = np.inf
        for step in (1e-4, 1e-5, 1e-6):
            there, back = packed.copy(), packed.copy()
            there[k] += step
            back[k] -= step
            difference = (problem.loss(there)[0] - problem.loss(back)[0]) / (2 * step)
            best = min(best, abs(difference - gradient[k]) / max(abs(gradient[k]), 1e-3))
        assert best < 2e-3, name


def test_growth_and_stiffness_are_found_again_without_noise_and_in_contact() -> None:
    robot, growth = truth("linear")
    trials = [synthetic_trial(robot, growth, kind, 60, CONTACT if kind else (), seed=kind) for kind in range(2)]
    guess = robot.changed(stiffness_nm=0.6 * robot.stiffness_nm)
    problem = Problem(guess, trials, ("growth", "stiffness"), 1.1 * growth)
    packed, _ = descend(problem, problem.start())
    assert np.exp(packed[0]) == pytest.approx(growth, rel=5e-3)
    assert np.exp(packed[1]) == pytest.approx(robot.stiffness_nm, rel=5e-3)


def test_a_straight_undisturbed_growth_does_not_tell_the_stiffness() -> None:
    robot, growth = truth("linear")
    rng = np.random.default_rng(0)
    times = np.arange(0, 0.66, 1 / 30)
    lines = [np.linspace([0.0, 0.0], [0.031 + growth * t, 0.0], 9) for t in times]
    target = pad([line + 5e-4 * rng.normal(size=line.shape) for line in lines])
    straight = Trial("still", times, target, np.array([0.0, 1.0]), np.zeros((2, 3)))
    found = fit([straight], robot, growth, ("growth", "stiffness"), starts=1)
    assert found.identified["growth"]
    assert not found.identified["stiffness"]
    assert found.values["growth"] == pytest.approx(growth, rel=1e-2)


def test_pixels_are_scaled_by_a_known_growth_rate() -> None:
    robot, growth = truth("linear")
    trial = synthetic_trial(robot, growth, 0, 60, pixel_m=0.8e-3, seed=2)
    with pytest.raises(VineError, match="pixels"):
        Problem(robot, [trial], ("growth",), growth)
    with pytest.raises(VineError, match="cannot both"):
        Problem(robot, [trial], ("growth", "scale"), growth)
    problem = Problem(robot, [trial], ("scale", "stiffness"), growth)
    packed, _ = descend(problem, problem.start())
    assert np.exp(packed[0]) == pytest.approx(0.8e-3, rel=5e-3)


@pytest.mark.long
@pytest.mark.parametrize("law", ["linear", "wrinkling"])
def test_noisy_video_like_tracks_give_growth_and_stiffness(law: str) -> None:
    robot, growth = truth(law)
    guess = robot.changed(damping_nms=1.5 * robot.damping_nms)
    found = fit(tracks(law, 1e-3, 5, 0), guess, 1.1 * growth, starts=1)
    assert found.values["growth"] == pytest.approx(growth, rel=5e-3)
    if law == "linear":
        assert found.values["stiffness"] == pytest.approx(robot.stiffness_nm, rel=3e-2)
    else:
        assert found.values["pressure"] == pytest.approx(robot.pressure_pa, rel=3e-2)


def test_files_bring_back_what_was_saved(tmp_path: Path) -> None:
    robot, growth = truth("linear")
    made = [synthetic_trial(robot, growth, kind, 30, CONTACT, 1e-3, missing=0.2, seed=kind) for kind in range(2)]
    path = tmp_path / "tracks.csv"
    save(path, made)
    for one, other in zip(load(path), made, strict=True):
        np.testing.assert_allclose(one.times_s, other.times_s, atol=1e-6)
        np.testing.assert_array_equal(one.target.counts, other.target.counts)
        np.testing.assert_allclose(one.target.points, other.target.points, atol=1e-8)
        np.testing.assert_allclose(one.base_at(other.times_s), other.base_at(other.times_s), atol=1e-5)
        assert len(one.walls) == 1
    rows = np.genfromtxt(path, delimiter=",", names=True)
    npz = tmp_path / "tracks.npz"
    np.savez(npz, **{name: rows[name] for name in rows.dtype.names})
    assert len(load(npz)) == 2


def test_bad_tracks_are_refused_and_doubtful_units_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    good = "\n".join(f"0,{0.1 * f},{x},0" for f in range(4) for x in (0, 50, 100))
    for text, message in (
        ("trial,time_s,x_mm,y_mm\n" + good.replace("50", "nan", 1), "not a finite number"),
        ("trial,time_s,x_mm,y_mm\n" + good.replace("50", "fifty", 1), "not a number"),
        ("trial,time_s,x,y\n" + good, "x_mm"),
        ("time_s,x_mm,y_mm\n1,2,3\n", "trial"),
        ("trial,time_s,x_mm,y_mm\n0,0,0\n", "line 2"),
        ("trial,time_s,x_mm,y_mm\n0,0,0,0\n0,0,1,0\n", "three frames"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load(path)
    path.write_text("trial,time_s,x_m,y_m\n" + good)
    with pytest.warns(UnitsWarning, match="units"):
        load(path)
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "none.csv")


def test_unknown_parameters_cannot_be_fitted() -> None:
    trial = synthetic_trial(Robot(), 0.1, 0, 12)
    with pytest.raises(VineError, match="colour"):
        Problem(Robot(), [trial], ("colour",), 0.1)


def test_tracks_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    good = "\n".join(f"0,{0.1 * f},{x},0" for f in range(4) for x in (0, 25, 50))
    path.write_text("trial,time_s,x_mm,y_px\n" + good)
    with pytest.raises(ConfigError, match="one unit"):
        load(path)
    path.write_text("trial,time_s,x_mm,y_mm\n" + "\n".join(f"0,{0.1 * f},0,0" for f in range(4) for _ in range(3)))
    with pytest.raises(ConfigError, match="no length"):
        load(path)
    path.write_text("trial,time_s,x_mm,y_mm\n" + good)
    base, walls = tmp_path / "tracks.base.csv", tmp_path / "tracks.walls.csv"
    base.write_text("trial,time_s,x_mm,y_mm,heading_rad\n1,0,0,0,0\n")
    with pytest.raises(ConfigError, match="has no rows"):
        load(path)
    base.unlink()
    walls.write_text("x1_mm,y1_mm,x2_mm,y2_mm\n20,-50,20,50\n")
    with pytest.raises(VineError, match="inside an obstacle"):
        Problem(Robot(), load(path), ("growth",), 0.15)
    with pytest.raises(VineError, match="growth rate"):
        Problem(Robot(), [], ("growth",), float("nan"))


def test_a_wrinkling_strain_outside_the_laws_domain_is_refused() -> None:
    with pytest.raises(VineError, match="domain"):
        Robot(law="wrinkling", strain_scale=50.0)


def test_walls_that_cross_are_refused_and_walls_that_meet_are_not(tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    path.write_text("trial,time_s,x_mm,y_mm\n" + "\n".join(f"0,{0.1 * f},{x},0" for f in range(4) for x in (0, 25, 50)))
    walls = tmp_path / "tracks.walls.csv"
    walls.write_text("x1_mm,y1_mm,x2_mm,y2_mm\n200,0,300,0\n250,-50,250,50\n")
    with pytest.raises(ConfigError, match=r"row 2 of the data.*crosses the wall of row 1"):
        load(path)
    walls.write_text("x1_mm,y1_mm,x2_mm,y2_mm\n200,0,300,0\n300,0,300,50\n250,0,250,50\n")
    assert len(load(path)[0].walls) == 3
