"""A board on USB for tests, and what every test of flashing needs: settings, a newer firmware, the proof of a boot."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from onboard.flash.flasher import Flashed, Flasher, Job
from onboard.flash.image import firmware_folder
from onboard.flash.provision import provision, read_secrets
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.boards.jail import BoardConfig
from sim.flash.usb_board import RP2040, Chip, UsbBoard

WIFI_PASSWORD = "correct-horse-battery"
BROKER_PASSWORD = "staple-9f3a77c1d0"
SPEC = load_robot(robot_file("manipulator"))


def secrets_file(folder: Path, port: int = 1883, extra: str = "") -> Path:
    """A secrets file with a passwords file beside it."""
    passwords = folder / "passwords"
    passwords.write_text("".join(f"{name}:{BROKER_PASSWORD}-{name}\n" for name in ("host", *SPEC.struts)))
    passwords.chmod(0o600)
    path = folder / "secrets.toml"
    path.write_text(
        f'[wifi]\nssid = "lab"\npassword = "{WIFI_PASSWORD}"\n\n'
        f'[broker]\nhost = "127.0.0.1"\nport = {port}\npasswords = "passwords"\n{extra}'
    )
    path.chmod(0o600)
    return path


def board(folder: Path, chip: Chip = RP2040, app: str = "strut") -> UsbBoard:
    """A board with an empty flash, plugged in. The folder must be one that an unprivileged user can enter."""
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o711)
    kind = "nano_rp2040" if chip.platform == "rp2" else "m5stickc_plus"
    one = UsbBoard(folder, chip, BoardConfig("usb", app=app, board=kind))
    one.plug_in()
    return one


def job(one: UsbBoard, folder: Path, board_id: str = "strut07", port: int = 1883, extra: str = "") -> Job:
    """What `prestress flash manipulator strut07=PORT` makes of a board."""
    secrets = read_secrets(secrets_file(folder, port, extra))
    app = "strut" if board_id in SPEC.struts else "valve"
    return Job(board_id, one.port, "nano_rp2040", app, provision(SPEC, board_id, secrets))


def flash(one: UsbBoard, folder: Path, board_id: str = "strut07", firmware: Path | None = None) -> Flashed:
    """Flash it."""
    return Flasher(job(one, folder, board_id), firmware).flash()


def newer_firmware(folder: Path, version: str = "0.9.9", every_file: bool = False) -> Path:
    """The firmware with another version, one changed driver (or every file changed) and a changed main.py."""
    target = folder / f"firmware-{version}"
    shutil.copytree(firmware_folder(), target, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    identity = target / "common" / "identity.py"
    text = identity.read_text()
    start = text.index('VERSION = "')
    end = text.index("\n", start)
    identity.write_text(f'{text[:start]}VERSION = "{version}"{text[end:]}')
    for path in sorted(target.rglob("*.py")) if every_file else (target / "main.py", target / "strut" / "sensor.py"):
        path.write_text(path.read_text() + f'\nNOTE = "{version}"\n')
    return target


def booted(one: UsbBoard, limit_s: float = 15.0) -> str:
    """Version of the strut's firmware that the board runs after power on; it must feed its watchdog too."""
    end_s = time.monotonic() + limit_s
    while b" runs strut " not in one.output or not one.watchdog()[1]:
        assert time.monotonic() < end_s, f"the board does not boot: {bytes(one.output[-300:])!r}"
        time.sleep(0.01)
    return bytes(one.output).split(b" runs strut ")[-1].split()[0].decode()


def files_of(one: UsbBoard) -> dict[str, bytes]:
    """The board's flash: path to content, without what makes it a virtual board."""
    found = {str(path.relative_to(one.jail)): path for path in one.jail.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith("sim/")}
