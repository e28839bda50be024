"""What goes wrong while the three-bar robot drives: each fault is noticed, the motors stop or go on as they should."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.cli.model import add_install
from onboard.errors import PrestressError
from onboard.resources import root
from sim.three_bar.rig import SimulatedStruts
from tests.hil.struts import drive, ready, struts, turning
from tests.hil.support import wait_for

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedStruts]:
    folder = tmp_path_factory.mktemp("struts")
    folder.chmod(0o711)
    with struts(folder) as one:
        wait_for(lambda: ready(one), 60.0, "boards, poses and planner")
        yield one


@pytest.fixture
def driving(robot: SimulatedStruts) -> SimulatedStruts:
    drive(robot)
    return robot


def plans_go_on(robot: SimulatedStruts, limit_s: float = 10.0) -> None:
    before = robot.status()["planner"]["plans"]
    wait_for(lambda: robot.status()["planner"]["plans"] > before + 1, limit_s, "plans go on")


def test_a_killed_planner_is_started_again_and_the_drive_goes_on(driving: SimulatedStruts) -> None:
    before = driving.status()["planner"]
    os.kill(before["pid"], signal.SIGKILL)
    wait_for(lambda: driving.status()["planner"]["restarts"] == before["restarts"] + 1, 5.0, "a new planner")
    wait_for(lambda: driving.status()["planner"]["warm"], 30.0, "it is warm")
    wait_for(lambda: driving.status()["state"] == "active", 10.0, "the robot goes on")
    plans_go_on(driving)


def test_a_planner_that_does_not_come_back_ends_in_stillness(driving: SimulatedStruts) -> None:
    os.kill(driving.status()["planner"]["pid"], signal.SIGSTOP)
    wait_for(lambda: "plan_expired" in driving.status()["troubles"], 10.0, "the last plan is over")
    wait_for(lambda: not turning(driving).any(), 1.0, "the motors are off")
    wait_for(lambda: driving.status()["state"] == "safe", 15.0, "the safe state")
    before = driving.status()["planner"]
    os.kill(before["pid"], signal.SIGKILL)
    wait_for(lambda: driving.status()["planner"]["restarts"] == before["restarts"] + 1, 8.0, "a new planner")


def test_two_seconds_without_poses_stop_the_motors_and_no_more(driving: SimulatedStruts) -> None:
    assert driving.plant is not None
    driving.plant.ask("hide", seconds=2.5)
    wait_for(lambda: driving.status()["fault"] == "estimate_old", 4.0, "the pose is too old")
    assert driving.status()["state"] == "degraded"
    wait_for(lambda: not turning(driving).any(), 1.0, "the motors are off")
    wait_for(lambda: driving.status()["state"] == "active", 6.0, "poses are back")
    plans_go_on(driving)


def test_a_silent_board_stops_all_motors_until_it_is_back_and_armed_again(driving: SimulatedStruts) -> None:
    assert driving.fleet is not None
    board = driving.fleet[next(iter(driving.status()["boards"]))]
    board.stop()
    wait_for(lambda: driving.status()["state"] == "safe", 3.0, "the safe state")
    assert driving.status()["fault"] == "board_silent"
    others = slice(2, 6)
    wait_for(lambda: bool(not turning(driving)[others].any()), 2.0, "the other motors are off")
    board.start()
    drive(driving)
    plans_go_on(driving)


def test_a_goal_that_moves_is_followed_and_one_that_cannot_be_is_refused(driving: SimulatedStruts) -> None:
    driving.ask("go", goal=[8.0, 0.0])
    wait_for(lambda: driving.status()["goal"] == [8.0, 0.0], 1.0, "the new goal")
    plans_go_on(driving)
    for goal in ([-1.0, -2.0], [400.0, 0.0], [float("1e308"), 0.0], "north", [1.0]):
        with pytest.raises(PrestressError):
            driving.ask("go", goal=goal)
    assert driving.status()["goal"] == [8.0, 0.0] and driving.status()["state"] == "active"


def test_a_model_of_another_robot_is_refused_while_driving(driving: SimulatedStruts, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.json"
    foreign.write_text("{}")
    with pytest.raises(PrestressError):
        driving.ask("model", path=str(foreign))
    plans_go_on(driving)
    assert driving.status()["planner"]["model"].endswith("contact.json")


def copied(folder: Path, name: str) -> Path:
    """The shipped model under another name: a file of its own with a manifest of its own."""
    shipped = root() / "models_onnx" / "three_bar" / "contact.json"
    manifest = json.loads(shipped.read_text()) | {"name": name, "file": f"{name}.onnx"}
    (folder / f"{name}.onnx").write_bytes(shipped.with_suffix(".onnx").read_bytes())
    path = folder / f"{name}.json"
    path.write_text(json.dumps(manifest))
    return path


def install(robot: SimulatedStruts, path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    run = add_install(parser)
    assert (
        run(parser.parse_args(["three_bar", str(path), "--socket", str(robot.folder / "prestress" / "three_bar.sock"), "--json"]))
        == 0
    )
    return json.loads(capsys.readouterr().out.splitlines()[-1])  # type: ignore[no-any-return]


def test_a_model_is_installed_while_driving_and_a_bad_one_leaves_it_in_use(
    driving: SimulatedStruts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o711)
    pid = driving.status()["planner"]["pid"]
    good = copied(tmp_path, "next")
    assert install(driving, good, capsys)["model"] == str(good)
    plans_go_on(driving)
    assert driving.status()["planner"]["pid"] == pid and driving.status()["state"] == "active", "nothing stopped for it"

    cut = copied(tmp_path, "cut")
    cut.with_suffix(".onnx").write_bytes(cut.with_suffix(".onnx").read_bytes()[:-100])
    noise = copied(tmp_path, "noise")
    content = os.urandom(5000)
    noise.with_suffix(".onnx").write_bytes(content)
    about = json.loads(noise.read_text()) | {"onnx_bytes": 5000, "onnx_sha256": hashlib.sha256(content).hexdigest()}
    noise.write_text(json.dumps(about))
    for bad, why in ((cut, "cut off"), (noise, "does not load"), (tmp_path / "none.json", "cannot be read")):
        with pytest.raises(PrestressError, match=why):
            install(driving, bad, capsys)
        assert driving.status()["planner"]["model"] == str(good)
        plans_go_on(driving)

    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: driving.status()["planner"]["model_number"] >= 1 and driving.status()["planner"]["warm"], 30.0, "it is back")
    plans_go_on(driving)
    assert driving.status()["planner"]["model"] == str(good), "a new planner process begins with what worked"


def test_a_robot_that_is_tipped_onto_its_end_is_brought_down_and_drives_on(driving: SimulatedStruts) -> None:
    assert driving.plant is not None
    before = driving.status()["rescues"]["tipped"]
    driving.plant.ask("tip")
    wait_for(lambda: driving.status()["rescues"]["tipped"] > before, 15.0, "it is noticed")
    wait_for(lambda: "robot_tipped" not in driving.status()["troubles"], 60.0, "the primitive has been played")
    assert driving.status()["state"] == "active"
    plans_go_on(driving, 30.0)
