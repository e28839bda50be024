"""From the command line: a board that vanishes, credentials that the broker does not take, a choice that cannot be made."""

from __future__ import annotations

import dataclasses
import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import serial
from rich.console import Console

from onboard.cli import flash as verb
from onboard.cli.main import main
from onboard.errors import LinkError
from onboard.flash.flasher import Flasher
from onboard.flash.found import FoundBoard
from onboard.link.broker import EmbeddedBroker
from onboard.update.keys import make_keys
from sim.flash.usb_board import UsbBoard
from tests.flash.support import BROKER_PASSWORD, SPEC, booted, flash, job, newer_firmware, secrets_file

Boards = Callable[..., UsbBoard]
HOST_PASSWORD = f"{BROKER_PASSWORD}-host"
PREFIX = SPEC.link.prefix


def test_a_port_that_vanishes_while_it_is_written_is_named_and_the_old_firmware_runs_on(
    usb: Boards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = usb()
    flash(one, tmp_path)
    one.unplug()
    one.plug_in()
    booted(one)
    one.cut_after = 40_000
    secrets, newer = secrets_file(tmp_path), newer_firmware(tmp_path, every_file=True)
    words = ["flash", "manipulator", f"strut07={one.port}", "--secrets", str(secrets), "--firmware", str(newer), "--json"]
    assert main(words) == 4
    out, err = capsys.readouterr()
    failed = json.loads(out.splitlines()[-1])["failed"]["strut07"]
    assert failed.startswith(f"{one.port}: ") and "vanished while" in failed
    assert "vanished while" in err.splitlines()[-1] and "Traceback" not in err
    one.unplug()
    one.cut_after = None
    one.plug_in()
    assert booted(one) == "0.1.0"


def test_a_strut_with_another_password_than_the_broker_has_says_that_it_is_not_authorised(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    right = job(one, tmp_path)
    passwords = tmp_path / "passwords"
    with EmbeddedBroker(PREFIX, port=0, lan=True, passwords=passwords, boards=SPEC.struts) as broker:
        wrong = right.provision.identity.replace(f"{BROKER_PASSWORD}-strut07".encode(), b"not-the-one")
        assert wrong != right.provision.identity
        settings = wrong.replace(b'"port":1883', b'"port":%d' % broker.port)
        with pytest.raises(LinkError, match="does not reach the broker within 3 s; it says: not authorised") as caught:
            provision = dataclasses.replace(right.provision, identity=settings)
            Flasher(dataclasses.replace(right, provision=provision, link_s=3.0)).flash()
    assert "not-the-one" not in str(caught.value)


@pytest.mark.long
def test_struts_with_a_wrong_password_is_one_line_that_does_not_quote_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets_file(tmp_path)
    with EmbeddedBroker(PREFIX, port=0, lan=True, passwords=tmp_path / "passwords", boards=SPEC.struts) as broker:
        url = f"mqtt://host:guessed-7431@127.0.0.1:{broker.port}"
        assert main(["struts", "manipulator", "--broker", url, "--seconds", "1"]) == 4
        err = capsys.readouterr().err
        assert "guessed-7431" not in err and "Traceback" not in err
        url = f"mqtt://host:{HOST_PASSWORD}@127.0.0.1:{broker.port}"
        assert main(["struts", "manipulator", "--broker", url, "--seconds", "1"]) == 1  # let in; all struts are missing


def test_without_a_board_or_with_two_the_command_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = str(secrets_file(tmp_path))
    monkeypatch.setattr(verb, "find_boards", lambda: [])
    monkeypatch.setattr(verb, "flash_all", lambda *_: pytest.fail("a board was touched"))
    assert main(["flash", "manipulator", "strut00", "--secrets", secrets]) == 2
    assert "no board is on USB" in capsys.readouterr().err
    two = [FoundBoard(f"/dev/ttyACM{n}", "rp2", 0x2341, 0x025E, str(n), "Nano") for n in range(2)]
    monkeypatch.setattr(verb, "find_boards", lambda: two)
    assert main(["flash", "manipulator", "strut00", "--secrets", secrets]) == 2
    said = capsys.readouterr().err
    assert "which of the boards is strut00" in said and "/dev/ttyACM1" in said


@pytest.mark.parametrize("kind", ["missing", "folder", "not text"])
def test_a_secrets_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "secrets.toml"
    if kind == "folder":
        path.mkdir(mode=0o700)
    elif kind == "not text":
        path.write_bytes(b"\xff\xfe\x00secret")
        path.chmod(0o600)
    assert main(["flash", "manipulator", "strut00=/dev/x", "--secrets", str(path)]) == 2
    err = capsys.readouterr().err
    assert str(path) in err and "Traceback" not in err


def test_a_line_of_passwords_that_is_turned_round_is_not_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = secrets_file(tmp_path)
    for line in ("hunter2-hunter2:strut00", "hunter2-hunter2 strut00"):
        (tmp_path / "passwords").write_text(line + "\n")
        assert main(["flash", "manipulator", "strut00=/dev/x", "--secrets", str(path)]) == 2
        out, err = capsys.readouterr()
        assert "passwords: line 1: " in err and "hunter2" not in out + err


@pytest.mark.parametrize("lacking", ["main.py", "common/identity.py", "VERSION", "all"])
def test_a_folder_that_is_no_firmware_is_refused_before_a_board_is_touched(
    tmp_path: Path, lacking: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "flash_all", lambda *_: pytest.fail("a board was touched"))
    folder = newer_firmware(tmp_path)
    if lacking == "VERSION":
        identity = folder / "common" / "identity.py"
        identity.write_text(identity.read_text().replace("VERSION = ", "RELEASE = "))
    elif lacking == "all":
        folder = tmp_path / "none"
    else:
        (folder / lacking).unlink()
    words = ["strut00=/dev/x", "strut01=/dev/y", "--secrets", str(secrets_file(tmp_path)), "--firmware", str(folder)]
    assert main(["flash", "manipulator", *words]) == 2
    assert str(folder) in capsys.readouterr().err
    make_keys(tmp_path / "update.key")
    words = ["--key", str(tmp_path / "update.key"), "--broker", "mqtt://127.0.0.1:9", "--firmware", str(folder)]
    assert main(["update", "manipulator", *words]) == 2
    assert str(folder) in capsys.readouterr().err


def test_a_port_that_vanishes_between_two_writes_leaves_the_other_boards_results(
    usb: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells that a port has gone in whichever call comes next; here it is the one that counts waiting bytes."""
    one, other = usb(), usb()
    real = serial.Serial.in_waiting.fget
    assert real is not None

    def in_waiting(line: serial.Serial) -> int:
        if line.port == other.port and sys._getframe(1).f_code.co_name in ("_paste", "_waiting"):
            raise OSError(errno.EIO, "Input/output error")
        return int(real(line))

    monkeypatch.setattr(serial.Serial, "in_waiting", property(in_waiting))
    jobs = [job(one, tmp_path), job(other, tmp_path, "strut08")]
    done, failed = verb.flash_all(jobs, None, Console(stderr=True))
    assert done.version == "0.1.0" and isinstance(failed, LinkError)
    assert str(failed).startswith(f"{other.port}: vanished while writing")
