"""The data loop goes on where it was interrupted, keeps every model with its report, and refuses what makes no sense."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from offboard.three_bar import loop as loop_module
from offboard.three_bar.collect import CollectSettings
from offboard.three_bar.loop import Loop
from offboard.three_bar.loop_cli import QUICK, loop_three_bar
from offboard.three_bar.loop_curve import save_curve
from offboard.three_bar.loop_files import IterationReport, LoopError, LoopSettings, claim, keep_report, read_report, report_path
from offboard.three_bar.train_settings import load_settings
from offboard.three_bar.work import Cluster, Local
from onboard.errors import MissingExtraError, UsageError
from sim.three_bar.course import load_course, scene_of
from sim.three_bar.robot_file import load_robot

TINY = LoopSettings(quick=True, courses=("flat_obstacle",), **QUICK)  # type: ignore[arg-type]
TRAIN = load_settings("contact")


def tiny(folder: Path) -> Loop:
    return Loop(folder, folder / "models", TINY, TRAIN, Local(), lambda title: nullcontext(lambda done, total: None))


def report(number: int, e_pos: float) -> IterationReport:
    errors: dict[str, Any] = {"parameters": 7, "random": {"e_pos": e_pos, "e_rot_deg": 3.0, "com_error_pct": 30.0}}
    return IterationReport(
        1, number, f"contact_{number}", "0" * 64, "d", 12, 0, 0.6, 0.6 * (number + 1), 20, 0.1, 0.2, 1e-6, errors, True
    )


class Interrupted(BaseException):
    """Stands for Ctrl-C."""


def few_windows(models: dict[str, Any], quick: bool, update: Any, sets: tuple[str, ...]) -> dict[str, Any]:
    """A table from one window a model: the loop's own work is what is tested here."""
    start = np.concatenate([np.array(load_robot().start_caps).ravel(), np.zeros(18), np.full(6, 1.5), np.zeros(6)])
    world = scene_of(load_course("narrow")).world()
    ends = {name: model.rollout(start, np.full((1, model.steps, 6), 0.3), world)[0, -1] for name, model in models.items()}
    return {"models": {name: {"random": {"e_pos": float(end[:18].sum())}} for name, end in ends.items()}}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_loop_that_is_interrupted_everywhere_ends_with_the_models_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "evaluate", few_windows)
    whole = tiny(tmp_path / "whole").run(2, lambda reports: None)
    assert [one.model for one in whole] == ["contact_0", "contact_1"]
    assert whole[0].data_hash != whole[1].data_hash and whole[1].all_robot_minutes > whole[0].all_robot_minutes

    folder = tmp_path / "cut"
    for name in ("evaluate", "write_model", "collect", "keep_report"):  # Ctrl-C as each of these is to begin, in both iterations
        true = getattr(loop_module, name)
        for number in (0, 1):
            calls = iter(range(100))

            def cut(*args: Any, _true: Any = true, _calls: Any = calls, _at: int = number, **more: Any) -> Any:
                if next(_calls) == _at:
                    raise Interrupted
                return _true(*args, **more)

            monkeypatch.setattr(loop_module, name, cut)
            with suppress(Interrupted):
                tiny(folder).run(2, lambda reports: None)
            monkeypatch.setattr(loop_module, name, true)
    again = tiny(folder).run(2, lambda reports: None)
    assert [one.onnx_sha256 for one in again] == [one.onnx_sha256 for one in whole]
    assert [one.errors for one in again] == [one.errors for one in whole]

    model = folder / "models" / "contact_0.onnx"
    model.write_bytes(model.read_bytes()[:1000])
    kept = report_path(folder, 1)
    kept.write_text(kept.read_text()[:200])
    assert [one.onnx_sha256 for one in tiny(folder).run(2, lambda reports: None)] == [one.onnx_sha256 for one in whole]
    assert model.stat().st_size > 1000, "a damaged model is made again from its run"


def test_a_folder_holds_one_loop(tmp_path: Path) -> None:
    claim(tmp_path, TINY, TRAIN)
    claim(tmp_path, TINY, TRAIN)
    with pytest.raises(LoopError, match="seed = 0, not 1"):
        claim(tmp_path, msgspec.structs.replace(TINY, seed=1), TRAIN)
    (tmp_path / "loop.json").write_text('{"loop": 3}')
    with pytest.raises(LoopError, match="damaged"):
        claim(tmp_path, TINY, TRAIN)
    (tmp_path / "file").write_text("")
    with pytest.raises(LoopError, match="cannot be written"):
        claim(tmp_path / "file", TINY, TRAIN)


def test_a_report_is_whole_or_counts_as_missing(tmp_path: Path) -> None:
    keep_report(tmp_path, report(2, 0.01))
    assert read_report(tmp_path, 2) == report(2, 0.01)
    assert read_report(tmp_path, 1) is None
    text = report_path(tmp_path, 2).read_text()
    for damage in (text[:80], text.replace('"format": 1', '"format": 9'), ""):
        report_path(tmp_path, 2).write_text(damage)
        assert read_report(tmp_path, 2) is None
    report_path(tmp_path, 3).write_text(text)
    assert read_report(tmp_path, 3) is None, "a report of iteration 2 is none of iteration 3"


def test_the_curve_has_one_point_an_iteration(tmp_path: Path) -> None:
    result = save_curve(tmp_path, [report(0, 0.02), report(1, 0.01)])
    assert json.loads((tmp_path / "curve.json").read_text()) == result
    assert result["sets"]["random"]["e_pos"] == [0.02, 0.01] and result["robot_minutes"] == [0.6, 1.2]
    assert (tmp_path / "curve.png").stat().st_size > 5_000


WRONG = (
    "--iterations 0", "--iterations 101", "--seed -1", "--episodes 3", "--driven 0", "--seconds nan", "--seconds 1",
    "--updates 0", "--courses three_d", "--courses ,", "--workers 0",
)  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_written(words: str, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    run = loop_three_bar(parser)
    with pytest.raises(UsageError):
        run(parser.parse_args([*words.split(), "--out", str(tmp_path / "loop")]))
    assert not (tmp_path / "loop").exists()


def test_a_cluster_needs_an_address() -> None:
    with pytest.raises(UsageError, match="address"):
        Cluster(" ")


def test_a_cluster_without_ray_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="cluster"):
        Cluster("10.0.0.1:6379")


def test_the_controller_drives_on_courses_and_with_a_model_only() -> None:
    for wrong in ({"terrains": ("course:narrow",)}, {"terrains": ("flat",), "model": "m.json"}):
        with pytest.raises(UsageError, match="drive value"):
            CollectSettings(drives=("value",), **wrong).check()  # type: ignore[arg-type]
    CollectSettings(drives=("value",), terrains=("course:narrow",), model="m.json").check()


def square(job: int) -> int:
    return job * job


def test_jobs_come_back_from_processes_as_from_here() -> None:
    assert sorted(Local(2).run(square, [1, 2, 3])) == sorted(Local(1).run(square, [1, 2, 3])) == [1, 4, 9]
