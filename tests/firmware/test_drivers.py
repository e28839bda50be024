"""Sensor drivers against register maps: what the plant writes in SI units is what the scales make of the counts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sim.boards.jail import BoardConfig
from sim.boards.registers import FAULT_WRONG_ID, ImuRegisterFile
from tests.firmware.board_script import ScriptBoard

READ = """
import asyncio, json, struct
from main_board import open_board

async def run():
    board = open_board()
    bus = board.open_bus()
    board.power_up(bus)
    sensor = board.open_sensor(bus)
    await sensor.setup(ACCEL, GYRO)
    raw = bytearray(14 * 8)
    sensor.read(raw)
    print("ready")
    count = 0
    while not count:
        count = sensor.read(raw)
        await asyncio.sleep_ms(1)
    again = sensor.read(bytearray(14 * 8))
    print(json.dumps({"count": count, "raw": struct.unpack("<7h", raw), "accel": sensor.accel_scale, "gyro": sensor.gyro_scale,
        "temp": [sensor.temp_scale, sensor.temp_offset], "rate": sensor.rate_hz, "again": again,
        "battery": board.battery_mv(bus)}))

asyncio.run(run())
"""
CLASSES = {"nano_rp2040": "NanoRp2040", "m5stickc_plus": "M5StickCPlus"}


def program(board: str, accel: int, gyro: int) -> str:
    opened = f"from boards.{board} import {CLASSES[board]} as open_board"
    source = READ.replace("from main_board import open_board", opened)
    return source.replace("ACCEL", str(accel)).replace("GYRO", str(gyro))


LSM = [("nano_rp2040", accel, gyro) for accel, gyro in ((2, 125), (4, 250), (8, 500), (16, 1000), (4, 2000))]
MPU = [("m5stickc_plus", accel, gyro) for accel, gyro in ((2, 250), (4, 500), (8, 1000), (16, 2000))]


@pytest.mark.parametrize(("board", "accel", "gyro"), LSM + MPU)
def test_counts_times_scale_are_the_physical_values(tmp_path: Path, board: str, accel: int, gyro: int) -> None:
    config = BoardConfig("strut00", board=board)
    script = ScriptBoard(tmp_path, program(board, accel, gyro), config)
    with ImuRegisterFile(script.registers, config.sensor) as registers:
        registers.set_battery(3700)
        script.start()
        assert script.process.stdout is not None
        assert script.process.stdout.readline() == "ready\n"
        setup = registers.setup()
        assert (setup.running, setup.accel_range_g, setup.gyro_range_dps) == (True, accel, gyro)
        assert setup.rate_hz == pytest.approx(104.0 if board == "nano_rp2040" else 1000 / 12)
        wanted_a = [0.4 * accel, -0.7 * accel, 9.80665 * accel * 0.9]
        wanted_g = [0.001 * gyro, -0.0123 * gyro, 0.01 * gyro]
        time.sleep(0.05)
        registers.write_physical(5, wanted_a, wanted_g, 31.5)
        result = json.loads(script.output())
    a = [count * result["accel"] for count in result["raw"][:3]]
    g = [count * result["gyro"] for count in result["raw"][3:6]]
    assert a == pytest.approx(wanted_a, abs=0.51 * result["accel"])
    assert g == pytest.approx(wanted_g, abs=0.51 * result["gyro"])
    assert result["raw"][6] * result["temp"][0] + result["temp"][1] == pytest.approx(31.5, abs=0.01)
    assert (result["count"], result["again"]) == (1, 0)
    assert result["rate"] == pytest.approx(setup.rate_hz)
    assert result["battery"] == (None if board == "nano_rp2040" else pytest.approx(3700, abs=2))


def test_the_lsm6dsox_gyro_scale_is_the_data_sheets() -> None:
    """8.75 mdps per count at 250 dps; range / 32768 would read 12.8 % low."""
    source = (Path(__file__).parents[2] / "firmware" / "strut" / "lsm6dsox.py").read_text()
    namespace: dict[str, object] = {}
    start = source.index("GYRO = {")
    exec(source[start : source.index("}", start) + 1], namespace)
    table = namespace["GYRO"]
    assert isinstance(table, dict)
    assert {dps: scale for dps, (_, scale) in table.items()} == {125: 4.375, 250: 8.75, 500: 17.5, 1000: 35.0, 2000: 70.0}


@pytest.mark.parametrize(("board", "word"), [("nano_rp2040", "0x6b, not 0x6c"), ("m5stickc_plus", "0x68, not 0x19")])
def test_another_chip_is_refused_by_its_identity(tmp_path: Path, board: str, word: str) -> None:
    config = BoardConfig("strut00", board=board)
    script = ScriptBoard(tmp_path, program(board, 4, 500), config)
    with ImuRegisterFile(script.registers, config.sensor) as registers:
        registers.set_faults(FAULT_WRONG_ID)
        script.start()
        out, _ = script.process.communicate(timeout=20)
    assert "SensorError: WHO_AM_I is " + word in out


def test_a_range_that_the_chip_does_not_have_is_refused(tmp_path: Path) -> None:
    script = ScriptBoard(tmp_path, program("m5stickc_plus", 4, 125), BoardConfig("s", board="m5stickc_plus"))
    script.start()
    out, _ = script.process.communicate(timeout=20)
    assert "SensorError: no range of 4 g, 125 dps" in out


def test_the_rate_correction_of_the_lsm6dsox_is_read(tmp_path: Path) -> None:
    config = BoardConfig("strut00")
    script = ScriptBoard(tmp_path, program("nano_rp2040", 4, 500), config)
    with ImuRegisterFile(script.registers, config.sensor) as registers:
        registers.set_rate_correction(-20)
        script.start()
        assert script.process.stdout is not None
        script.process.stdout.readline()
        time.sleep(0.05)
        registers.write_sample(1, (0, 0, 0), (0, 0, 0), 0)
        result = json.loads(script.output())
    assert result["rate"] == pytest.approx(104.0 * 0.97)


def test_saturation_and_nan_at_the_pen(tmp_path: Path) -> None:
    config = BoardConfig("strut00")
    script = ScriptBoard(tmp_path, "", config)
    with ImuRegisterFile(script.registers, config.sensor) as registers:
        registers.write_physical(1, (1e6, -1e6, 0.0), (float("inf"), 0.0, 0.0))
        assert registers._imu[1:5] == [32767, -32768, 0, 32767]
        with pytest.raises(ValueError, match="not a number"):
            registers.write_physical(2, (float("nan"), 0.0, 0.0), (0.0, 0.0, 0.0))


TORN = """
import registers, struct, json
seen = set()
torn = 0
while len(seen) < 400:
    record = registers.imu.load()
    counter = struct.unpack_from("<I", record, 4)[0]
    if counter in seen:
        continue
    values = struct.unpack_from("<7h", record, 8)
    torn += values != tuple([counter % 30000] * 7)
    seen.add(counter)
print(json.dumps(torn))
"""


def test_no_sample_is_ever_seen_half_written(tmp_path: Path) -> None:
    config = BoardConfig("strut00")
    script = ScriptBoard(tmp_path, TORN, config)
    with ImuRegisterFile(script.registers, config.sensor) as registers:
        registers.write_sample(1, (1, 1, 1), (1, 1, 1), 1)
        script.start()
        counter = 1
        while script.process.poll() is None:
            counter += 1
            value = counter % 30000
            registers.write_sample(counter, (value,) * 3, (value,) * 3, value)
        assert json.loads(script.output()) == 0
