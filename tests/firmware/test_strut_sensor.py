"""Statements about a strut and its sensor: nothing lost unsaid, faults named, configuration followed."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from onboard.link.board_json import StrutConfig, encode_config
from onboard.link.wire_types import ImuFlag
from sim.boards.registers import FAULT_NO_ANSWER, FAULT_WRONG_ID
from tests.firmware.conftest import Broker, wait_until
from tests.firmware.host_ends import Listener
from tests.firmware.strut_support import PREFIX, Feed, Make, contiguous, sample_times_us, strut


def test_a_processor_that_was_busy_loses_no_sample_and_stamps_them_evenly(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 100, what="two seconds of samples")
        for _ in range(5):
            board.freeze()
            time.sleep(0.1)
            board.thaw()
            time.sleep(0.3)
        frames = listener.imu[50:]
        assert contiguous(frames)
        assert not any(frame.flags & ImuFlag.OVERFLOW for frame in frames)
        assert board.imu.setup().missed == 0
        gyro = np.concatenate([frame.raw[:, 3] for frame in frames]).astype(int)
        expected_step = 0.001 / math.radians(17.5e-3)
        steps = np.diff(gyro)
        assert np.all(np.abs(steps[steps > 0] - expected_step) <= 1)  # the feeder's ramp, sample by sample
        assert np.median(np.diff(sample_times_us(frames))) / 1e3 == pytest.approx(1000 / 104, rel=0.03)


def test_samples_that_the_fifo_could_not_hold_are_said_to_be_lost(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        listener.imu.clear()
        board.freeze()
        time.sleep(0.8)
        board.thaw()
        wait_until(lambda: any(frame.flags & ImuFlag.OVERFLOW for frame in listener.imu), what="overflow flag")
        assert board.imu.setup().missed > 20


def test_configuration_changes_batch_and_ranges_and_is_acknowledged(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker, imu={"batch": 1}))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        assert len(listener.imu[-1].raw) == 1
        before = listener.births[-1]
        listener.publish("cfg", encode_config(StrutConfig(9, batch=4, accel_range_g=16, gyro_range_dps=2000)), retain=True)
        wait_until(lambda: bool(listener.acks), what="acknowledgement")
        assert (listener.acks[-1].ok, listener.acks[-1].generation) == (True, 9)
        wait_until(lambda: listener.births[-1].accel_scale > 3 * before.accel_scale, what="birth with the new scales")
        listener.imu.clear()
        wait_until(lambda: len(listener.imu) > 10, what="samples")
        assert listener.imu[-1].config_generation == 9
        assert len(listener.imu[-1].raw) == 4
        raw = listener.imu[-1].raw[-1]
        assert raw[2] * listener.births[-1].accel_scale == pytest.approx(9.80665, abs=listener.births[-1].accel_scale)
        for wrong, word in (
            (b"{", ""),
            (b"[]", "object"),
            (b'{"generation": 10, "batch": 9}', "batch"),
            (b'{"generation": 10, "batch": true}', "batch"),
            (b'{"generation": 10, "accel_range_g": 3}', "accel_range_g"),
            (b'{"generation": 10, "speed": 3}', "speed"),
            (b'{"batch": 2}', "generation"),
        ):
            count = len(listener.acks)
            listener.publish("cfg", wrong)
            wait_until(lambda wanted=count: len(listener.acks) > wanted, what=f"answer to {wrong!r}")
            assert not listener.acks[-1].ok
            assert word in listener.acks[-1].error
        assert listener.births[-1].config_generation == 9
        board.restart()  # retained: the next boot gets it from the broker
        boot = before.boot_id
        wait_until(
            lambda: any(birth.boot_id != boot and birth.config_generation == 9 for birth in listener.births),
            what="configured again",
        )


def test_a_stuck_data_line_is_freed_by_nine_clocks(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        board.registers.stick_data_line()
        wait_until(lambda: any(frame.flags & ImuFlag.BUS_ERROR for frame in listener.imu), what="bus error said")
        listener.imu.clear()
        wait_until(lambda: len(listener.imu) > 20, what="samples go on")
        wait_until(lambda: bool(listener.healths) and listener.healths[-1].recoveries == 1, what="one recovery")
        assert listener.births[-1].sensor_fault == ""


@pytest.mark.parametrize(("bits", "words"), [(FAULT_WRONG_ID, "WHO_AM_I"), (FAULT_NO_ANSWER, "I2C")])
def test_a_wrong_or_silent_sensor_is_said_and_taken_back_when_it_heals(
    broker: Broker, boards: Make, feed: Feed, bits: int, words: str
) -> None:
    board = boards(strut(broker))
    board.registers.set_faults(bits)
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: bool(listener.births) and words in listener.births[-1].sensor_fault, what="fault in the birth")
        wait_until(lambda: bool(listener.healths) and words in listener.healths[-1].sensor_fault, what="fault in health")
        assert listener.imu == []
        board.registers.set_faults(0)
        wait_until(lambda: len(listener.imu) > 20, what="samples after healing")
        assert listener.births[-1].sensor_fault == ""
    assert board.resets == 0


def test_a_sensor_without_new_samples_is_set_up_again_and_said(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feeder = feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        feeder.paused = True
        wait_until(lambda: listener.births[-1].sensor_fault == "no samples", what="fault in the birth")
        feeder.paused = False
        listener.imu.clear()
        wait_until(lambda: len(listener.imu) > 20, what="samples again")
        assert any(frame.flags & ImuFlag.SENSOR_FAULT for frame in listener.imu[:3])


@pytest.mark.long
def test_the_other_board_type_samples_at_its_own_rate(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker, board="m5stickc_plus", imu={"batch": 8}))
    feed(board, rate_hz=1000 / 12)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 60, 20.0, "samples")
        frames = listener.imu[:]
        assert {len(frame.raw) for frame in frames} == {8}
        assert contiguous(frames)
        times = sample_times_us(frames)
        assert (len(times) - 1) / (times[-1] - times[0]) * 1e6 == pytest.approx(1000 / 12, rel=0.05)
        assert listener.births[-1].sensor == "mpu6886"
        wait_until(lambda: bool(listener.healths) and listener.healths[-1].battery_mv is not None, what="battery")
