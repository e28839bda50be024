"""The worm's commands: what they print, write and refuse."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import ModelError, UsageError
from onboard.planning.contact.plan import Plan, load_plan
from onboard.planning.contact.worm import load_worm
from sim.worm.bench import bench_worm
from sim.worm.cli import plan_worm
from sim.worm.common import find_scene
from sim.worm.evaluate import Outcome, evaluate_worm, table, wilson
from sim.worm.pictures import draw_plan
from sim.worm.tasks import draw_task


def run(add, *words: str) -> int:
    parser = argparse.ArgumentParser()
    return add(parser)(parser.parse_args(words))


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    words = [
        "--straight",
        "--seed",
        "3",
        "--goal",
        "0.95,0.3,0",
        "--budget",
        "120",
        "--no-pictures",
        "--json",
        "--out",
        str(folder),
    ]
    assert run(plan_worm, *words) == 0
    return folder


def test_plan_prints_one_json_object_and_writes_the_plan(planned: Path, capsys: pytest.CaptureFixture) -> None:
    words = [
        "--straight",
        "--seed",
        "3",
        "--goal",
        "0.95,0.3,0",
        "--budget",
        "120",
        "--no-pictures",
        "--json",
        "--out",
        str(planned),
    ]
    assert run(plan_worm, *words) == 0
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert last["complete"] and last["violations"] == 0 and last["steps"] == len(load_plan(planned / "plan.json").steps)
    assert {"planning_s", "ik_calls", "expansions", "rejected"} <= last.keys()


def test_a_plan_is_drawn_as_pictures_and_a_film(planned: Path, tmp_path: Path, root: Path) -> None:
    plan = load_plan(planned / "plan.json")
    short = Plan(**(plan.__dict__ | {"steps": plan.steps[:1]}))
    spec, scene = load_worm(root / "robots/worm.toml"), find_scene("floor_wall_ceiling")
    written = draw_plan(spec, scene, short, None, tmp_path)
    assert [path.name for path in written] == ["step_000.png", "step_001.png", "plan.mp4"]
    assert all(path.stat().st_size > 2000 for path in written)


@pytest.mark.parametrize("goal", ["1,2", "a,b,c", "1,2,nan"])
def test_a_goal_that_is_not_three_numbers_is_refused(goal: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="three numbers"):
        run(plan_worm, "--goal", goal, "--no-pictures", "--out", str(tmp_path))


def test_an_unknown_scene_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="known are clutter, floor_wall_ceiling, planar, ridge, slope"):
        find_scene("moon")


@pytest.mark.parametrize("name", ["floor_wall_ceiling", "clutter", "ridge"])
def test_tasks_come_from_their_seed(root: Path, name: str) -> None:
    spec, scene = load_worm(root / "robots/worm.toml"), find_scene(name)
    first, again, other = (draw_task(scene, spec, seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.start.frames, again.start.frames)
    assert not np.allclose(first.goal, other.goal)
    assert abs(scene.distance(first.goal)) < 1e-4 and first.start.attached.all()


def test_evaluation_tables_count_failures_with_the_cap() -> None:
    good = Outcome(True, 1.0, 0.1, 40, 30.0, 100, 10, 90.0, 0, "")
    bad = Outcome(False, 30.0, 0.1, 20, 9.0, 900, 99, 50.0, 0, "the time budget of 30 s is used up")
    row = table({("pahs", "s1"): [good, bad, good]}, 30.0, False)["methods"]["pahs"]["s1"]
    assert (row["success"], row["trials"], row["capped"]) == (2, 3, True)
    assert row["planning_s"] == 1.0 and row["steps"] == 40 and row["hit_pct"] == pytest.approx(230 / 3)
    assert table({("ikhs", "s1"): [bad, bad, good]}, 30.0, False)["methods"]["ikhs"]["s1"]["planning_s"] == 30.0


def test_the_interval_of_20_out_of_20_is_wilsons() -> None:
    assert wilson(20, 20) == (pytest.approx(83.9, abs=0.1), pytest.approx(100.0))
    assert wilson(0, 20) == (pytest.approx(0.0), pytest.approx(16.1, abs=0.1))


def test_evaluation_without_a_library_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a primitive library"):
        run(evaluate_worm, "--quick", "--library", str(tmp_path / "none.npz"), "--out", str(tmp_path / "log.jsonl"))
    with pytest.raises(UsageError, match="no method 'magic'"):
        run(evaluate_worm, "--methods", "magic")


def test_the_bench_reaches_nearly_every_target(capsys: pytest.CaptureFixture) -> None:
    assert run(bench_worm, "--quick", "--json") == 0
    rows = json.loads(capsys.readouterr().out.strip().splitlines()[-1])["ik"]
    assert set(rows) == {"1", "2", "3", "4"}
    assert all(row["success_ours_pct"] >= 90 and row["ours_ms"] > 0 for row in rows.values())
