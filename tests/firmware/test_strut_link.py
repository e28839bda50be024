"""Statements about a strut on the network: what it says, what it survives, and that nothing it sends is wrong."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from onboard.link.board_json import StrutConfig, encode_config
from onboard.link.wire import decode_imu, encode_sync_request, ticks_difference
from onboard.link.wire_types import TICKS_PERIOD, ImuFlag, ImuFrame
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from sim.boards.registers import FAULT_NO_ANSWER, FAULT_WRONG_ID
from tests.firmware.conftest import Broker, Feeder, wait_until
from tests.firmware.host_ends import Listener
from tests.firmware.slow_broker import SlowBroker

PREFIX = "test/rig"
Make = Callable[..., VirtualBoard]
Feed = Callable[..., Feeder]


def strut(broker: Broker, **changes: object) -> BoardConfig:
    return BoardConfig("strut00", **({"prefix": PREFIX, "broker_port": broker.port, "keepalive_s": 2} | changes))  # type: ignore[arg-type]


def contiguous(frames: list[ImuFrame]) -> bool:
    """Every frame continues the sequence of the one before."""
    return all(
        later.sequence == (earlier.sequence + len(earlier.raw)) & 0xFFFFFFFF for earlier, later in itertools.pairwise(frames)
    )


def after_loss(frames: list[ImuFrame]) -> list[ImuFrame]:
    """The frames from the last one on that says that samples were lost; none when nothing was. By sequence: what a
    broker held for a session that is over comes when it likes."""
    frames = sorted(frames, key=lambda frame: frame.sequence)
    said = [index for index, frame in enumerate(frames) if frame.flags & ImuFlag.OVERFLOW]
    return frames[said[-1] :] if said else []


def sample_times_us(frames: list[ImuFrame]) -> np.ndarray:
    """Acquisition times of all samples, unwrapped, from the first frame's ticks."""
    start = frames[0].ticks_us
    offsets, last, total = [], start, 0
    for frame in frames:
        total += ticks_difference(frame.ticks_us, last)
        last = frame.ticks_us
        offsets.append(total + frame.elapsed_us)
    return np.concatenate(offsets)


def test_birth_samples_and_will_of_a_strut_whose_ticks_wrap(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker, tick_offset_us=TICKS_PERIOD - 2_500_000, drift_ppm=40))
    feed(board)
    with Listener(broker.port, PREFIX, "strut00") as listener:
        board.start()
        wait_until(lambda: len(listener.imu) > 250, 20.0, "five seconds of samples")
        birth = listener.births[-1]
        assert birth.online
        assert (birth.app, birth.board, birth.sensor, birth.sensor_fault) == ("strut", "nano_rp2040", "lsm6dsox", "")
        assert birth.reset_cause == "power_on"
        frames = listener.imu[:]
        assert all(frame.boot_id == birth.boot_id for frame in frames)
        assert contiguous(frames)
        assert birth.batch == 2
        assert np.median([len(frame.raw) for frame in frames]) == 2
        assert frames[0].ticks_us > frames[-1].ticks_us  # the wrap lies between
        times = sample_times_us(frames)
        assert np.all(np.diff(times) > 0)
        assert (len(times) - 1) / (times[-1] - times[0]) * 1e6 == pytest.approx(104.0, rel=0.05)
        raw = np.concatenate([frame.raw for frame in frames])
        assert raw[:, :3].mean(axis=0) * birth.accel_scale == pytest.approx([0.0, 0.0, 9.80665], abs=birth.accel_scale)
        assert listener.healths
        assert listener.healths[-1].samples > 0
        board.stop()
        wait_until(lambda: not listener.births[-1].online, 10.0, "last will")
        assert listener.births[-1].boot_id == birth.boot_id
    with Listener(broker.port, PREFIX, "strut00") as late:
        wait_until(lambda: bool(late.births), what="retained state")
        assert not late.births[0].online
        assert "imu" not in late.retained


def test_clock_requests_are_answered_with_receive_and_send_ticks(broker: Broker, boards: Make) -> None:
    board = boards(strut(broker, tick_offset_us=TICKS_PERIOD - 1_000_000))
    with Listener(broker.port, PREFIX, "strut00") as listener:
        board.start()
        wait_until(lambda: bool(listener.births), what="birth")
        stamps = []
        for number in range(20):
            stamps.append(time.monotonic_ns())
            listener.publish("sync/req", encode_sync_request(stamps[-1]))
            wait_until(lambda wanted=number: len(listener.syncs) > wanted, what="response")
            time.sleep(0.05)
        listener.publish("sync/req", b"\x01\x02")  # not a request: no answer, no harm
        time.sleep(0.2)
    assert [response.host_ns for response in listener.syncs] == stamps
    assert all(response.boot_id == listener.births[-1].boot_id for response in listener.syncs)
    assert all(0 <= ticks_difference(r.sent_ticks_us, r.received_ticks_us) < 50_000 for r in listener.syncs)
    board_us = ticks_difference(listener.syncs[-1].received_ticks_us, listener.syncs[0].received_ticks_us)
    assert board_us / 1e3 == pytest.approx((stamps[-1] - stamps[0]) / 1e6, abs=100.0)


def test_a_restarted_broker_gets_the_birth_again_from_the_same_boot(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        boot = listener.imu[-1].boot_id
        broker.kill()
        time.sleep(1.0)
        broker.start()
        listener.imu.clear()
        wait_until(lambda: len(listener.imu) > 20, 10.0, "samples after the restart")
        wait_until(lambda: listener.births[-1].online, what="birth again")
        assert {frame.boot_id for frame in listener.imu} == {boot}
        wait_until(lambda: bool(listener.healths) and listener.healths[-1].reconnects >= 1, what="health")
        assert listener.healths[-1].dropped > 50
    assert board.resets == 0


def test_a_frozen_broker_is_given_up_and_found_again(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        broker.freeze()
        time.sleep(4.0)
        assert "broker is silent" in board.log_path.read_text()
        broker.thaw()
        listener.imu.clear()
        wait_until(lambda: len(after_loss(listener.imu)) > 20, 20.0, "samples after the thaw")
        assert contiguous(after_loss(listener.imu))
    assert board.resets == 0


def test_without_wifi_the_strut_keeps_trying_and_comes_back(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        board.registers.set_wifi(False)
        wait_until(lambda: "WiFi is gone" in board.log_path.read_text(), what="session given up")
        listener.imu.clear()
        board.registers.set_wifi(True)
        wait_until(lambda: len(listener.imu) > 20, 20.0, "samples after the outage")
    assert board.resets == 0


def test_a_wrong_wifi_password_is_said_by_name(broker: Broker, boards: Make) -> None:
    board = boards(strut(broker, wifi_password="wrong"))
    board.start()
    wait_until(lambda: "wrong password" in board.log_path.read_text(), what="the reason on the console")


def test_a_network_that_stalls_and_goes_on_gets_whole_packets_in_order(boards: Make, feed: Feed) -> None:
    slow = SlowBroker()
    board = boards(BoardConfig("strut00", prefix=PREFIX, broker_port=slow.port, keepalive_s=60))
    feed(board)
    board.start()
    try:
        wait_until(lambda: len(slow.publishes) > 20, what="publishes")
        for _ in range(2):
            slow.stalled.set()
            time.sleep(2.0)
            slow.stalled.clear()
            count = len(slow.publishes)
            wait_until(lambda wanted=count: len(slow.publishes) > wanted + 100, what="publishes go on")
    finally:
        board.stop()
        slow.close()
    assert slow.broken == ""
    assert slow.connections == 1
    frames = [decode_imu(payload) for topic, payload in slow.publishes if topic.endswith("/imu")]
    gaps = [later for earlier, later in itertools.pairwise(frames) if not contiguous([earlier, later])]
    assert all(frame.flags & ImuFlag.OVERFLOW for frame in gaps)
    assert {topic.rsplit("/", 1)[-1] for topic, _ in slow.publishes} <= {"imu", "state", "health"}
    for topic, payload in slow.publishes:
        if not topic.endswith("/imu"):
            json.loads(payload)


def test_a_broker_that_hangs_up_every_second_is_not_flooded(boards: Make, feed: Feed) -> None:
    """What two boards with one client id do to each other: each reconnect ends the other's session."""
    rude = SlowBroker(hang_up_s=0.5)
    board = boards(BoardConfig("strut00", prefix=PREFIX, broker_port=rude.port))
    feed(board)
    board.start()
    try:
        wait_until(lambda: rude.connections >= 4, 20.0, "reconnects")
        pauses_s = [later - earlier for earlier, later in itertools.pairwise(rude.connected_s)]
        assert pauses_s == sorted(pauses_s)
        assert pauses_s[-1] > 1.2  # 0.5 s of session, then a pause that doubles each time
    finally:
        board.stop()
        rude.close()
    frames = [decode_imu(payload) for topic, payload in rude.publishes if topic.endswith("/imu")]
    gaps = [later for earlier, later in itertools.pairwise(frames) if not contiguous([earlier, later])]
    assert any(frame.flags & ImuFlag.OVERFLOW for frame in gaps)  # what the ring could not hold is said
    births = [json.loads(payload) for topic, payload in rude.publishes if topic.endswith("/state")]
    assert len({birth["boot_id"] for birth in births}) == 1
    assert len(births) >= 3
    assert board.resets == 0


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
def test_a_hung_strut_is_reset_by_its_watchdog(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    board.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, what="samples")
        wait_until(lambda: board.registers.watchdog()[0] == 8000, what="watchdog started")
        boot = listener.imu[-1].boot_id
        board.freeze()
        wait_until(lambda: board.resets == 1, 15.0, "watchdog reset")
        wait_until(lambda: listener.births[-1].online and listener.births[-1].boot_id != boot, 10.0, "a new boot")
        assert listener.births[-1].reset_cause == "watchdog"


@pytest.mark.long
def test_retrying_for_long_without_a_broker_is_no_reason_for_a_reset(broker: Broker, boards: Make, feed: Feed) -> None:
    board = boards(strut(broker))
    feed(board)
    broker.kill()
    board.start()
    time.sleep(25.0)
    assert board.resets == 0
    broker.start()
    with Listener(broker.port, PREFIX, "strut00") as listener:
        wait_until(lambda: len(listener.imu) > 20, 15.0, "samples once the broker is there")


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
