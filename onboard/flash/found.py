"""Which serial ports are boards: by the USB vendor and product that they name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from serial.tools import list_ports

# USB ids: (vendor, product or None for all) to the chip. Bridges say nothing of what is behind them; on this product's boards
# it is an ESP32.
IDS: tuple[tuple[int, int | None, str], ...] = (
    (0x2341, 0x025E, "rp2"),  # Arduino Nano RP2040 Connect, MicroPython
    (0x2341, 0x015E, "rp2"),  # the same, its own boot loader
    (0x2E8A, None, "rp2"),  # Raspberry Pi
    (0x303A, None, "esp32"),  # Espressif's own USB
    (0x0403, 0x6001, "esp32"),  # FTDI FT232, as in the M5StickC Plus
    (0x10C4, 0xEA60, "esp32"),  # Silicon Labs CP210x
    (0x1A86, 0x7523, "esp32"),  # WCH CH340
    (0x1A86, 0x55D4, "esp32"),  # WCH CH9102, as in later M5StickC Plus
)


@dataclass(frozen=True, slots=True)
class FoundBoard:
    """A port that may be a board. chip: rp2 or esp32. serial: USB serial number or an empty text."""

    port: str
    chip: str
    vid: int
    pid: int
    serial: str
    text: str

    def __str__(self) -> str:
        return f"{self.port} ({self.chip}, {self.vid:04x}:{self.pid:04x} {self.text})"


def find_boards(ports: Iterable[Any] | None = None) -> list[FoundBoard]:
    """Boards among `ports` (pyserial's list by default), in the order of their names."""
    found = []
    for info in list_ports.comports() if ports is None else ports:
        chip = chip_of(info.vid, info.pid)
        if chip:
            text = " ".join(str(info.product or info.description or "").split())
            found.append(FoundBoard(info.device, chip, info.vid, info.pid, info.serial_number or "", text))
    return sorted(found, key=lambda board: board.port)


def chip_of(vid: int | None, pid: int | None) -> str:
    """rp2, esp32, or an empty text for what is no board of ours."""
    for vendor, product, chip in IDS:
        if vid == vendor and product in (None, pid):
            return chip
    return ""
