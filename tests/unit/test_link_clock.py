"""Board clocks: the least round trip of eight and a line find offset and drift; restarts and wraps are survived."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.link.board_time import ASSUMED_LATENCY_S, STEP_S, BoardTime
from onboard.link.clock_sync import BLOCK, ClockSync, SyncSchedule
from onboard.link.wire import decode_sync_response
from onboard.link.wire_types import TICKS_MASK, TICKS_PERIOD
from tests.link_support import Board


def exchange(sync: ClockSync, board: Board, asked_s: float, rng: np.random.Generator, mean_s: float = 0.002) -> bool:
    """One exchange with exponential delays each way, as on a busy network."""
    heard = asked_s + 0.0002 + rng.exponential(mean_s)
    answered = heard + rng.uniform(0.0001, 0.002)
    received = answered + 0.0002 + rng.exponential(mean_s)
    return sync.add(decode_sync_response(board.sync(asked_s, heard, answered)), received)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drift", [-40e-6, 0.0, 36e-6, 120e-6])
def test_offset_and_drift_are_found_under_jitter(seed: int, drift: float) -> None:
    rng, sync = np.random.default_rng(seed), ClockSync()
    board = Board(started_s=100.0, drift=drift, ticks0=TICKS_PERIOD - 30_000_000)  # wraps after 30 s
    errors = []
    for second in range(200):
        exchange(sync, board, 200.0 + second, rng)
        if second > 60:
            now = 200.9 + second
            errors.append(abs(sync.to_host_s(sync.unwrap(board.ticks(now) & TICKS_MASK, now)) - now))
    assert max(errors) < 0.6e-3  # the least of eight round trips with 2 ms mean delay each way
    assert np.mean(errors) < 0.2e-3
    assert sync.drift_ppm == pytest.approx(drift * 1e6, abs=10.0)


def test_unwrapping_takes_no_part_in_the_host_offset() -> None:
    """Both ways round: ticks at a host time, and the host time of those ticks."""
    rng, sync, board = np.random.default_rng(0), ClockSync(), Board(started_s=5.0, ticks0=TICKS_PERIOD - 1000, drift=20e-6)
    for second in range(40):
        exchange(sync, board, 10.0 + second, rng, mean_s=1e-4)
    assert abs(sync.to_ticks(60.0) - (board.ticks(60.0) & TICKS_MASK)) < 200


@pytest.mark.parametrize("silence_s", [0.5, 300.0, 536.0, 537.0, 900.0, 1100.0, 5000.0])
def test_ticks_are_unwrapped_across_any_silence(silence_s: float) -> None:
    sync, board = ClockSync(), Board(drift=50e-6, ticks0=TICKS_PERIOD - 400_000)
    first = sync.unwrap(board.ticks(1.0) & TICKS_MASK, 1.003)
    later = sync.unwrap(board.ticks(1.0 + silence_s) & TICKS_MASK, 1.003 + silence_s)
    assert later - first == board.ticks(1.0 + silence_s) - board.ticks(1.0)


def test_a_late_packet_unwraps_to_its_own_past() -> None:
    sync, board = ClockSync(), Board(ticks0=TICKS_PERIOD - 1_000_000)
    new = sync.unwrap(board.ticks(3.0) & TICKS_MASK, 3.0)
    assert sync.unwrap(board.ticks(0.5) & TICKS_MASK, 3.1) - new == -2_500_000


def test_slow_wrong_and_backward_exchanges_are_refused() -> None:
    sync, board = ClockSync(), Board()
    for asked, heard, answered, received in ((1.0, 1.3, 1.31, 1.7), (1.0, 1.1, 1.05, 1.2), (9.0, 1.1, 1.1, 1.2)):
        assert not sync.add(decode_sync_response(board.sync(asked, heard, answered)), received)
    assert sync.refused == 3
    assert not sync.ready


def test_a_restart_forgets_the_old_boot() -> None:
    rng, sync = np.random.default_rng(1), ClockSync()
    for second in range(20):
        exchange(sync, Board(), 10.0 + second, rng)
    assert sync.ready
    sync.restart()
    assert not sync.ready
    reborn = Board(started_s=30.0)
    for second in range(BLOCK):
        exchange(sync, reborn, 31.0 + second, rng)
    assert sync.to_host_s(reborn.ticks(39.0)) == pytest.approx(39.0, abs=2e-3)


def test_a_clock_that_jumps_within_a_boot_is_noticed() -> None:
    rng, sync, board = np.random.default_rng(2), ClockSync(), Board()
    for second in range(64):
        exchange(sync, board, 10.0 + second, rng)
    board.started_s -= 0.3
    for second in range(BLOCK):
        exchange(sync, board, 74.0 + second, rng)
    assert sync.to_host_s(board.ticks(83.0)) == pytest.approx(83.0, abs=3e-3)


def test_before_synchronisation_the_fastest_arrival_stands_for_the_offset() -> None:
    rng, time, board = np.random.default_rng(3), BoardTime(), Board(started_s=2.0)
    errors = []
    for k in range(200):
        sent = 3.0 + 0.02 * k
        received = sent + 0.003 + rng.exponential(0.004)
        errors.append(time.host_s(time.sync.unwrap(board.ticks(sent), received), received) - sent)
    assert not time.synchronised
    assert abs(errors[-1] - (0.003 - ASSUMED_LATENCY_S)) < 2e-3
    late = time.host_s(time.sync.unwrap(board.ticks(5.0), 8.0), 8.0)
    assert late == pytest.approx(5.0, abs=0.01)  # a burst of old data is known to be old


def test_corrections_never_stretch_time_by_more_than_two_percent() -> None:
    rng, time, board = np.random.default_rng(4), BoardTime(), Board(drift=100e-6)
    last, steps = None, time.steps
    for k in range(4000):
        sent = 10.0 + 0.01 * k
        if k % 20 == 0:
            exchange(time.sync, board, sent, rng)
        host = time.host_s(time.sync.unwrap(board.ticks(sent) & TICKS_MASK, sent + 0.002), sent + 0.002)
        if last is not None and time.steps == steps:
            assert 0.0095 < host - last < 0.0105
        last, steps = host, time.steps
    assert time.steps == 1  # when synchronisation took over
    assert abs(host - sent) < STEP_S


def test_boards_take_turns_and_new_ones_are_asked_often() -> None:
    schedule, asked = SyncSchedule(4, 1.0), [0, 0, 0, 0]
    longest = 0
    for step in range(500):  # 10 s
        new = 2 if step < 250 else None
        chosen = schedule.due(50.0 + 0.02 * step, lambda board, new=new: 0.1 if board == new else 1.0)
        longest = max(longest, len(chosen))
        for board in chosen:
            asked[board] += 1
    assert asked[0] in (10, 11) and asked[1] == asked[3] == 10
    assert 45 <= asked[2] <= 60
    assert longest <= 2


def test_a_stall_of_the_host_is_not_made_up_for() -> None:
    schedule = SyncSchedule(1, 1.0)
    schedule.due(0.0, lambda _: 1.0)
    assert schedule.due(30.0, lambda _: 1.0) == [0]
    assert schedule.due(30.02, lambda _: 1.0) == []


def test_no_message_arrives_before_it_was_stamped() -> None:
    """All delay on the way back: the middle of the exchange is then wrong by half the round trip, arrivals tell."""
    time, board = BoardTime(), Board(started_s=2.0)
    for k in range(BLOCK):
        asked = 3.0 + 0.1 * k
        time.sync.add(decode_sync_response(board.sync(asked, asked + 0.0004, asked + 0.0005)), asked + 0.0605)
    assert time.synchronised
    for k in range(100):
        sent = 5.0 + 0.02 * k
        host = time.host_s(time.sync.unwrap(board.ticks(sent), sent + 0.0004), sent + 0.0004)
    assert host == pytest.approx(sent, abs=2e-3)
