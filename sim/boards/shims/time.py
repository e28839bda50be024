"""`time` of a virtual board: ticks that wrap at 2**30, start anywhere and drift like a cheap oscillator."""

# ruff: noqa: PTH123 (MicroPython has no pathlib)

import json

import utime
from utime import *  # noqa: F403

_MASK = (1 << 30) - 1
_HALF = 1 << 29

with open("/sim/boot.json") as _file:
    _boot = json.load(_file)
_RATE = 1_000_000 + _boot["drift_ppm"]
_OFFSET = _boot["tick_offset_us"]
_start = utime.ticks_us()
_now = utime.ticks_us


def ticks_us() -> int:
    return ((_now() - _start) * _RATE // 1_000_000 + _OFFSET) & _MASK


def ticks_ms() -> int:
    return ((_now() - _start) * _RATE // 1_000_000 + _OFFSET) // 1000 & _MASK


def ticks_add(ticks: int, delta: int) -> int:
    return (ticks + delta) & _MASK


def ticks_diff(later: int, earlier: int) -> int:
    return ((later - earlier + _HALF) & _MASK) - _HALF
