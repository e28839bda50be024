"""Interpreter images as the chips' makers define them, made small: UF2 files, and an ESP32's flash from 0x1000 on."""

from __future__ import annotations

import hashlib
import struct

RP2040, RP2350 = 0xE48BFF56, 0xE48BFF59
TABLE, APPLICATION = 0x7000, 0xF000  # in the file; 0x8000 and 0x10000 in flash


def uf2(blocks: int = 4, family: int = RP2040, first: int = 0) -> bytes:
    """A whole UF2 file (microsoft/uf2: 512-byte blocks, three magic numbers)."""
    made = bytearray()
    for index in range(blocks):
        head = struct.pack("<8I", 0x0A324655, 0x9E5D5157, 0x2000, 0x10000000 + 256 * index, 256, first + index, blocks, family)
        made += head + bytes(476) + struct.pack("<I", 0x0AB16F30)
    return bytes(made)


def esp_part(segments: tuple[bytes, ...] = (b"boot" * 500, b"code" * 333), chip: int = 0, hashed: int = 1) -> bytes:
    """One image of the ESP32's form (Espressif, Firmware Image Format)."""
    head = struct.pack("<BBBBI", 0xE9, len(segments), 2, 0x20, 0x40080000)
    made = bytearray(head + b"\xee\0\0\0" + struct.pack("<H", chip) + bytes(9) + bytes([hashed]))
    checksum = 0xEF
    for number, data in enumerate(segments):
        made += struct.pack("<II", 0x3FFF0000 + 0x8000 * number, len(data)) + data
        for value in data:
            checksum ^= value
    made += bytes(15 - len(made) % 16) + bytes([checksum])
    return bytes(made) + (hashlib.sha256(made).digest() if hashed else b"")


def table(*parts: tuple[int, int, int, int], md5: bool = True) -> bytes:
    """A partition table of (type, sub type, offset, size)."""
    made = b"".join(struct.pack("<2sBBII16sI", b"\xaa\x50", *part, b"part", 0) for part in parts)
    if md5:
        made += b"\xeb\xeb" + b"\xff" * 14 + hashlib.md5(made).digest()
    return made.ljust(0xC00, b"\xff")


NVS, FACTORY = (1, 2, 0x9000, 0x6000), (0, 0, 0x10000, 0x1F0000)


def esp_flash(boot: bytes = b"", parts: bytes = b"", application: bytes = b"") -> bytes:
    """The image for a new board: boot loader, partition table, application."""
    boot, parts = boot or esp_part(), parts or table(NVS, FACTORY)
    application = application or esp_part((b"micropython " * 2000, bytes(range(256)) * 100, b"x" * 41))
    return (boot.ljust(TABLE, b"\xff") + parts).ljust(APPLICATION, b"\xff") + application
