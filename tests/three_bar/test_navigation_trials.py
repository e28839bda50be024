"""Trials repeat bit for bit, live with noise, delay and silence, and every one of them is a row that is never run twice."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.errors import EstimationError, PlanningError, RecordingError, RobotFault, UsageError
from onboard.planning.assembly import build
from onboard.planning.strut_state import StrutTracker
from sim.three_bar.course import load_course, scene_of
from sim.three_bar.navigation import evaluate
from sim.three_bar.navigation.conditions import IDEAL, Conditions, Sensing
from sim.three_bar.navigation.controllers import choose, navigator_data
from sim.three_bar.navigation.oracle import LAYOUT, PlantModel
from sim.three_bar.navigation.results import Row, append_row, matching, read_rows, summary
from sim.three_bar.navigation.trial import Outcome, Trial, place, run_trial
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar
from tests.three_bar.planning_support import SETTINGS

FEW = msgspec.structs.replace(SETTINGS, mppi=msgspec.structs.replace(SETTINGS.mppi, samples=4))


@pytest.fixture(scope="module")
def course_plant(spec: ThreeBar) -> Plant:
    return Plant(spec, scene_of(load_course("low_clearance")))


def drive(plant: Plant, seed: int, seconds: float, conditions: Conditions) -> tuple[Outcome, Trial]:
    """A few seconds of `value` with the plant as its model and four samples."""
    course = load_course("low_clearance")
    rng = np.random.default_rng([seed, 0])
    place(plant, course, rng)
    model = PlantModel(plant)
    data = navigator_data(choose("oracle", None, None), plant.spec, course, plant.world, FEW, seed)
    navigator = build(data, model)
    goal = np.array([course.goal.x_u, course.goal.y_u])
    navigator.set_goal(goal)
    trial = Trial(plant, navigator, FEW, conditions, rng, model)
    return run_trial(trial, goal, 0.5, seconds), trial


def test_the_same_seed_is_the_same_trial_and_another_seed_another(course_plant: Plant) -> None:
    first, trial = drive(course_plant, 7, 2.0, Conditions())
    again, _ = drive(course_plant, 7, 2.0, Conditions())
    assert np.array_equal(first.path, again.path) and first.counts == again.counts
    other, _ = drive(course_plant, 8, 0.3, Conditions())
    assert not np.array_equal(first.path[0], other.path[0])
    assert first.end == "time" and first.time_s == 2.0 and not first.success
    assert trial.driver.counts["plans"] == 4 and first.decisions == 4


def test_a_plan_takes_effect_a_lead_after_it_was_asked_for(course_plant: Plant) -> None:
    _, usual = drive(course_plant, 7, 0.6, Conditions())
    _, ideal = drive(course_plant, 7, 0.6, IDEAL)
    begin = SETTINGS.state.velocity_window_s
    moving = [next(k for k, u in enumerate(t.driver._given) if np.any(u)) * 0.01 for t in (usual, ideal)]
    assert moving[1] == pytest.approx(begin, abs=0.011)
    assert moving[0] == pytest.approx(moving[1] + 0.1 + 0.03, abs=0.031), "the lead, and poses that come 30 ms late"


def test_a_simulation_that_breaks_down_ends_the_trial_as_failed(course_plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(command: np.ndarray) -> None:
        raise RobotFault("reset by MuJoCo")

    _, trial = drive(course_plant, 7, 0.1, IDEAL)
    monkeypatch.setattr(course_plant, "step", broken)
    outcome = run_trial(trial, np.array([10.0, 0.0]), 0.5, 120.0)
    assert outcome.end == "diverged" and not outcome.success and outcome.time_s == 120.0, "it counts as the limit"


def test_poses_come_late_noisy_and_sometimes_not_at_all(standing: Plant, spec: ThreeBar) -> None:
    def feed(conditions: Conditions, ticks: int) -> StrutTracker:
        tracker = StrutTracker(SETTINGS.state, LAYOUT, spec.bodies.cap_distance_u)
        sensing = Sensing(standing, tracker, conditions, np.random.default_rng(0))
        for k in range(ticks):
            sensing.tick(k * 0.01)
        return tracker

    late = feed(Conditions(noise_u=0.0, loss=0.0, gap_every_s=0.0), 50)
    assert late.state(0.49)[0] == pytest.approx(0.46)
    assert late.state(0.49)[1][:18] == pytest.approx(standing.caps().ravel(), abs=1e-9)
    noisy = feed(Conditions(), 50)
    error = noisy.caps() - standing.caps()
    assert 0.01 < float(np.std(error)) < 0.03
    speed = np.abs(noisy.state(0.49)[1][18:36])
    assert 0.0 < speed.mean() < 0.25, "2 mm of noise over 0.15 s, not over 0.04 s"
    with pytest.raises(EstimationError):
        feed(Conditions(loss=1.0), 50).state(0.49)


def test_the_plants_own_model_starts_where_the_plant_was(standing: Plant) -> None:
    model = PlantModel(standing)
    with pytest.raises(PlanningError, match="not chosen"):
        model.rollout(np.zeros(48), np.zeros((1, 20, 6)), np.zeros((0, 16)))
    model.remember(0.0, 0.2)
    commands = np.random.default_rng(0).uniform(-1, 1, (40, 6))
    for k, row in enumerate(commands):
        standing.step(row)
        model.remember((k + 1) * 0.01, 1.0)
    model.go_to(0.0)
    states = model.rollout(np.zeros(48), commands[None], np.zeros((0, 16)))
    assert LAYOUT.positions(states)[0, -1] == pytest.approx(standing.caps(), abs=1e-6)
    assert LAYOUT.rest_lengths(states)[0, -1] == pytest.approx(standing.rest_u)
    with pytest.raises(PlanningError, match="not kept"):
        model.go_to(5.0)


def row(seed: int, success: bool = True, **changes: object) -> Row:
    body = dict(
        format=1, course="narrow", controller="value", model="contact", model_hash="ab", iteration=-1, conditions="usual",
        settings="cd", seed=seed, limit_s=400.0, success=success, time_s=100.0 if success else 400.0, end="goal",
        final_distance_u=0.4, decisions=10, plan_ms_p50=50.0, counts={"plans": 10},
    )  # fmt: skip
    return Row(**{**body, **changes})  # type: ignore[arg-type]


def test_rows_survive_an_interruption_and_only_like_ones_count(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    assert read_rows(path) == []
    append_row(path, row(0))
    append_row(path, row(1, success=False))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"format": 1, "course": "nar')
    assert [r.seed for r in read_rows(path)] == [0, 1]
    append_row(path, row(2))
    assert [r.seed for r in read_rows(path)] == [0, 1, 2]
    assert set(matching(read_rows(path), row(9))) == {0, 1, 2}
    for change in ({"settings": "x"}, {"model_hash": "x"}, {"conditions": "ideal"}, {"iteration": 1}, {"limit_s": 10.0}):
        assert matching(read_rows(path), row(9, **change)) == {}
    told = summary(read_rows(path))
    assert told["success_pct"] == pytest.approx(66.7) and told["mean_time_s"] == 200.0, "a failure counts as the limit"
    assert told["trials"] == 3 and told["times_s"] == [100.0, 400.0, 100.0] and told["plan_ms_p50"] == 50.0
    path.write_bytes(whole[:20] + b"\n" + whole)
    with pytest.raises(RecordingError, match="line 1"):
        read_rows(path)


def test_each_controller_has_its_model() -> None:
    assert choose("value", None, None).model == "contact" and choose("plain", None, None).model == "plain"
    assert choose("oracle", None, None).model == "plant" and choose("astar_grid", None, None).model == ""
    assert choose("hybrid", None, 2).model == "contact_2" and choose("mppi", "plant", None).model == "plant"
    for wrong in (("hop", None, None), ("astar_grid", "contact", None), ("value", "contact", 1), ("value", None, -1)):
        with pytest.raises(UsageError):
            choose(*wrong)


def test_ablations_and_other_sample_counts_are_other_settings() -> None:
    assert evaluate.varied(SETTINGS, None, []).digest == SETTINGS.digest
    variants = [evaluate.varied(SETTINGS, n, w) for n, w in ((64, []), (None, ["slack"]), (None, ["escape"]))]
    assert len({SETTINGS.digest, *(v.digest for v in variants)}) == 4
    assert variants[0].mppi.samples == 64 and variants[1].mppi.slack_weight == 0.0
    assert variants[2].escape.patience_s > load_course("flat_obstacle").course.limit_s
    with pytest.raises(UsageError):
        evaluate.varied(SETTINGS, 1, [])


def test_the_command_resumes_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "QUICK_LIMIT_S", 0.5)
    parser = argparse.ArgumentParser()
    run = evaluate.evaluate_navigation(parser)
    words = ["--course", "low_clearance", "--controller", "astar_grid", "--quick", "--json", "--results", str(tmp_path)]
    results = []
    for _ in range(2):
        assert run(parser.parse_args(words)) == 0
        results.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert results[0] == results[1], "the second time nothing is run: even the planning time is the same"
    assert {"success_pct", "trials", "mean_time_s", "times_s", "plan_ms_p50"} <= set(results[0])
    assert results[0]["success_pct"] == 0.0 and results[0]["times_s"] == [0.5] and results[0]["simulation"] is True
    assert Path(results[0]["picture"]).stat().st_size > 10_000
    with pytest.raises(UsageError, match="trials"):
        run(parser.parse_args([*words, "--trials", "0"]))


@pytest.mark.long
def test_more_trials_of_the_same_cell_add_to_its_rows_and_an_ablation_has_rows_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "load_settings", lambda robot: FEW)
    course = load_course("low_clearance")
    short = msgspec.structs.replace(course, course=msgspec.structs.replace(course.course, limit_s=0.6))
    monkeypatch.setattr(evaluate, "load_course", lambda name: short)
    parser = argparse.ArgumentParser()
    run = evaluate.evaluate_navigation(parser)
    words = ["--course", "low_clearance", "--controller", "oracle", "--json", "--results", str(tmp_path), "--trials"]

    def rows(*more: str) -> list[Row]:
        assert run(parser.parse_args([*words, *more])) == 0
        return read_rows(Path(json.loads(capsys.readouterr().out.splitlines()[-1])["results"]))

    first = rows("1")
    both = rows("2")
    assert both[0] == first[0] and [row.seed for row in both] == [0, 1]
    bare = rows("1", "--without", "value")
    assert bare[:2] == both and bare[2].settings == first[0].settings + "+wavefront" and bare[2].seed == 0
    freed = rows("1", "--recover")
    assert freed[:3] == bare and freed[3].settings == first[0].settings + "+recovery" and freed[3].counts["stuck"] == 0
    assert rows("2") == freed, "nothing is run twice"
    with pytest.raises(UsageError, match="does not use it"):
        run(parser.parse_args([*words, "1", "--controller", "mppi", "--without", "value", "--model", "plant"]))
