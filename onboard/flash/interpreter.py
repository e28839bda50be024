"""Write the MicroPython interpreter itself: by esptool on ESP32, as a UF2 file on the boot drive of RP2040."""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from onboard.clock import Clock, WallClock
from onboard.errors import LinkError, MissingExtraError, UsageError
from onboard.flash import esp_image
from onboard.flash.raw_repl import RawRepl

ESP_OFFSET = "0x1000"  # of MicroPython's image on the ESP32; later chips differ and are not in this product's boards
ESP_BAUD = "460800"
ESPTOOL_S = 300
UF2_MAGIC = (0x0A324655, 0x9E5D5157)
UF2_END = 0x0AB16F30
UF2_BLOCK = 512
RP2040_FAMILY = 0xE48BFF56  # in the UF2 specification's list of families
BOOT_DRIVE_ID = "RPI-RP2"  # Board-ID in INFO_UF2.TXT of the RP2040's boot drive
DRIVE_S = 20.0
MOUNTS = ("/media", "/run/media", "/mnt")


def check_image(path: Path, chip: str) -> None:
    """UsageError unless `path` is an interpreter image for the chip, `rp2` or `esp32`, whole as far as its form tells."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"interpreter {path}: cannot be read: {error.strerror}") from error
    if chip == "esp32":
        if problem := esp_image.problem_of(data):
            raise UsageError(f"interpreter {path}: {problem}")
        return
    if not data or len(data) % UF2_BLOCK:
        raise UsageError(f"interpreter {path}: is no UF2 file for an RP2040, or was cut: {len(data)} bytes")
    count = len(data) // UF2_BLOCK
    for number in range(count):
        block = data[number * UF2_BLOCK : (number + 1) * UF2_BLOCK]
        first, second, _, _, _, index, blocks, family = struct.unpack_from("<8I", block)
        if (first, second) != UF2_MAGIC or struct.unpack_from("<I", block, 508)[0] != UF2_END:
            raise UsageError(f"interpreter {path}: is no UF2 file (block {number})")
        if family != RP2040_FAMILY:
            raise UsageError(f"interpreter {path}: is for another chip than the RP2040 (family 0x{family:08x})")
        if index != number or blocks != count:
            raise UsageError(f"interpreter {path}: was cut or joined (block {number} says {index} of {blocks})")


def write_esp32(port: str, image: Path, esptool: list[str] | None = None) -> None:
    """Write and verify `image` by esptool, a program of its own (the `flash` extra brings it); LinkError with its last line."""
    check_image(image, "esp32")
    command = esptool or _esptool()
    arguments = ["--chip", "esp32", "--port", port, "--baud", ESP_BAUD, "write-flash", "-z", ESP_OFFSET, str(image)]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=ESPTOOL_S)
    except subprocess.TimeoutExpired as error:
        raise LinkError(f"{port}: esptool did not end within {ESPTOOL_S} s") from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise LinkError(f"{port}: esptool failed: {lines[-1].strip() if lines else 'without a word'}")
    if "hash of data verified" not in (done.stdout + done.stderr).lower():
        raise LinkError(f"{port}: esptool ended without verifying what it wrote")


def _esptool() -> list[str]:
    if importlib.util.find_spec("esptool") is not None:
        return [sys.executable, "-m", "esptool"]
    found = shutil.which("esptool") or shutil.which("esptool.py")
    if found is None:
        raise MissingExtraError("writing an ESP32's interpreter", "flash")
    return [found]


def boot_drives(roots: tuple[str, ...] | None = None) -> list[Path]:
    """Mounted boot drives of RP2040 boards below `roots`, MOUNTS by default."""
    found = []
    for root in MOUNTS if roots is None else roots:
        for depth in ("*", "*/*"):
            for info in sorted(Path(root).glob(f"{depth}/INFO_UF2.TXT")):
                try:
                    text = info.read_text(encoding="ascii", errors="replace")
                except OSError:
                    continue
                if BOOT_DRIVE_ID in text:
                    found.append(info.parent)
    return found


def write_interpreter(port: str, chip: str, image: Path) -> None:
    """Write `image` to the board on `port`, or to the one in its boot drive when the port is not there; LinkError otherwise."""
    if chip == "esp32":
        write_esp32(port, image)
        return
    if Path(port).exists() or len(boot_drives()) != 1:  # a board whose reset was tapped twice has no port, but a drive
        enter_boot_drive(port)
    write_rp2040(image)


def enter_boot_drive(port: str) -> None:
    """Ask MicroPython on the board to restart as a boot drive; a board without it needs its button or double tap."""
    repl = RawRepl(port)
    repl.open()
    try:
        if not repl.enter():
            raise LinkError(f"{port}: no MicroPython answers: hold BOOTSEL, or tap reset twice, to get the boot drive")
        repl.start("import machine\nmachine.bootloader()\n")
    finally:
        repl.close()


def write_rp2040(image: Path, roots: tuple[str, ...] | None = None, clock: Clock | None = None, wait_s: float = DRIVE_S) -> Path:
    """Copy the UF2 `image` to the one boot drive that is there or comes within `wait_s`; the drive. LinkError otherwise."""
    check_image(image, "rp2")
    clock = clock or WallClock()
    end_s = clock.now_s() + wait_s
    while not (drives := boot_drives(roots)):
        if clock.now_s() >= end_s:
            where = " or ".join(MOUNTS if roots is None else roots)
            raise LinkError(f"no boot drive of an RP2040 came within {wait_s:.0f} s: is it mounted below {where}?")
        select.select([], [], [], 0.2)
    if len(drives) > 1:
        raise LinkError(f"{len(drives)} boot drives are there ({', '.join(map(str, drives))}): leave one")
    try:
        with (drives[0] / image.name).open("wb") as file:
            file.write(image.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if (drives[0] / "INFO_UF2.TXT").exists():  # the board restarts, and the drive goes, with the last block
            raise LinkError(f"{drives[0]}: {error.strerror}: the interpreter was not written") from error
    return drives[0]
