"""A board out of the box becomes a rod of the robot: the same flasher, another application."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.errors import ConfigError, UsageError
from onboard.flash.flasher import Flasher, Job
from onboard.flash.provision import provision, read_secrets
from onboard.flash.robot_boards import app_of, load_boards
from onboard.resources import robot_file
from sim.flash.usb_board import UsbBoard
from tests.firmware.conftest import wait_until
from tests.flash.support import files_of

Boards = Callable[..., UsbBoard]
SECRETS = '[wifi]\nssid = "lab"\npassword = "correct-horse"\n\n[broker]\nhost = "127.0.0.1"\nport = 1883\n'


def job(one: UsbBoard, folder: Path) -> Job:
    spec = load_boards(robot_file("three_bar"))
    file = folder / "secrets.toml"
    file.write_text(SECRETS)
    file.chmod(0o600)
    return Job("rod1", one.port, spec.imu.board, app_of(spec, "rod1"), provision(spec, "rod1", read_secrets(file)))


def test_an_empty_board_becomes_a_rod(usb: Boards, tmp_path: Path) -> None:
    one = usb(app="motor")
    done = Flasher(job(one, tmp_path)).flash()
    assert done.changed and done.board_id == "rod1" and done.version == "0.1.0"
    settings = json.loads(files_of(one)["identity.json"])
    assert settings["app"] == "motor" and settings["prefix"] == "prestress/three_bar" and settings["imu"]["batch"] == 2
    one.unplug()
    one.plug_in()
    wait_until(lambda: b"prestress: rod1 runs motor 0.1.0" in one.output and one.watchdog()[1] > 0, 15.0, "the rod runs")
    assert not Flasher(job(one, tmp_path)).flash().changed


def test_a_board_that_the_robot_does_not_have_is_refused(tmp_path: Path) -> None:
    spec = load_boards(robot_file("three_bar"))
    file = tmp_path / "secrets.toml"
    file.write_text(SECRETS)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="rod9"):
        provision(spec, "rod9", read_secrets(file))


def test_robots_without_boards_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="have no boards"):
        load_boards(robot_file("vine"))
