"""The drivers on a register file that is filled over USB, on the real interpreter: what is pushed is what they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.firmware.board_script import run_script

PROGRAM = """
import asyncio, json, struct
from common.i2c_bus import BusError
from strut.DRIVER import CLASS as Driver
from strut.sensor import SensorError
from strut.usb_bus import DEPTH, FAULT_NO_ANSWER, FAULT_WRONG_ID, UsbBus

def push(bus, first, count):
    for k in range(first, first + count):
        bus.file.push(memoryview(struct.pack("<7h", k, -k, 8192, 3 * k, 1, -1, 77)))

def drain(sensor):
    rows, raw = [], bytearray(14 * 8)
    while True:
        count = sensor.read(raw)
        if not count:
            return rows
        rows += [struct.unpack_from("<7h", raw, 14 * k) for k in range(count)]

async def run():
    found = {}
    bus = UsbBus("DRIVER", -5)
    push(bus, 900, 3)  # nobody has set the sensor up: it does not sample
    sensor = Driver(bus)
    await sensor.setup(4, 500)
    found["rate"] = sensor.rate_hz
    found["before"] = drain(sensor)
    push(bus, 1, 11)
    found["rows"] = drain(sensor)
    push(bus, 100, DEPTH + 4)
    late = drain(sensor)
    found["late"] = [late, sensor.overflowed, bus.file.missed]
    sensor.overflowed = False
    push(bus, 500, 2)
    found["after"] = drain(sensor)
    bus.set_faults(FAULT_NO_ANSWER)
    try:
        sensor.read(bytearray(14 * 8))
    except BusError as error:
        found["silent"] = [str(error), bus.errors]
    bus.set_faults(FAULT_WRONG_ID)
    try:
        await sensor.setup(4, 500)
    except SensorError as error:
        found["wrong"] = str(error)
    bus.set_faults(0)
    await sensor.setup(2, 250)
    push(bus, 7, 1)
    found["again"] = drain(sensor)
    try:
        bus.read(0x34, 0x78)
    except BusError:
        found["stranger"] = True
    print(json.dumps(found))

asyncio.run(run())
"""


def found(folder: Path, driver: str) -> dict[str, Any]:
    """What the program saw with this driver."""
    source = PROGRAM.replace("DRIVER", driver).replace("CLASS", driver.upper())
    result: dict[str, Any] = json.loads(run_script(folder, source).splitlines()[-1])
    return result


def rows(first: int, count: int) -> list[list[int]]:
    return [[k, -k, 8192, 3 * k, 1, -1, 77] for k in range(first, first + count)]


@pytest.mark.parametrize(("driver", "rate_hz"), [("lsm6dsox", 104.0 * (1 - 0.0015 * 5)), ("mpu6886", 1000.0 / 12)])
def test_the_driver_reads_what_came_over_usb_and_notices_what_goes_wrong(tmp_path: Path, driver: str, rate_hz: float) -> None:
    seen = found(tmp_path, driver)
    assert seen["rate"] == pytest.approx(rate_hz, rel=1e-5)  # the boards' floats are short
    assert seen["before"] == []
    assert seen["rows"] == rows(1, 11)
    late, overflowed, missed = seen["late"]
    assert overflowed and missed == 4
    assert late in (rows(104, 30), [])  # the MPU6886's driver empties a FIFO that has run over, as on the chip
    assert seen["after"] == rows(500, 2)
    assert "no answer" in seen["silent"][0] and seen["silent"][1] == 1
    assert seen["wrong"].startswith("WHO_AM_I is 0x")
    assert seen["again"] == rows(7, 1) and seen["stranger"]
