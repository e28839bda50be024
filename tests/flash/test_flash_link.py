"""After flashing, a strut says whether it reaches the broker, and if not, why."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.errors import LinkError
from onboard.flash.flasher import Flasher
from onboard.link.broker import EmbeddedBroker
from sim.flash.usb_board import UsbBoard
from tests.flash.support import WIFI_PASSWORD, booted, job, secrets_file

Boards = Callable[..., UsbBoard]


def test_a_strut_that_reaches_the_broker(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    with EmbeddedBroker("prestress/manipulator", port=0) as broker:
        Flasher(dataclasses.replace(job(one, tmp_path, port=broker.port), link_s=20.0)).flash()
    assert b"link: online" in one.output


def test_an_unreachable_broker_is_said_by_the_board_which_runs_on(
    usb: Boards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = usb()
    secrets = secrets_file(tmp_path, port=9)
    words = ["flash", "manipulator", f"strut07={one.port}", "--secrets", str(secrets), "--wait-link", "2", "--json"]
    assert main(words) == 4
    out, err = capsys.readouterr()
    assert "does not reach the broker within 2 s; it says: connect: refused" in err.splitlines()[-1]
    assert "connect: refused" in json.loads(out.splitlines()[-1])["failed"]["strut07"]
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"


def test_a_wrong_wifi_password_is_said_by_the_board(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    right = job(one, tmp_path)
    settings = right.provision.identity.replace(WIFI_PASSWORD.encode(), b"wrong")  # the one that the virtual network refuses
    wrong = dataclasses.replace(right, provision=dataclasses.replace(right.provision, identity=settings), link_s=2.0)
    with pytest.raises(LinkError, match="it says: wrong password"):
        Flasher(wrong).flash()


@pytest.mark.parametrize("seconds", ["-1", "nan", "601"])
def test_a_senseless_wait_is_refused(tmp_path: Path, seconds: str) -> None:
    assert main(["flash", "manipulator", "strut07=/dev/x", "--secrets", str(secrets_file(tmp_path)), "--wait-link", seconds]) == 2
