"""A board out of the box becomes a strut of the robot, over the real MicroPython prompt."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.flash.flasher import Flasher
from onboard.flash.raw_repl import BoardError, RawRepl
from sim.boards.jail import own
from sim.flash.usb_board import UsbBoard
from tests.flash.support import booted, files_of, flash, job, newer_firmware, secrets_file

Boards = Callable[..., UsbBoard]


def test_an_empty_board_becomes_a_strut_and_keeps_being_one(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    done = flash(one, tmp_path)
    assert done.changed and done.board_id == "strut07" and done.version == "0.1.0" and done.chip_id == one.config.chip_id
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"
    settings = json.loads(files_of(one)["identity.json"])
    assert settings["name"] == "strut07" and settings["wifi"]["ssid"] == "lab" and settings["broker"]["user"] == "strut07"


def test_the_second_time_nothing_is_sent(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    flash(one, tmp_path)
    before = files_of(one)
    again = flash(one, tmp_path)
    assert not again.changed and again.sent == 0 and again.files == 0
    assert files_of(one) == before


def test_a_change_sends_only_what_changed_and_the_rest_is_copied_on_the_board(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    first = flash(one, tmp_path)
    newer = newer_firmware(tmp_path)
    second = flash(one, tmp_path, firmware=newer)
    assert (second.version, first.slot, second.slot) == ("0.9.9", "a", "b")
    assert 0 < second.sent < first.sent / 4
    back = flash(one, tmp_path)
    assert back.version == "0.1.0" and back.slot == "a"
    assert back.sent == len((Path(__file__).parents[2] / "firmware" / "main.py").read_bytes()) + 1  # the old slot was whole


def test_new_settings_alone_leave_the_firmware_where_it_is(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    flash(one, tmp_path)
    done = flash(one, tmp_path, "strut08")
    assert done.changed and done.files == 1 and done.slot == "a"
    assert json.loads(files_of(one)["identity.json"])["name"] == "strut08"


def test_a_valve_board_is_reached_through_its_protocol(usb: Boards, tmp_path: Path) -> None:
    one = usb(app="valve")
    assert flash(one, tmp_path, "valve2").changed
    assert not flash(one, tmp_path, "valve2").changed
    assert "wifi" not in json.loads(files_of(one)["identity.json"])  # no secret where none is needed


def test_a_board_whose_usb_comes_back_late_is_heard_all_the_same(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    one.native_usb_s = 2.0
    assert flash(one, tmp_path).version == "0.1.0"
    assert flash(one, tmp_path).version == "0.1.0"


def test_a_file_damaged_on_the_board_is_written_again(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    flash(one, tmp_path)
    path = one.jail / "a" / "common" / "ring.mpy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = flash(one, tmp_path)
    assert done.slot == "b" and (one.jail / "b" / "common" / "ring.mpy").read_bytes() == content


def test_a_half_copied_file_system_with_files_for_folders_and_folders_for_files_is_put_right(usb: Boards, tmp_path: Path) -> None:
    """As a copy by hand may leave it; nothing on it boots."""
    one = usb()
    flash(one, tmp_path)
    one.unplug()
    jail = one.jail
    for name in ("boot.py", "main.py", "a/strut/sensor.mpy"):
        (jail / name).write_bytes((jail / name).read_bytes()[:100])
    shutil.rmtree(jail / "a" / "common")
    (jail / "a" / "common").write_text("a file")
    (jail / "b").write_text("a file")
    for name in ("identity.json", "slot", "main.py.new", "trial"):
        (jail / name).unlink(missing_ok=True)
        (jail / name / "deeper").mkdir(parents=True)
        (jail / name / "deeper" / "file").write_text("in a folder")
    own(jail)
    one.plug_in()
    assert flash(one, tmp_path).version == "0.1.0"
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"
    assert not flash(one, tmp_path).changed


def test_two_flashers_at_once_do_not_mix(usb: Boards, tmp_path: Path) -> None:
    """Two commands, one port: one flashes, the other says that the port is taken."""
    one = usb()
    words = ["flash", "manipulator", f"strut07={one.port}", "--secrets", str(secrets_file(tmp_path))]
    program = "import sys\nimport onboard.cli.flash\nfrom onboard.cli.main import main\nprint('ready', flush=True)\n"
    program += f"input()\nsys.exit(main({words!r}))\n"
    command = [sys.executable, "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120.0)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 4], said
    assert "is taken by another program" in said[codes.index(4)]
    assert flash(one, tmp_path).changed is False
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"


def test_several_boards_side_by_side(usb: Boards, tmp_path: Path) -> None:
    from rich.console import Console

    from onboard.cli.flash import flash_all

    boards = [usb() for _ in range(3)]
    jobs = [job(one, tmp_path, f"strut{index:02}") for index, one in enumerate(boards)]
    results = flash_all(jobs, None, Console(quiet=True))
    assert [result.board_id for result in results] == ["strut00", "strut01", "strut02"]
    assert len({result.chip_id for result in results}) == 1  # the three virtual chips bear one id here
    assert all(result.version == "0.1.0" for result in results)


def test_progress_counts_every_byte_of_the_files(usb: Boards, tmp_path: Path) -> None:
    one, steps, counts = usb(), [], []
    done = Flasher(job(one, tmp_path), on_step=steps.append, on_bytes=counts.append).flash()
    assert sum(counts) == done.sent
    assert steps == ["connecting", "looking", "writing", "provisioning", "checking", "starting"]


def test_the_prompt_cannot_remove_what_lies_outside_the_jail(usb: Boards, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    victim = outside / "precious"
    victim.write_text("still here")
    victim.chmod(0o666)
    one = usb()
    repl = RawRepl(one.port)
    repl.open()
    try:
        assert repl.enter()
        for way in (str(victim), "/.." * 12 + str(victim), "../.." + str(victim), "/sim/../../outside/precious"):
            for code in (f"os.remove({way!r})", f"open({way!r}, 'w')", f"os.rename({way!r}, '/x')"):
                with pytest.raises(BoardError, match="OSError"):
                    repl.run(f"import os\n{code}")
        everything = "def f(p):\n for e in os.ilistdir(p):\n  q = p.rstrip('/') + '/' + e[0]\n  if e[1] & 0x4000:\n   f(q)\n"
        everything += "   os.rmdir(q)\n  else:\n   os.remove(q)\nimport os\nf('/')\nprint('gone')"
        assert repl.run(everything).strip() == "gone"
    finally:
        repl.close()
    assert files_of(one) == {} and victim.read_text() == "still here"


def test_flashing_gives_up_a_firmware_that_is_on_trial_first(usb: Boards, tmp_path: Path) -> None:
    one = usb()
    flash(one, tmp_path)
    one.unplug()
    (one.jail / "b").mkdir()
    (one.jail / "b" / "application.mpy").write_bytes(b"half of one")
    (one.jail / "trial").write_text("b 3 60 0.9.9")
    own(one.jail)
    one.plug_in()
    assert flash(one, tmp_path).slot == "a"
    assert "trial" not in files_of(one)
    one.unplug()
    one.plug_in()
    assert booted(one) == "0.1.0"
