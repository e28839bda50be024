"""Power and cable vanish at any byte of flashing: the board boots the old firmware or the new, and can be flashed again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.errors import LinkError
from sim.boards.jail import own
from sim.flash.usb_board import UsbBoard
from tests.flash.support import booted, files_of, flash, newer_firmware

Boards = Callable[..., UsbBoard]
DEFAULT, LONG = 10, 60


def restore(one: UsbBoard, saved: Path) -> None:
    """The board's flash as it was saved."""
    one.unplug()
    shutil.rmtree(one.jail)
    shutil.copytree(saved, one.jail)
    own(one.jail)
    one.plug_in()


def in_use(jail: Path) -> dict[str, bytes]:
    """The firmware that /slot names: path to content."""
    folder = jail / (jail / "slot").read_text()
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.mpy")}


def points(total: int, count: int) -> list[int]:
    """Byte numbers over the whole of a session, the first and the last bytes among them."""
    return sorted({1 + (total - 2) * k // (count - 1) for k in range(count)})


def killed_everywhere(one: UsbBoard, tmp_path: Path, count: int) -> dict[str, int]:
    """Kill an update at `count` points; how often the old and the new firmware were found."""
    newer = newer_firmware(tmp_path, every_file=True)
    flash(one, tmp_path)
    one.unplug()
    saved = tmp_path / "saved"
    shutil.copytree(one.jail, saved)
    restore(one, saved)
    flash(one, tmp_path, firmware=newer)
    total = one.received
    whole = {"0.1.0": in_use(saved), "0.9.9": in_use(one.jail)}
    seen = {"0.1.0": 0, "0.9.9": 0}
    for at in points(total, count):
        restore(one, saved)
        one.cut_after = at
        with pytest.raises(LinkError):
            flash(one, tmp_path, firmware=newer)
        one.unplug()
        one.cut_after = None
        one.plug_in()
        version = booted(one)
        seen[version] += 1  # a KeyError would be neither
        assert in_use(one.jail) == whole[version]  # not a mixture of both
    assert flash(one, tmp_path, firmware=newer).version == "0.9.9"
    assert not [name for name in files_of(one) if name.endswith(".new")]
    return seen


def test_an_update_killed_at_ten_points(usb: Boards, tmp_path: Path) -> None:
    seen = killed_everywhere(usb(), tmp_path, DEFAULT)
    assert sum(seen.values()) == DEFAULT and min(seen.values()) >= 1


@pytest.mark.long
def test_an_update_killed_at_sixty_points(usb: Boards, tmp_path: Path) -> None:
    seen = killed_everywhere(usb(), tmp_path, LONG)
    assert sum(seen.values()) == LONG and min(seen.values()) >= 1


def test_an_empty_board_whose_flashing_was_killed_can_be_flashed(usb: Boards, tmp_path: Path) -> None:
    measured = usb()
    flash(measured, tmp_path)
    total = measured.received
    firmware_done = total * 8 // 10
    early, late = points(firmware_done, 4)[1:], [firmware_done + at for at in points(total - firmware_done, 8)]
    ran = 0
    for at in early + late:
        one = usb()
        one.cut_after = at
        with pytest.raises(LinkError):
            flash(one, tmp_path)
        one.unplug()
        one.cut_after = None
        one.plug_in()
        if "main.py" in files_of(one):  # the last file: with it the firmware runs, without it the prompt waits
            assert booted(one) == "0.1.0"
            ran += 1
        assert flash(one, tmp_path).version == "0.1.0"
        one.unplug()
    assert 0 < ran < len(late)


def test_a_foreign_program_runs_until_the_last_file_is_there(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    (one.jail / "main.py").write_text("print('foreign program')\n")
    own(one.jail)
    one.unplug()
    one.plug_in()
    one.cut_after = 20_000
    with pytest.raises(LinkError):
        flash(one, tmp_path)
    assert (one.jail / "main.py").read_text() == "print('foreign program')\n"
