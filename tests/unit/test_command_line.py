"""The command line reads as a finished product: help everywhere, one line for every error, exit statuses that scripts can use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onboard.cli.catalog import SUBJECTS, VERBS, catalog
from onboard.cli.config_reference import reference
from onboard.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def prestress(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onboard.cli.main", *words], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60
    )


def test_a_shell_sees_status_and_line() -> None:
    done = prestress("config", "check", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("prestress: there is no robot named 'nobody'")


def test_help_lists_every_verb_that_is_installed() -> None:
    done = prestress("--help")
    assert done.returncode == 0
    for name in catalog():
        assert name.partition(".")[0] in done.stdout


@pytest.mark.parametrize("name", sorted(catalog()))
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split("."), "--help"])
    assert ended.value.code == 0
    assert f"usage: prestress {name.replace('.', ' ')}" in capsys.readouterr().out


def test_every_installed_verb_is_described() -> None:
    for name in catalog():
        verb, _, subject = name.partition(".")
        assert verb in VERBS
        assert not subject or name in SUBJECTS, f"{name} has no description"


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["frobnicate"], 2, "no command"),
        (["evaluate", "nothing"], 2, "does not know"),
        (["config", "check", "nobody"], 2, "no robot named"),
        (["config", "check"], 2, "needs a robot"),
        (["config", "check", "/nowhere/x.toml"], 2, "no robot's file"),
        (["status", "manipulator_that_does_not_run"], 4, "no daemon"),
        (["stop", "../etc"], 2, "name the robot"),
        (["posture", "go", "manipulator"], 2, "needs a name"),
        (["replay", "/nowhere.mcap"], 7, "no such recording"),
        (["run", "manipulator", "--hardware"], 2, "needs a serial port"),
        (["run", "manipulator", "--hardware", "--port", "valve9=/dev/x"], 2, "no board 'valve9'"),
        (["run", "manipulator", "--duration", "-1"], 2, "--duration"),
        (["run", "manipulator", "--duration", "nan"], 2, "--duration"),
        (["run", "manipulator", "--seed", "-1"], 2, "--seed"),
        (["evaluate", "posture", "--seed", "4294967296"], 2, "--seed"),
        (["bench", "loop", "--seconds", "nan"], 2, "--seconds"),
        (["run", "manipulator", "--broker", "nonsense"], 2, "broker URL"),
        (["run", "manipulator", "--record", "/tmp/x.mcap"], 2, "needs --hardware"),
        (["run", "manipulator", "--lan"], 2, "needs --hardware"),
        (["run", "manipulator", "--hardware", "--out", "x"], 2, "simulated run"),
        (["run", "manipulator", "--out", "/proc/nowhere"], 1, "cannot be made"),
        (["config", "check", "./" + "x" * 300], 2, "no robot's file"),
        (["config", "check", "y" * 300], 2, "no robot named"),
        (["config", "check", "a\nb"], 2, "a\\nb"),
    ],
)
def test_errors_are_one_line_with_a_status(words: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == status
    said = capsys.readouterr().err
    assert text in said
    assert said.startswith("prestress: ")
    assert len(said.strip().splitlines()) == 1


def test_json_is_one_object_on_the_last_line() -> None:
    done = prestress("config", "check", "manipulator", "--json")
    assert json.loads(done.stdout.strip().splitlines()[-1])["struts"] == 20


def test_the_configuration_page_is_what_the_loader_reads() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == reference(), "run: prestress config reference > docs/configuration.md"
    undescribed = [line for line in page.splitlines() if line.endswith("|  |")]
    assert undescribed == []


def test_an_error_is_short_however_long_the_value_that_it_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.toml"
    path.write_text(
        (ROOT / "robots" / "manipulator.toml").read_text().replace('name = "manipulator"', f'name = "{"m" * 100_000}"', 1)
    )
    assert main(["config", "check", str(path)]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert len(said) < 1500


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m onboard.cli.main config reference | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "onboard.cli.main", "config", "check", "manipulator"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "prestress: No space left on device\n"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", _no_home)
    assert main(["status", "manipulator"]) == 2
    assert "set HOME" in capsys.readouterr().err


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")
