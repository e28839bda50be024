"""What the link makes of packets: good ones become batches in SI units and host time, the others are refused and counted."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from onboard.link.decode import Decoder
from onboard.link.wire_types import TICKS_PERIOD, ImuFlag
from onboard.messages import SensorFlag
from tests.link_support import Board, birth, robot
from tests.unit.decode_support import feed, started, synchronise


def test_a_packet_becomes_a_batch_in_si_units_and_host_time() -> None:
    decoder, board = started(drift=30e-6)
    batch = feed(decoder, board, 12.0)
    assert batch is not None
    assert batch.t_s == pytest.approx([12.0 - 0.0096, 12.0], abs=1e-3)
    assert batch.acceleration_m_s2[0] == pytest.approx([0.0, 0.0, 9.80665], rel=1e-9)
    assert batch.rate_rad_s[1] == pytest.approx(np.radians(0.0175) * np.array([10, -20, 30]))
    assert batch.temperature_c == pytest.approx(26.0)
    assert batch.flags == SensorFlag.NONE
    assert not batch.t_s.flags.writeable


def test_gaps_are_counted_and_duplicates_refused() -> None:
    decoder, board = started()
    first = board.imu(12.0)
    assert decoder.packet(0, "imu", first, 12.02) is not None
    assert decoder.packet(0, "imu", first, 12.021) is None
    board.sequence += 6
    assert feed(decoder, board, 12.1) is not None
    status = decoder.status(0)
    assert (status.lost, status.refused["duplicate"], status.samples) == (6, 1, 4)


def test_a_sequence_wraps_without_a_loss() -> None:
    decoder, board = started()
    board.sequence = 2**32 - 2
    for k in range(3):
        assert feed(decoder, board, 12.0 + 0.02 * k) is not None
        board.sequence %= 2**32
    assert decoder.status(0).lost == 0


def test_ticks_wrap_without_a_jump_in_time() -> None:
    decoder, board = started(ticks0=TICKS_PERIOD - 12_010_000)  # wraps at 12.01 s
    times = [feed(decoder, board, 11.9 + 0.02 * k).t_s for k in range(20)]
    assert np.all(np.abs(np.diff(np.concatenate(times))) < 0.012)
    assert times[-1][-1] == pytest.approx(11.9 + 0.38, abs=1e-3)


def test_the_age_of_the_sample_counts_not_its_arrival() -> None:
    decoder, board = started()
    assert feed(decoder, board, 12.0) is not None
    held = [board.imu(12.0 + 0.02 * k) for k in range(1, 60)]
    burst = [decoder.packet(0, "imu", packet, 13.2 + 1e-4 * k) for k, packet in enumerate(held)]
    accepted = [batch for batch in burst if batch is not None]
    assert all(batch.received_s - batch.t_s[-1] <= 0.15 for batch in accepted)
    assert 1 <= len(accepted) <= 8  # only what is still young enough
    assert burst[-1] is not None
    assert decoder.status(0).refused["stale"] == 59 - len(accepted)
    assert decoder.status(0).lost == 0


def test_a_burst_is_known_to_be_old_even_before_synchronisation() -> None:
    decoder, board = Decoder(robot()), Board()
    decoder.packet(0, "state", birth(), 10.0)
    for k in range(20):
        assert feed(decoder, board, 10.1 + 0.02 * k) is not None
    held = [board.imu(10.5 + 0.02 * k) for k in range(20)]
    assert all(decoder.packet(0, "imu", packet, 12.0) is None for packet in held)
    assert not decoder.status(0).synchronised


def test_samples_say_whether_their_boards_clock_is_known() -> None:
    decoder, board = Decoder(robot()), Board()
    decoder.packet(0, "state", birth(), 10.0)
    early = feed(decoder, board, 10.1)
    assert early is not None and early.flags == SensorFlag.UNSYNCHRONISED
    synchronise(decoder, board, 10.2)
    late = feed(decoder, board, 11.2)
    assert late is not None and late.flags == SensorFlag.NONE
    rebooted = Board(boot_id=8, started_s=12.0)
    decoder.packet(0, "state", birth(boot_id=8), 12.1)
    again = feed(decoder, rebooted, 12.2)
    assert again is not None and again.flags == SensorFlag.UNSYNCHRONISED


def test_a_backlog_that_seems_fresh_is_marked_until_the_clock_says_how_old_it_is() -> None:
    decoder, board = Decoder(robot()), Board()
    decoder.packet(0, "state", birth(), 12.0)
    held = [board.imu(10.0 + 0.0192 * k) for k in range(16)]  # 2 s old, and nothing to compare with
    seen = [decoder.packet(0, "imu", packet, 12.0) for packet in held]
    assert all(batch is None or batch.flags & SensorFlag.UNSYNCHRONISED for batch in seen)
    synchronise(decoder, board, 12.01)
    later = [board.imu(10.5 + 0.0192 * k) for k in range(16)]
    assert all(decoder.packet(0, "imu", packet, 12.9) is None for packet in later)
    assert decoder.status(0).refused["stale"] >= 16
    assert feed(decoder, board, 13.0) is not None


def test_bad_data_are_counted_and_no_problem_for_a_person() -> None:
    decoder, _ = started()
    for kind in ("imu", "health", "cfg/ack", "sync/rsp", "no such kind"):
        decoder.packet(0, kind, b"\x01\x02", 12.0)
    assert decoder.status(0).refused["malformed"] == 5
    assert decoder.problems() == {} and not decoder.birth_wanted(0)


def test_wrong_version_length_content_and_kind_are_refused() -> None:
    decoder, board = started()
    good = board.imu(12.0)
    bad = [b"", good[:1], good[:15], good[:-1], good + b"\0", b"\x02" + good[1:], good[:1] + b"\0" + good[2:], bytes(10_000)]
    equal_times = good[:32] + struct.pack("<H", 0) + good[34:]
    for packet in [*bad, equal_times]:
        assert decoder.packet(0, "imu", packet, 12.02) is None
    for kind in ("state", "health", "cfg/ack", "sync/rsp", "nonsense"):
        for payload in (b"", b"{", b"\xff\xfe", b"[]", b'{"v":1}', b"\0" * 40):
            assert decoder.packet(0, kind, payload, 12.02) is None
    refused = decoder.status(0).refused
    assert refused["malformed"] == len(bad) + 1 + 5 * 6
    assert decoder.packet(0, "imu", good, 12.02) is not None


def test_strangers_are_counted() -> None:
    decoder = Decoder(robot())
    for strut in (-1, 20, 1000):
        assert decoder.packet(strut, "imu", Board().imu(1.0), 1.0) is None
    assert decoder.strangers == 3 and decoder.refused_total == 3


def test_saturation_and_bus_errors_are_flagged() -> None:
    decoder, board = started()
    raw = np.array([[0, 0, 8192, 32767, 0, 0, 0]], dtype=np.int16)
    batch = decoder.packet(0, "imu", board.imu(12.0, 1, raw), 12.003)
    assert batch is not None and batch.flags == SensorFlag.SATURATED
    batch = decoder.packet(0, "imu", board.imu(12.1, 2, flags=ImuFlag.BUS_ERROR), 12.12)
    assert batch is not None and batch.flags == SensorFlag.BUS_ERROR


def test_one_damaged_frame_does_not_put_the_sequence_out_of_reach() -> None:
    decoder, board = started()
    feed(decoder, board, 12.0)
    true, board.sequence = board.sequence, 1_000_000_000
    feed(decoder, board, 12.02)
    board.sequence = true
    accepted = [feed(decoder, board, 12.04 + 0.02 * k) is not None for k in range(40)]
    assert not accepted[0] and all(accepted[25:])


def test_a_sample_from_the_future_is_refused_and_moves_nothing() -> None:
    decoder, board = started()
    assert decoder.packet(0, "imu", board.imu(13.0), 12.0) is None
    board.sequence = 0
    assert feed(decoder, board, 12.05) is not None
    assert decoder.status(0).refused == {"future": 1}


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_every_lost_sample_is_counted_up_to_sixty_percent(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    decoder, board = started()
    arrived = lost = 0
    for k in range(600):
        packet, gone = board.imu(12.0 + 0.02 * k), rng.random() < share
        if k in (0, 599):
            gone = False
        lost += 2 * gone
        if gone:
            continue
        for _ in range(1 + (rng.random() < 0.2)):  # and a fifth of the rest come twice
            arrived += decoder.packet(0, "imu", packet, 12.02 + 0.02 * k) is not None
    status = decoder.status(0)
    assert (status.lost, status.samples) == (lost, 2 * arrived)
    assert status.lost + status.samples == board.sequence


@pytest.mark.parametrize("seed", range(4))
def test_the_same_packets_give_the_same_bits(seed: int) -> None:
    """Noise, losses, duplicates, reboots and clock exchanges: a replay must not differ in a single bit."""

    def stream() -> list[tuple[int, str, bytes, float]]:
        rng = np.random.default_rng(seed)
        boards = [Board(boot_id=10 + s, started_s=1.0 + s, drift=1e-5 * s) for s in range(4)]
        packets: list[tuple[int, str, bytes, float]] = [(s, "state", birth(s, 10 + s), 9.0) for s in range(4)]
        for k in range(400):
            s, now = int(rng.integers(4)), 10.0 + 0.005 * k
            arrival = now + 0.001 + rng.exponential(0.01)
            if rng.random() < 0.1:
                packets.append((s, "sync/rsp", boards[s].sync(now - 0.01, now - 0.004, now - 0.003), arrival))
            elif rng.random() < 0.005:
                boards[s] = Board(boot_id=100 + k, started_s=now)
                packets.append((s, "state", birth(s, 100 + k), arrival))
            else:
                packets.extend([(s, "imu", boards[s].imu(now - 0.01), arrival)] * int(rng.integers(0, 3)))
        return sorted(packets, key=lambda item: item[3])

    def run() -> list[bytes]:
        decoder = Decoder(robot())
        out = [decoder.packet(*item) for item in stream()]
        assert sum(batch is not None for batch in out) > 100
        return [b"" if batch is None else batch.t_s.tobytes() + batch.acceleration_m_s2.tobytes() for batch in out]

    assert run() == run()
