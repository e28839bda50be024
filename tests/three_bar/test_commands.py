"""The commands run end to end and end with one JSON object."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from onboard.errors import ConfigError, UsageError
from onboard.planning.primitives import read_library
from sim.three_bar.cli import sim_three_bar
from sim.three_bar.robot_file import physics_hash

pytest.importorskip("torch")

from offboard.cli.dynamics import bench_dynamics, evaluate_dynamics, model_export, table
from offboard.three_bar.cli import collect_three_bar, primitives_three_bar, train_three_bar


def call(verb, *words: str, capsys: pytest.CaptureFixture | None = None) -> dict:
    """Run a verb as the command line does; the JSON of its last line."""
    parser = argparse.ArgumentParser()
    run = verb(parser)
    assert run(parser.parse_args([*words, "--json"])) == 0
    assert capsys is not None
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_sim_draws_a_roll_as_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "roll.png"
    result = call(sim_three_bar, "--gait", "roll", "--cycles", "2", "--yaw-deg", "20", "--out", str(out), capsys=capsys)
    assert result["travelled_u"] > 3.0
    assert len(result["cycles"]) == 2
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_sim_films_a_turn_on_a_course(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    film = tmp_path / "turn.mp4"
    call(sim_three_bar, "--gait", "ccw", "--cycles", "1", "--course", "incline", "--out", str(film), capsys=capsys)
    assert film.read_bytes()[4:8] == b"ftyp"


def test_sim_refuses_what_does_not_exist(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    run = sim_three_bar(parser)
    with pytest.raises(ConfigError, match="known: roll, cw, ccw, crawl"):
        run(parser.parse_args(["--gait", "moonwalk"]))
    with pytest.raises(UsageError, match=r"\.png or \.mp4"):
        run(parser.parse_args(["--cycles", "1", "--out", str(tmp_path / "roll.gif")]))
    with pytest.raises(UsageError, match="cycles"):
        run(parser.parse_args(["--cycles", "0"]))


def test_from_data_to_a_tabled_model(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """collect, train, export, evaluate, bench: the chain that a user runs, at its smallest."""
    monkeypatch.chdir(tmp_path)
    data, run, models = tmp_path / "data", tmp_path / "runs/three_bar/contact", tmp_path / "models"
    words = ("--episodes", "10", "--seconds", "3", "--drives", "bang", "--terrains", "flat,walls", "--out", str(data))
    assert call(collect_three_bar, *words, capsys=capsys)["made"] == 10
    paused = call(train_three_bar, "--quick", "--stop-after", "10", "--data", str(data), "--out", str(run), capsys=capsys)
    assert paused["updates"] == 10 and (run / "report.json").is_file()
    trained = call(train_three_bar, "--quick", "--data", str(data), "--out", str(run), capsys=capsys)
    assert trained["updates"] == 20
    again = call(train_three_bar, "--quick", "--data", str(data), "--out", str(run), capsys=capsys)
    assert again["best_com_error_u"] == trained["best_com_error_u"], "a finished run is not trained again"
    exported = call(model_export, "three_bar", "--out", str(models), "--tile", "8", capsys=capsys)
    assert exported["parity"] <= 1e-5
    assert exported["bytes"] < 1_000_000
    result = call(
        evaluate_dynamics, "--quick", "--sets", "contact", "--folder", str(models), "--out", str(tmp_path), capsys=capsys
    )
    row = result["models"]["contact"]["contact"]
    assert {"e_pos", "e_rot_deg", "com_error_pct", "rank_correlation", "regret_pct"} <= row.keys()
    assert result["models"]["contact"]["parameters"] == exported["parameters"]
    assert "contact" in table(result)
    assert (tmp_path / "dynamics.png").stat().st_size > 5_000
    timed = call(bench_dynamics, "--quick", "--samples", "16", "--folder", str(models), capsys=capsys)
    assert timed["samples"] == 16 and timed["horizon_s"] == 2.0 and timed["parity"] <= 1e-5
    assert timed["plan_ms"] > 0 and timed["ratio_mujoco"] > 0 and timed["plant_steps_per_s_per_core"] > 0


def test_without_a_model_there_is_nothing_to_evaluate(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    run = evaluate_dynamics(parser)
    with pytest.raises(UsageError, match="train and export one first"):
        run(parser.parse_args(["--folder", str(tmp_path)]))


def test_primitives_are_written_beside_the_models(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch) -> None:
    import offboard.three_bar.library as library

    monkeypatch.setattr(library, "variants", lambda spec: [("cw", 1.2, 1.2)])
    out = tmp_path / "primitives.json"
    result = call(primitives_three_bar, "--quick", "--out", str(out), capsys=capsys)
    assert result["entries"][0]["turn_rad"] < -0.2
    assert read_library(out, "three_bar", physics_hash()).sha256 == result["sha256"]
