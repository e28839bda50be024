"""`machine` of a virtual board: pins, I2C with register maps, watchdog, identity; the rest is the interpreter's own."""

# ruff: noqa: PTH123 (MicroPython has no pathlib)

import errno
import json
import struct
import sys

import devices
import motors
import registers
from umachine import *  # noqa: F403  # what the interpreter brings stays available

PWRON_RESET = 1
HARD_RESET = 2
WDT_RESET = 3
DEEPSLEEP_RESET = 4
SOFT_RESET = 5
RESET_EXIT = 82  # the launcher starts the board again after this exit status

with open("/sim/boot.json") as _file:
    _boot = json.load(_file)


def unique_id() -> bytes:
    text = _boot["unique_id"]
    return bytes([int(text[i : i + 2], 16) for i in range(0, len(text), 2)])


def reset_cause() -> int:
    return _boot["reset_cause"]


def reset() -> None:
    sys.exit(RESET_EXIT)


soft_reset = reset


class _Bus:
    """Electrical state that I2C and pins share."""

    scl = None
    sda = None
    clocks = 0
    freed = 0  # bus events that nine clocks have answered

    @classmethod
    def stuck(cls, record: bytearray) -> bool:
        return struct.unpack_from("<H", record, devices.BUS_EVENTS)[0] != cls.freed

    @classmethod
    def clock(cls) -> None:
        cls.clocks += 1
        if cls.clocks >= 9:
            cls.freed = struct.unpack_from("<H", registers.imu.load(), devices.BUS_EVENTS)[0]


class Pin:
    """Bus lines while recovering them; any other input reads the hard-wired stop."""

    IN = 0
    OUT = 1
    OPEN_DRAIN = 2
    PULL_UP = 1
    PULL_DOWN = 2

    def __init__(self, id, mode=-1, pull=-1, *, value=None) -> None:
        self.id = id
        self._value = 1 if value is None else value
        if mode == Pin.OPEN_DRAIN and id == _Bus.scl:
            _Bus.clocks = 0

    def value(self, x=None):
        if x is not None:
            if self.id == _Bus.scl and x and not self._value:
                _Bus.clock()
            self._value = x
            return None
        if self.id == _Bus.sda:
            return 0 if _Bus.stuck(registers.imu.load()) else self._value
        if self.id == _Bus.scl:
            return self._value
        return registers.valve_in.load()[36] | registers.motor_in.load()[16]


_PARTS = {
    "lsm6dsox": lambda: {0x6A: devices.Lsm6dsox()},
    "mpu6886": lambda: {0x68: devices.Mpu6886(), 0x34: devices.Axp192()},
    "valves": lambda: {0x60: devices.Mcp4728(0), 0x61: devices.Mcp4728(1), 0x48: devices.Ads7828()},
}
_parts = {}
for _name in _boot["parts"]:
    _parts.update(_PARTS[_name]())


class I2C:
    """One bus with the parts named in boot.json."""

    def __init__(self, id, *, scl, sda, freq=400000, timeout=50000) -> None:
        _Bus.scl = scl.id
        _Bus.sda = sda.id

    def scan(self):
        return sorted(_parts)

    def readfrom_mem_into(self, address, register, out) -> None:
        record = registers.imu.load()
        self._part(address, record).read(register, out, record)

    def writeto_mem(self, address, register, data) -> None:
        part = self._part(address, registers.imu.load())
        for offset, value in enumerate(data):
            part.write(register + offset, value)

    def writeto(self, address, data) -> int:
        self._part(address, registers.imu.load()).send(data)
        return len(data)

    def _part(self, address, record):
        if _Bus.stuck(record):
            raise OSError(errno.ETIMEDOUT)
        if record[devices.FAULTS] & devices.FAULT_NO_ANSWER or address not in _parts:
            raise OSError(errno.EIO)
        return _parts[address]


PWM = motors.PWM
ADC = motors.ADC


class WDT:
    """The launcher watches the count and resets the board when it stands still for too long."""

    def __init__(self, id=0, timeout=5000) -> None:
        self._timeout = timeout
        self._feeds = 0
        self.feed()

    def feed(self) -> None:
        self._feeds += 1
        registers.write(registers.WATCHDOG_AT, "<II", self._timeout, self._feeds & 0xFFFFFFFF)
