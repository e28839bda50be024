"""Statements about a strut on the network: what it says and what it survives."""

from __future__ import annotations

import itertools
import json
import time

import numpy as np
import pytest

from onboard.link.wire import decode_imu, encode_sync_request, ticks_difference
from onboard.link.wire_types import TICKS_PERIOD, ImuFlag
from sim.boards.jail import BoardConfig
from tests.firmware.conftest import Broker, wait_until
from tests.firmware.host_ends import Listener
from tests.firmware.slow_broker import SlowBroker
from tests.firmware.strut_support import PREFIX, Feed, Make, after_loss, contiguous, sample_times_us, strut


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
