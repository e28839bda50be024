"""`evaluate worm` keeps its rows: the tables have every method, scene and key, and nothing is planned twice."""

import argparse
import json
from pathlib import Path

import pytest

import sim.worm.evaluate as module
from sim.worm.encoders import ENCODERS
from sim.worm.evaluate import METHODS, SCENES, Outcome, evaluate_worm


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Tasks that a planner was asked for; this planner answers at once, and only IKHS fails."""
    asked: list[tuple[str, str, int]] = []

    def run_task(spec, scene_name, method, seed, cap_s, library, clock) -> Outcome:
        assert library is not None or method in module.WITHOUT_LIBRARY
        asked.append((method, scene_name, seed))
        hit = float("nan") if method in module.WITHOUT_LIBRARY else 80.0
        return Outcome(method != "ikhs", 0.5, 0.1, 40, 20.0, 100, 10, hit, 0, "")

    monkeypatch.setattr(module, "run_task", run_task)
    return asked


def evaluate(capsys: pytest.CaptureFixture, *words: str) -> dict:
    parser = argparse.ArgumentParser()
    assert evaluate_worm(parser)(parser.parse_args([*words, "--json"])) == 0
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_the_tables_are_whole_and_a_second_run_plans_nothing(planned, capsys, tmp_path: Path) -> None:
    words = ("--tasks", "2", "--out", str(tmp_path / "rows.jsonl"))
    result = evaluate(capsys, *words)
    assert set(result["methods"]) == set(METHODS) == {"pahs", "ikhs", "pahs_nf", "rpr", "pwto", "dbs"}
    keys = {"success", "trials", "planning_s", "steps", "deformation", "hit_pct", "capped"}
    for scenes in result["methods"].values():
        assert set(scenes) == set(SCENES) and all(keys <= row.keys() for row in scenes.values())
    assert set(result["encoders"]) == set(ENCODERS)
    for kinds in result["encoders"].values():
        assert set(kinds) == {"seen", "unseen"} and all(row["trials"] == 6 for row in kinds.values())
    assert result["violations"] == 0 and result["guide_s"] == pytest.approx(0.1)
    row = result["methods"]["ikhs"]["s2"]
    assert row["success"] == 0 and row["planning_s"] == 30.0 and row["steps"] is None and row["hit_pct"] is None
    # 6 methods and 4 keys on seen and unseen tasks, less the hand-made key's unseen ones, which are the rows of PaHS
    assert len(planned) == 2 * 3 * (6 + 2 * 4 - 1)
    again = evaluate(capsys, *words)
    assert len(planned) == 2 * 3 * (6 + 2 * 4 - 1) and again == result


def test_a_row_cut_short_by_an_outage_is_planned_again(planned, capsys, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    words = ("--methods", "ikhs", "--encoders", "", "--scenes", "s1", "--tasks", "3", "--out", str(out))
    evaluate(capsys, *words)
    text = out.read_text()
    out.write_text(text[: len(text) - 20])
    evaluate(capsys, *words)
    evaluate(capsys, *words)
    assert [seed for _, _, seed in planned] == [9000, 9001, 9002, 9002]
