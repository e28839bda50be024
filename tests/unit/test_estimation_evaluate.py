"""The simulator of errors: its truths, its sensors, its scores, and the table that `evaluate manipulator` promises."""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from onboard.errors import UsageError
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.so3 import exp_so3
from onboard.resources import robot_file
from sim.estimation import bench, evaluate
from sim.estimation.campaign import METHODS, MOTIONS, TILTS_DEG, Job, jobs_for, run_all, run_job, tables
from sim.estimation.motions import make_motion
from sim.estimation.score import Score, score
from sim.estimation.sensing import FINE_HZ, OVERSAMPLING, TICK_HZ, Errors, sense, true_joints
from sim.estimation.shapes import ShapeError, Shapes, tip_tilt
from tests.unit.estimation_support import robot

NONE = Errors(
    white_deg=0.0, bias_deg=0.0, joint_m=0.0, lag_s=0.0, lag_moving_s=0.0, latency_s=0.0, jitter_s=0.0, lost=0.0,
    heading_start_deg=0.0, heading_rate_deg_per_s=0.0, heading_walk_deg_per_sqrt_s=0.0, gyro_noise_deg_per_s=0.0,
    gyro_bias_deg_per_s=0.0, gyro_scale=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def geometry() -> DiscGeometry:
    return DiscGeometry.of(robot().structure)


@pytest.mark.parametrize("twist", (45.0, 135.0, 146.7))
def test_true_shapes_keep_every_strut_length_and_their_rings_warp(twist: float) -> None:
    geometry = DiscGeometry.of(robot(twist).structure)
    motion = make_motion("slow", 70.0, 5, 12.0, 80.0, seed=3)
    lower, upper = true_joints(geometry, Errors(), np.random.default_rng(3))
    shapes = Shapes(geometry, motion.bends, lower, upper)
    b = upper[None] + shapes.warp[..., None, None] * geometry.saddle[:, None] * np.array([0.0, 0.0, 1.0])
    top = np.einsum("tmij,tmkj->tmki", shapes.rotation[:, 1:], b) + shapes.position[:, 1:, None]
    bottom = np.einsum("tmij,mkj->tmki", shapes.rotation[:, :-1], lower) + shapes.position[:, :-1, None]
    length = np.linalg.norm(top - bottom, axis=3)
    assert np.abs(length - geometry.strut_length_m).max() < 1e-9
    assert np.abs(shapes.warp).max() > 5e-4  # flat rings and equal struts could not have moved like this


def test_a_bend_beyond_what_struts_allow_is_an_error_not_a_shape(geometry: DiscGeometry) -> None:
    bends = np.zeros((1, 5, 3))
    bends[0, 2, 0] = 2.9
    bends[0, 2, 2] = 2.0
    with pytest.raises(ShapeError, match="step 0 of 1"):
        Shapes(geometry, bends, 3.0 * geometry.lower_m, geometry.upper_m)


@pytest.mark.parametrize("kind", MOTIONS)
@pytest.mark.parametrize("tilt", TILTS_DEG)
def test_motions_reach_the_tilt_they_are_named_after(kind: str, tilt: int) -> None:
    motion = make_motion(kind, tilt, 5, 24.0, 80.0, seed=7)
    tilts = np.degrees(tip_tilt(motion.bends))
    assert abs(np.percentile(tilts[motion.evaluated], 95.0) - tilt) < 0.5
    assert tilts[: int(1.0 * 80)].max() < 5.0  # starts upright
    again = make_motion(kind, tilt, 5, 24.0, 80.0, seed=7)
    assert np.array_equal(motion.bends, again.bends)
    assert not np.array_equal(motion.bends, make_motion(kind, tilt, 5, 24.0, 80.0, seed=8).bends)
    counted = motion.evaluated[1:] & motion.evaluated[:-1]
    speed = np.degrees(np.abs(np.diff(motion.bends, axis=0))[counted].max()) * 80.0
    assert {"static": speed < 1e-9, "slow": 1.0 < speed < 40.0, "abrupt": speed > 50.0}[kind]


def test_perfect_sensors_see_the_truth(geometry: DiscGeometry) -> None:
    motion = make_motion("slow", 45.0, 5, 12.0, FINE_HZ, seed=1)
    trial = sense(geometry, motion, NONE, seed=1)
    shapes = Shapes(geometry, motion.bends, geometry.lower_m, geometry.upper_m)
    ticks = np.arange(OVERSAMPLING, len(motion.t_s), OVERSAMPLING)
    first = shapes.direction[0]
    gap = np.arctan2(geometry.rest_direction[:, 1], geometry.rest_direction[:, 0]) - np.arctan2(first[:, 1], first[:, 0])
    for k in (100, 500, 900):
        seen = trial.observations[k]
        for i in range(20):  # headings are set against the nominal upright tower: nothing else is off
            true = exp_so3(np.array([0.0, 0.0, gap[i]])) @ shapes.direction[ticks[k], i]
            assert np.degrees(np.arccos(min(1.0, float(true @ seen.direction[i])))) < 0.02
        assert seen.t_s == pytest.approx(motion.t_s[ticks[k]])


def test_errors_have_the_sizes_they_are_given(geometry: DiscGeometry) -> None:
    motion = make_motion("static", 45.0, 5, 24.0, FINE_HZ, seed=2)
    clean, noisy = sense(geometry, motion, NONE, 2), sense(geometry, motion, replace(NONE, white_deg=0.7, bias_deg=0.3), 2)
    gap = np.array([b.direction - a.direction for a, b in zip(clean.observations, noisy.observations, strict=True)])
    steep = np.degrees(gap[..., 2] / np.hypot(*np.moveaxis(np.array([o.direction for o in clean.observations])[..., :2], -1, 0)))
    assert abs(steep.std(axis=0).mean() - 0.7) < 0.02
    assert 0.15 < steep.mean(axis=0).std() < 0.45
    ages = np.array([o.age_s for o in sense(geometry, motion, Errors(), 2).observations])[100:]
    assert ages.min() >= Errors().latency_s and ages.max() < 0.04 and ages.std() > 0.002
    offsets = true_joints(geometry, Errors(), np.random.default_rng(1))[0] - geometry.lower_m
    assert abs(np.sqrt((offsets**2).sum(axis=-1).mean()) - 0.002) < 3e-4


def test_scores_are_zero_on_the_truth_and_right_on_known_errors(geometry: DiscGeometry) -> None:
    trial = sense(geometry, make_motion("slow", 45.0, 5, 12.0, FINE_HZ, 1), NONE, 1)
    exact = score(trial, trial.position, trial.rotation).table(1.16)
    assert exact["tip_rmse_pct"] == 0.0 and exact["tilt_rmse_rad"] < 1e-9 and exact["yaw_rmse_rad"] < 1e-9
    assert exact["branch_switches"] == 0
    turned = trial.rotation.copy()
    turned[:, -1] = turned[:, -1] @ exp_so3(np.array([0.0, 0.0, 0.1]))
    tilted = trial.rotation.copy()
    tilted[:, -1] = tilted[:, -1] @ exp_so3(np.array([0.2, 0.0, 0.0]))
    moved = trial.position + np.array([0.0116, 0.0, 0.0])
    assert score(trial, trial.position, turned).table(1.16)["yaw_rmse_rad"] == pytest.approx(0.1)
    assert score(trial, trial.position, tilted).table(1.16)["tilt_rmse_rad"] == pytest.approx(0.2)
    assert score(trial, moved, trial.rotation).table(1.16)["tip_rmse_pct"] == pytest.approx(1.0)
    jumped = trial.rotation.copy()
    for start in (100, 300):  # twice off its branch for a while: two switches
        jumped[start : start + 50, 3:] = np.einsum(
            "tkij,jl->tkil", jumped[start : start + 50, 3:], exp_so3(np.array([0, 0, 0.5]))
        )
    assert score(trial, trial.position, jumped).branch_switches == 2


@pytest.mark.parametrize("motion", ("slow", "abrupt"))
def test_the_default_method_meets_its_targets_and_beats_the_papers_step(motion: str) -> None:
    """One held-out seed at the plant's twist; the whole table is `prestress evaluate manipulator`."""
    job = Job(str(robot_file("manipulator")), 146.7, motion, 45, 0, 16.0, Errors())
    result = {name: one.table(1.16) for name, one in run_job(job).items()}
    assert set(result) == set(METHODS)
    limit = {"slow": 1.0, "abrupt": 3.5}[motion]
    assert result["map_direction"]["tip_rmse_pct"] <= limit
    assert result["map_direction"]["branch_switches"] == 0
    assert result["map_direction"]["tip_rmse_pct"] < 0.5 * result["gradient"]["tip_rmse_pct"]


def full_table(value: float) -> dict:
    jobs = jobs_for("robot", [0, 1], 10.0, Errors())
    one = Score(tip=value**2, tilt=0.0, yaw=0.0, ticks=1)
    return tables(jobs, [dict.fromkeys(METHODS, copy.copy(one)) for _ in jobs], 100.0)


def test_the_table_has_the_keys_of_its_contract_and_pools_seeds() -> None:
    table = full_table(3.0)
    assert list(table) == ["45", "135", "146_7"]
    for methods in table.values():
        assert list(methods) == ["gradient", "gauss_newton", "map_inclination", "map_direction"]
        for motions in methods.values():
            assert list(motions) == ["static", "slow", "abrupt"]
            for tilts in motions.values():
                assert list(tilts) == ["25", "45", "70"]
                for cell in tilts.values():
                    assert set(cell) == {"tip_rmse_pct", "tilt_rmse_rad", "yaw_rmse_rad", "branch_switches"}
                    assert cell["tip_rmse_pct"] == pytest.approx(3.0)
    json.dumps(table)


def test_missed_targets_are_named() -> None:
    assert evaluate.targets_missed(full_table(0.1)) == []
    table = full_table(0.1)
    table["135"]["map_direction"]["abrupt"]["45"]["tip_rmse_pct"] = 3.6
    table["45"]["map_direction"]["static"]["70"]["branch_switches"] = 1
    table["146_7"]["map_inclination"]["slow"]["25"]["tip_rmse_pct"] = 1.7
    missed = evaluate.targets_missed(table)
    assert len(missed) == 3 and any("abrupt 45 tip % is 3.6" in line for line in missed)


def test_the_order_of_results_does_not_depend_on_the_number_of_processes() -> None:
    jobs = [Job(str(robot_file("manipulator")), 45.0, "slow", tilt, 5, 10.0, Errors()) for tilt in (25, 45)]
    ticked: list[int] = []
    alone = run_all(jobs, 1, lambda: ticked.append(1))
    assert len(ticked) == 2
    assert [one["map_direction"] for one in run_all(jobs, 2, lambda: None)] == [one["map_direction"] for one in alone]


@pytest.mark.parametrize("option", (["--seeds", "0"], ["--duration", "1"], ["--processes", "0"]))
def test_options_out_of_range_are_refused(option: list[str]) -> None:
    parser = argparse.ArgumentParser()
    run = evaluate.evaluate_manipulator(parser)
    with pytest.raises(UsageError, match=option[0]):
        run(parser.parse_args(option))


def test_the_benchmark_reports_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    run = bench.bench_estimator(parser)
    run(parser.parse_args(["--quick", "--json"]))
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"gradient_us", "map_us", "ratio"} <= set(result)
    assert 0.0 < result["gradient_us"] < result["map_us"] < result["map_call_us"]


@pytest.mark.long
def test_the_whole_quick_evaluation_meets_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    run = evaluate.evaluate_manipulator(parser)
    assert run(parser.parse_args(["--quick", "--json", "--seeds", "2"])) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["seeds"] == [0, 1] and result["missed"] == []


def test_ticks_run_at_the_estimators_rate() -> None:
    assert robot().rates.estimator_hz == TICK_HZ
