"""The interpreter's image is checked before anything is written, and goes to the chip through its boot loader or boot drive."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onboard.cli import flash as verb
from onboard.cli.main import main
from onboard.clock import WallClock
from onboard.errors import LinkError, UsageError
from onboard.flash import interpreter
from onboard.flash.interpreter import boot_drives, check_image, write_esp32, write_rp2040
from sim.flash.usb_board import UsbBoard
from tests.flash.images import APPLICATION, FACTORY, NVS, RP2350, TABLE, esp_flash, esp_part, table, uf2
from tests.flash.support import secrets_file


def drive(root: Path, name: str = "RPI-RP2") -> Path:
    folder = root / "user" / name
    folder.mkdir(parents=True)
    (folder / "INFO_UF2.TXT").write_text("UF2 Bootloader v3.0\nModel: Raspberry Pi RP2\nBoard-ID: RPI-RP2\n")
    return folder


def test_a_uf2_goes_to_the_boot_drive_whole(tmp_path: Path) -> None:
    image = tmp_path / "micropython.uf2"
    image.write_bytes(uf2())
    folder = drive(tmp_path / "media")
    assert write_rp2040(image, (str(tmp_path / "media"),), wait_s=0.0) == folder
    assert (folder / "micropython.uf2").read_bytes() == image.read_bytes()


def test_no_drive_and_two_drives_are_said(tmp_path: Path) -> None:
    image = tmp_path / "micropython.uf2"
    image.write_bytes(uf2())
    media = tmp_path / "media"
    with pytest.raises(LinkError, match="no boot drive"):
        write_rp2040(image, (str(media),), WallClock(), wait_s=0.1)
    other = drive(media, "STICK")
    (other / "INFO_UF2.TXT").write_text("Board-ID: SAMD21\n")
    assert boot_drives((str(media),)) == []
    drive(media, "RPI-RP2")
    drive(media, "RPI-RP21")
    with pytest.raises(LinkError, match="2 boot drives"):
        write_rp2040(image, (str(media),), wait_s=0.0)


@pytest.mark.parametrize(
    ("content", "chip", "said"),
    [
        (b"", "rp2", "is no UF2 file"),
        (uf2()[:-1], "rp2", "was cut"),
        (uf2()[:-512], "rp2", "was cut or joined"),
        (uf2(family=RP2350), "rp2", "another chip"),
        (uf2(first=1), "rp2", "was cut or joined"),
        (bytes(2048), "rp2", "is no UF2 file"),
        (uf2(200), "esp32", "no image for an ESP32"),
        (b"\xe9" + bytes(100), "esp32", "no image for an ESP32"),
        (b"\xe9" + bytes(range(256)) * 400, "esp32", "another chip than the ESP32"),
        (esp_flash(boot=esp_part(chip=9)), "esp32", "another chip than the ESP32: ESP32-S3"),
        (esp_flash(boot=esp_part(chip=5)), "esp32", "another chip than the ESP32: ESP32-C3"),
        (esp_flash(application=esp_part(chip=9)), "esp32", "another chip than the ESP32: ESP32-S3"),
        (esp_flash()[:-1], "esp32", "cut or is damaged: the hash of the application"),
        (esp_flash()[:-40_000], "esp32", "was cut in the application"),
        (esp_flash()[:APPLICATION], "esp32", "was cut: .* its application begins at"),
        (esp_flash()[:TABLE], "esp32", "no partition table"),
        (esp_flash()[:1000], "esp32", "was cut in the boot loader"),
        (esp_flash()[:20], "esp32", "was cut in the head"),
        (esp_part(), "esp32", "no partition table: take the image for a new board"),
        (esp_flash()[:100] + b"?" + esp_flash()[101:], "esp32", "the checksum of the boot loader is wrong"),
        (esp_flash()[:5] + b"?" + esp_flash()[6:], "esp32", "the hash of the boot loader is wrong"),
        (esp_flash()[: TABLE + 40] + b"?" + esp_flash()[TABLE + 41 :], "esp32", "the hash of its partition table is wrong"),
        (esp_flash(parts=table(NVS)), "esp32", "no application"),
        (esp_flash(parts=table((0, 0, 0x100, 0x1000))), "esp32", "lies before its boot loader"),
        (esp_flash(boot=b"\xe9\0" + esp_part()[2:]), "esp32", "has 0 segments"),
    ],
)
def test_a_wrong_image_is_refused(tmp_path: Path, content: bytes, chip: str, said: str) -> None:
    image = tmp_path / "image"
    image.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        check_image(image, chip)
    with pytest.raises(UsageError, match="cannot be read"):
        check_image(tmp_path / "none", chip)


@pytest.mark.parametrize("hashed", [0, 1])
@pytest.mark.parametrize("factory", [FACTORY, (0, 0x10, 0x10000, 0x180000)])
def test_a_whole_esp32_image_is_taken_and_read_as_esptool_reads_it(
    tmp_path: Path, hashed: int, factory: tuple[int, int, int, int]
) -> None:
    image = tmp_path / "micropython.bin"
    later = (0, 0x11, 0x200000, 0x180000)  # empty as long as nothing came over the air
    image.write_bytes(esp_flash(esp_part(hashed=hashed), table(NVS, later, factory, md5=bool(hashed)), esp_part(hashed=hashed)))
    check_image(image, "esp32")
    reader = pytest.importorskip("esptool.bin_image", reason="needs the package esptool")
    image.write_bytes(esp_part(hashed=hashed))
    read = reader.LoadFirmwareImage("esp32", str(image))
    assert (read.chip_id, len(read.segments)) == (0, 2) and read.checksum == read.calculate_checksum()
    assert read.append_digest == bool(hashed) and (not hashed or read.stored_digest == read.calc_digest)


class DoubleTapped:
    """A new board in its boot drive, which has no port until an interpreter is on the drive."""

    def __init__(self, board: UsbBoard, folder: Path) -> None:
        board.unplug()
        self.port, self._board, self._drive = folder / "ttyACM0", board, drive(folder / "media")
        self.written = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        end_s = time.monotonic() + 20.0
        while time.monotonic() < end_s:
            files = list(self._drive.glob("*.uf2"))
            if files and files[0].stat().st_size == len(uf2()):
                self.written += 1
                shutil.rmtree(self._drive)
                self._board.plug_in()
                self.port.symlink_to(self._board.port)
                return
            time.sleep(0.01)

    def join(self) -> None:
        self._thread.join()


def test_a_new_board_in_its_boot_drive_becomes_a_strut(
    usb: Callable[..., UsbBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = tmp_path / "micropython.uf2"
    image.write_bytes(uf2())
    monkeypatch.setattr(interpreter, "MOUNTS", (str(tmp_path / "media"),))
    tapped = DoubleTapped(usb(), tmp_path)
    secrets = ["--secrets", str(secrets_file(tmp_path)), "--json"]
    words = [f"strut07={tapped.port}", f"strut08={tmp_path / 'ttyACM1'}", "--interpreter", str(image)]
    assert main(["flash", "manipulator", *words, *secrets]) == 2  # two boards, one drive
    assert "which of the boards strut07, strut08 has the boot drive" in capsys.readouterr().err and tapped.written == 0
    status = main(["flash", "manipulator", words[0], *words[2:], *secrets])
    tapped.join()
    assert status == 0 and tapped.written == 1, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["boards"][0]["version"] == "0.1.0"


def test_a_board_that_gets_no_interpreter_does_not_take_the_others_results(
    usb: Callable[..., UsbBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = tmp_path / "micropython.uf2"
    image.write_bytes(uf2())
    monkeypatch.setattr(verb, "boot_drives", lambda: [])
    one, gone = usb(), tmp_path / "ttyNONE"

    def write(port: str, chip: str, file: Path) -> None:
        if port == str(gone):
            interpreter.write_interpreter(port, chip, file)

    monkeypatch.setattr(verb, "write_interpreter", write)
    words = [f"strut08={gone}", f"strut07={one.port}", "--interpreter", str(image), "--json"]
    assert main(["flash", "manipulator", *words, "--secrets", str(secrets_file(tmp_path))]) == 4
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["board_id"] for row in said["boards"]] == ["strut07"] and "is not there" in said["failed"]["strut08"]


@pytest.fixture
def boot_loader() -> Iterator[str]:
    """The port of an emulated ESP32 in its boot loader."""
    for name in ("esp32_mock_bootloader", "esptool"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs the package {name}")
    command = [sys.executable, "-m", "esp32_mock_bootloader.cli", "run", "--pty", "--chip", "esp32", "--timeout", "120"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_an_esp32_image_is_written_and_verified_by_esptool(tmp_path: Path, boot_loader: str) -> None:
    image = tmp_path / "micropython.bin"
    image.write_bytes(esp_flash())
    write_esp32(boot_loader, image)


def test_esptool_without_a_boot_loader_is_one_line(tmp_path: Path) -> None:
    if importlib.util.find_spec("esptool") is None:
        pytest.skip("needs the package esptool")
    image = tmp_path / "micropython.bin"
    image.write_bytes(esp_flash())
    with pytest.raises(LinkError, match="esptool failed") as caught:
        write_esp32("/dev/ttyNONE", image)
    assert "\n" not in str(caught.value)


def test_what_esptool_does_not_verify_is_not_believed(tmp_path: Path) -> None:
    image = tmp_path / "micropython.bin"
    image.write_bytes(esp_flash())
    with pytest.raises(LinkError, match="without verifying"):
        write_esp32("/dev/ttyX", image, [sys.executable, "-c", "print('done')"])
    with pytest.raises(LinkError, match="esptool failed: no serial data"):
        write_esp32("/dev/ttyX", image, [sys.executable, "-c", "import sys; print('no serial data'); sys.exit(2)"])
