"""The interpreter's image is checked before anything is written, and goes to the chip through its boot loader or boot drive."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.clock import WallClock
from onboard.errors import LinkError, UsageError
from onboard.flash.interpreter import boot_drives, check_image, write_esp32, write_rp2040

RP2040, RP2350 = 0xE48BFF56, 0xE48BFF59


def uf2(blocks: int = 4, family: int = RP2040, first: int = 0) -> bytes:
    """A whole UF2 file (microsoft/uf2: 512-byte blocks, three magic numbers)."""
    made = bytearray()
    for index in range(blocks):
        head = struct.pack("<8I", 0x0A324655, 0x9E5D5157, 0x2000, 0x10000000 + 256 * index, 256, first + index, blocks, family)
        made += head + bytes(476) + struct.pack("<I", 0x0AB16F30)
    return bytes(made)


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
    ],
)
def test_a_wrong_image_is_refused(tmp_path: Path, content: bytes, chip: str, said: str) -> None:
    image = tmp_path / "image"
    image.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        check_image(image, chip)
    with pytest.raises(UsageError, match="cannot be read"):
        check_image(tmp_path / "none", chip)


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
    image.write_bytes(b"\xe9" + bytes(range(256)) * 400)
    write_esp32(boot_loader, image)


def test_esptool_without_a_boot_loader_is_one_line(tmp_path: Path) -> None:
    if importlib.util.find_spec("esptool") is None:
        pytest.skip("needs the package esptool")
    image = tmp_path / "micropython.bin"
    image.write_bytes(b"\xe9" + bytes(100_000))
    with pytest.raises(LinkError, match="esptool failed") as caught:
        write_esp32("/dev/ttyNONE", image)
    assert "\n" not in str(caught.value)


def test_what_esptool_does_not_verify_is_not_believed(tmp_path: Path) -> None:
    image = tmp_path / "micropython.bin"
    image.write_bytes(b"\xe9" + bytes(100_000))
    with pytest.raises(LinkError, match="without verifying"):
        write_esp32("/dev/ttyX", image, [sys.executable, "-c", "print('done')"])
    with pytest.raises(LinkError, match="esptool failed: no serial data"):
        write_esp32("/dev/ttyX", image, [sys.executable, "-c", "import sys; print('no serial data'); sys.exit(2)"])
