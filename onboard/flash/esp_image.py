"""An ESP32's interpreter image, read as the chip's boot loaders read it: chip, segments, checksum, hash, partitions.

MicroPython's image for a new board is the flash from 0x1000 on: the second boot loader, the partition table at 0x8000, the
application where the table has it. Form of images and table: Espressif, "Firmware Image Format" (esptool) and "Partition
Tables" (ESP-IDF).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import numpy as np

MAGIC = 0xE9
FLASH_START = 0x1000  # of the image in an ESP32's flash
TABLE_AT = 0x8000
TABLE_SIZE = 0xC00
ENTRY_SIZE = 32
ENTRY_MAGIC, MD5_MAGIC = b"\xaa\x50", b"\xeb\xeb"
APPLICATION = 0  # type of a partition
CHECKSUM_SEED = 0xEF
MAX_SEGMENTS = 16
HEADER_SIZE = 24
CHIPS = {0: "ESP32", 2: "ESP32-S2", 5: "ESP32-C3", 9: "ESP32-S3", 12: "ESP32-C2", 13: "ESP32-C6", 16: "ESP32-H2", 18: "ESP32-P4"}


@dataclass(frozen=True, slots=True)
class Partition:
    """One entry of the table: kind and sub-kind, where it begins in flash, bytes."""

    kind: int
    sub: int
    offset: int
    size: int


def problem_of(data: bytes) -> str:
    """What is wrong with the image of a whole flash in `data`; empty for one that an ESP32 starts."""
    if problem := _image_problem(data, 0, "the boot loader"):
        return problem
    partitions = _table(data)
    if isinstance(partitions, str):
        return partitions
    # The boot loader starts the factory application, or the first of two when there is none.
    applications = sorted((p for p in partitions if p.kind == APPLICATION), key=lambda p: (p.sub, p.offset))
    if not applications:
        return "its partition table has no application"
    first = applications[0]
    start = first.offset - FLASH_START
    if start < 0:
        return "its application lies before its boot loader"
    if start >= len(data):
        return f"was cut: it has {len(data)} bytes, its application begins at {start}"
    return _image_problem(data[: start + first.size], start, "the application")


def _image_problem(data: bytes, start: int, what: str) -> str:
    """What is wrong with the one image that begins at `start`."""
    if len(data) < start + HEADER_SIZE:
        return f"was cut in the head of {what}"
    magic, segments, _, _, _, _, chip, _, hashed = struct.unpack_from("<BBBBI4sH9sB", data, start)
    if magic != MAGIC:
        return f"is no image for an ESP32 (the first byte of {what} is 0x{magic:02X}, not 0xE9)"
    if chip != 0:
        return f"is for another chip than the ESP32: {CHIPS.get(chip, f'number {chip}')}"
    if not 1 <= segments <= MAX_SEGMENTS:
        return f"is no image for an ESP32 ({what} has {segments} segments)"
    at, checksum = start + HEADER_SIZE, CHECKSUM_SEED
    for _ in range(segments):
        if at + 8 > len(data):
            return f"was cut in {what}"
        (size,) = struct.unpack_from("<I", data, at + 4)
        at += 8
        if at + size > len(data):
            return f"was cut in {what}: {len(data)} bytes are here, {at + size} are needed"
        checksum ^= int(np.bitwise_xor.reduce(np.frombuffer(data, np.uint8, size, at), initial=0))
        at += size
    at += 15 - (at - start) % 16  # the checksum is the last byte of a row of 16
    if at >= len(data):
        return f"was cut in {what}"
    if data[at] != checksum:
        return f"is damaged: the checksum of {what} is wrong"
    at += 1
    if hashed and data[at : at + 32] != hashlib.sha256(data[start:at]).digest():
        return f"was cut or is damaged: the hash of {what} is wrong"
    return ""


def _table(data: bytes) -> list[Partition] | str:
    """The partitions, or what is wrong with their table."""
    table = data[TABLE_AT - FLASH_START :][:TABLE_SIZE]
    found: list[Partition] = []
    for at in range(0, len(table) - ENTRY_SIZE + 1, ENTRY_SIZE):
        entry = table[at : at + ENTRY_SIZE]
        if entry[:2] == MD5_MAGIC:
            if entry[16:] != hashlib.md5(table[:at], usedforsecurity=False).digest():
                return "is damaged: the hash of its partition table is wrong"
            return found
        if entry[:2] != ENTRY_MAGIC:
            break
        found.append(Partition(*struct.unpack_from("<BBII", entry, 2)))
    if found:
        return found
    return "has no partition table: take the image for a new board (.bin), not one for updates"
