"""Every `prestress` command that README and docs print is one that this version understands; those that can, run as printed.

The default run parses each of them. The long run carries them out, one after another, in a folder of their own; what is not
carried out stands in NOT_RUN with its reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.cli.catalog import catalog, load
from onboard.resources import robot_file
from sim.one_module import one_module

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PRINTED = re.compile(r"^\s*(?:.*[;&(] *|sudo .*)?(?:\S*/)?prestress ([a-z].*)$")  # a line of a block
SPAN = re.compile(r"`prestress ([a-z][^`\n]*)`")
STANDS_FOR = {"ROBOT": "manipulator", "FILE": "first.mcap", "NAME": "left", "SOCKET": "poses.sock", "N": "3"}

DAEMON = "asks a running daemon: tests/hil and tests/robustness send the same requests"
BOARDS = "needs boards on USB or on a broker: tests/flash runs it on simulated ones"
REAL_TIME = "drives a simulated robot in real time for a minute and more: tests/hil, tests/vine and tests/three_bar do"
HOURS = "takes many minutes as printed: the family's own tests run it at its smallest"
NOT_RUN = {
    r"(status|arm|disarm|stop|reset|go|posture|record|view)\b": DAEMON,
    r"calibrate\b": DAEMON + "; from a recording in tests/unit/test_calibrate_command.py",
    r"(flash|struts|update my_robot.toml)\b": BOARDS,
    r"run .*--hardware\b": BOARDS,
    r"(run|sim) manipulator --board\b": BOARDS,
    r"run (three_bar|vine|worm|manipulator)\b": REAL_TIME,
    r"bench (soak|link|view|loop|board|update|flash)\b": "measures in real time: tests/hil and tests/flash run the short forms",
    r"certs .*--check\b": "looks at files that the command printed before it has made: tests/flash/test_certs.py",
    r"replay first.mcap\b": "replays what the command printed before it has recorded: tests/hil/test_module_rig.py",
    r"sim strut\b": "plays a recording in real time: tests/hil/test_link_playback.py does, the one of bringup.md too",
    r"doctor /etc/": "a file that the line before it in deployment.md has installed",
    r"config check$": "is spoken of, without a robot",
    r"sim vine --scene my_scene.toml\b": "a reader's own scene",
    r"fit (vine|worm)\b": "a reader's own measurements: tests/vine/test_fit.py and tests/worm/test_fit.py",
    r"sim three_bar .*--window\b": "opens a window",
    r"(collect|train|loop|model export) three_bar\b": HOURS + " (tests/three_bar)",
    r"evaluate (posture|manipulator|calibration|worm|worm-execution|navigation|vine)\b": HOURS,
    r"bench (worm|vine|dynamics|estimator)\b": HOURS,
    r"evaluate dynamics\b": HOURS,
    r"(plan|primitives) worm\b": HOURS + " (tests/worm/test_commands.py)",
    r"sim vine --scene clutter --batch 64\b": HOURS + " (tests/vine/test_commands.py)",
}


def printed(page: Path) -> Iterator[tuple[int, str]]:
    """(line, words after `prestress`) of every command in blocks and between backticks; sentences that go on are no commands."""
    text = page.read_text().replace("\\\n", "  ")
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            if match := PRINTED.match(line.partition("  #")[0].rstrip()):
                yield number, match.group(1).rstrip(")")
        else:
            for words in SPAN.findall(line):
                yield number, words


def words_of(text: str) -> list[str]:
    text = re.sub(r"\[[^\]]*\]", "", text)  # what may be left out is left out
    return [STANDS_FOR.get(word, word) for word in shlex.split(text)]


COMMANDS = sorted({(str(page.relative_to(ROOT)), text) for page in PAGES for _, text in printed(page)})


def test_the_pages_print_commands() -> None:
    assert len(COMMANDS) > 100
    assert ("docs/bringup.md", "doctor") in COMMANDS
    assert any(text.startswith("update my_robot.toml --key update.key") for _, text in COMMANDS)


@pytest.mark.parametrize(("page", "text"), COMMANDS, ids=[f"{page}: {text}" for page, text in COMMANDS])
def test_a_printed_command_is_one_that_this_version_understands(page: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_of(text)
    name, rest = words[0], words[1:]
    if rest and f"{name}.{rest[0]}" in catalog():
        name, rest = f"{name}.{rest[0]}", rest[1:]
    if not rest and any(other.startswith(name + ".") for other in catalog()):
        return  # the verb is spoken of, its subjects are printed elsewhere
    parser = argparse.ArgumentParser()
    assert name in catalog(), f"there is no prestress {name}"
    load(name)(parser)
    if not rest:
        return  # the command is spoken of
    try:
        parser.parse_args(rest)
    except SystemExit as ended:
        assert ended.code == 0, f"{page}: prestress {text}: {capsys.readouterr().err}"


@pytest.fixture(scope="module")
def jail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages take for granted: the recorded trials, and a robot's file of the reader's own."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "tests" / "data", folder / "tests" / "data")
    (folder / "my_robot.toml").write_text(one_module(robot_file("manipulator").read_text(), "my_robot"))
    return folder


def left_to_run() -> list[str]:
    texts = dict.fromkeys(text for _, text in COMMANDS if len(shlex.split(text)) > 1 or text == "doctor")
    return [text for text in texts if not any(re.match(pattern, " ".join(words_of(text))) for pattern in NOT_RUN)]


def test_every_exception_is_needed_and_few_commands_are_not() -> None:
    whole = [" ".join(words_of(text)) for _, text in COMMANDS]
    for pattern in NOT_RUN:
        assert any(re.match(pattern, text) for text in whole), f"no page prints what {pattern} leaves out"
    assert len(left_to_run()) >= 8


@pytest.mark.long
@pytest.mark.parametrize("text", left_to_run())
def test_a_printed_command_does_what_it_says(text: str, jail: Path) -> None:
    words = words_of(text)
    environment = os.environ | {"HOME": str(jail), "XDG_RUNTIME_DIR": str(jail), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "onboard.cli.main", *words]
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=jail, env=environment, capture_output=True, text=True, timeout=280.0, check=False)
    # doctor says 1 when this computer lacks something; all else must succeed.
    assert done.returncode == 0 or (words[0] == "doctor" and done.returncode == 1), (
        f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    )
    assert "Traceback" not in done.stderr
