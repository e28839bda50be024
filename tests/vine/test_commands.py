"""The vine's commands: what they write, what they print, and that peers are compared on the same programs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from offboard.vine.cli import fit_vine
from offboard.vine.evaluate import held_out
from offboard.vine.synthetic import synthetic_trial, truth
from offboard.vine.tracks import save
from onboard.errors import ConfigError, UsageError
from sim.vine.bench import LAYER_LINKS, equal_programs, padded
from sim.vine.cli import sim_vine
from sim.vine.evaluate import gradients, trusted


def command(declare, *words: str) -> int:
    parser = argparse.ArgumentParser()
    run = declare(parser)
    return run(parser.parse_args(words))


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_sim_writes_a_picture_and_a_film_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("imageio_ffmpeg")
    assert command(sim_vine, "--batch", "3", "--frames", "9", "--out", str(tmp_path), "--json") == 0
    result = last_json(capsys)
    assert result["unconverged"] == 0
    assert result["max_joint_error_mm"] <= 0.05
    assert (tmp_path / "clutter.png").read_bytes().startswith(b"\x89PNG")
    assert b"ftyp" in (tmp_path / "clutter.mp4").read_bytes()[:16]


def test_sim_refuses_nonsense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="batch"):
        command(sim_vine, "--batch", "0", "--out", str(tmp_path))
    with pytest.raises(ConfigError, match="no such scene"):
        command(sim_vine, "--scene", "nowhere", "--out", str(tmp_path))


def test_fit_prints_values_with_their_uncertainty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot, growth = truth("linear")
    path = tmp_path / "tracks.csv"
    save(path, [synthetic_trial(robot, growth, 0, 40, seed=4)])
    words = ["--mass-g", "4", "--inertia-kg-mm2", "0.4", "--free", "growth", "--stiffness-nm", "0.05", "--quick", "--json"]
    assert command(fit_vine, str(path), *words) == 0
    found = last_json(capsys)
    assert found["growth"]["value"] == pytest.approx(growth, rel=1e-2)
    assert found["growth"]["identified"] is True
    assert found["validation_error_mm"] is None  # one trial: nothing held out


def test_peers_get_the_program_the_simulator_solves() -> None:
    sim, state, programs = equal_programs(3, 1)
    assert all(p.links == LAYER_LINKS for p in programs)
    own = sim.rollout(state, sim.controls(1, state)).v[0]
    for b, program in enumerate(programs):
        np.testing.assert_allclose(program.solve()[:, :2], own[b, :, :2], atol=1.5e-5)
    _, _, _, _, g, e = padded(programs)
    assert g.shape[1] == e.shape[1] == max(max(len(p.e) for p in programs), 1)


def test_evaluation_reports_agreement_with_a_trusted_solver_and_with_differences() -> None:
    found = trusted(0, True)
    assert found["clarabel_programs"] >= 30
    assert found["clarabel_error"] < 1e-4
    found = gradients(0, True)
    assert found["gradient_checks"] >= 50
    assert found["gradient_error"] < 1e-6


@pytest.mark.long
def test_the_law_that_made_the_tracks_predicts_held_out_trials_best() -> None:
    found = held_out(0, True)
    for key in ("held_out_mm", "held_out_clean_mm"):
        assert found[key]["wrinkling"] < min(found[key]["linear"], found[key]["network"])
    assert found["held_out_clean_mm"]["wrinkling"] < 0.3  # well under the noise of 1 mm
