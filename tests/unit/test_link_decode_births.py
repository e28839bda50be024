"""Births, reboots and boards under the wrong name: whose data are taken, and by which scales they are read."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from onboard.link.decode import Decoder
from tests.link_support import ACCEL_SCALE, Board, birth, robot
from tests.unit.decode_support import feed, started


def test_nothing_is_accepted_before_a_birth() -> None:
    decoder, board = Decoder(robot()), Board()
    assert feed(decoder, board, 12.0) is None
    assert decoder.status(0).refused == {"unborn": 1}
    decoder.packet(0, "state", birth(), 12.1)
    assert feed(decoder, board, 12.2) is not None


def test_a_birth_is_wanted_when_data_cannot_be_read_without_it() -> None:
    decoder, board = started()
    assert not decoder.birth_wanted(0)
    other = Board(boot_id=8, started_s=12.0)
    decoder.packet(0, "imu", other.imu(12.1), 12.12)
    assert decoder.birth_wanted(0)
    decoder.packet(0, "state", birth(boot_id=8), 12.2)
    assert not decoder.birth_wanted(0)
    decoder.packet(0, "imu", board.imu(12.1), 12.3)  # an earlier boot's last words
    assert not decoder.birth_wanted(0)
    decoder.packet(0, "state", birth(boot_id=8, config_generation=4), 12.4)
    assert feed(decoder, other, 12.5) is None and decoder.birth_wanted(0)  # sent with generation 0


@pytest.mark.parametrize("bad", [b"", b"{", b"\xff", birth(v=2), birth(sensor="mpu6886"), birth(strut=1)])
def test_after_a_birth_that_is_no_use_a_better_one_is_wanted_and_puts_things_right(bad: bytes) -> None:
    decoder, board = started()
    decoder.packet(0, "state", bad, 12.0)
    assert decoder.birth_wanted(0) and list(decoder.problems()) == ["strut00"]
    decoder.packet(0, "state", birth(), 12.1)
    assert not decoder.birth_wanted(0) and decoder.problems() == {}
    assert feed(decoder, board, 12.2) is not None


def test_a_reboot_starts_sequence_and_clock_anew() -> None:
    decoder, old = started()
    feed(decoder, old, 12.0)
    new = Board(boot_id=8, started_s=12.5)
    assert decoder.packet(0, "imu", new.imu(13.0), 13.02) is None  # scales of this boot are not known yet
    decoder.packet(0, "state", birth(boot_id=8), 13.03)
    batch = feed(decoder, new, 13.1)
    assert batch is not None and batch.t_s[-1] == pytest.approx(13.1, abs=0.01)
    assert decoder.packet(0, "imu", old.imu(13.1), 13.12) is None  # what the old boot still had on its way
    status = decoder.status(0)
    assert status.boots == 2 and not status.two_boards and status.lost == 0


def test_two_boards_under_one_name_are_called_by_that() -> None:
    decoder = Decoder(robot())
    for k in range(4):
        decoder.packet(0, "state", birth(boot_id=7 + k % 2), 10.0 + k)
    status = decoder.status(0)
    assert status.two_boards and status.boots == 2
    assert "two boards" in status.problem and "strut00" in status.problem


def test_two_boards_that_send_side_by_side_are_called_by_that_until_one_goes() -> None:
    decoder, first = started()
    second = Board(boot_id=8, started_s=2.0)
    decoder.packet(0, "state", birth(boot_id=8), 12.0)
    for k in range(100):
        feed(decoder, first, 12.1 + 0.02 * k)
        assert feed(decoder, second, 12.1 + 0.02 * k) is not None
    assert decoder.status(0).two_boards
    for k in range(700):
        feed(decoder, second, 14.1 + 0.02 * k)
    assert not decoder.status(0).two_boards


def test_what_was_on_its_way_at_a_reboot_is_no_second_board() -> None:
    decoder, old = started()
    decoder.packet(0, "state", birth(boot_id=8), 12.0)
    for k in range(20):
        feed(decoder, old, 11.9 + 0.005 * k)
    assert not decoder.status(0).two_boards


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("accel_scale", 0.0),
        ("accel_scale", -ACCEL_SCALE),
        ("accel_scale", 1.0),
        ("accel_scale", 1e-12),
        ("gyro_scale", 0.0175),  # degrees where radians belong
        ("gyro_scale", 0.0),
        ("sensor", "mpu6886"),
        ("app", "valve"),
        ("name", "strut01"),
        ("v", 2),
    ],
)
def test_a_birth_that_does_not_fit_stops_the_strut(field: str, value: object) -> None:
    decoder, board = started()
    assert feed(decoder, board, 12.0) is not None
    decoder.packet(0, "state", birth(**{field: value}), 12.01)
    if field in ("name", "v"):  # not this strut's words: what is known of it stays
        assert feed(decoder, board, 12.1) is not None
    else:
        assert feed(decoder, board, 12.1) is None
    assert decoder.status(0).problem


@pytest.mark.parametrize("text", [b"NaN", b"1e999", b"null", b'"1"', b"true"])
def test_a_scale_that_is_no_number_never_reaches_a_sample(text: bytes) -> None:
    decoder, board = started()
    good = birth(accel_scale=0.125)
    assert b"0.125" in good
    decoder.packet(0, "state", good.replace(b"0.125", text), 12.0)
    batch = feed(decoder, board, 12.1)
    assert batch is None or np.isfinite(batch.acceleration_m_s2).all()
    status = decoder.status(0)
    assert sum(status.refused.values()) >= 1 and status.problem


def test_a_will_after_the_birth_does_not_silence_a_board_that_talks() -> None:
    decoder, board = started()
    will = msgspec.json.encode({"v": 1, "online": False, "boot_id": 7, "name": "strut00"})
    decoder.packet(0, "state", will, 11.0)
    assert not decoder.status(0).online
    assert feed(decoder, board, 12.0) is not None
    assert decoder.status(0).online
    decoder.packet(0, "state", will.replace(b"7", b"6"), 12.1)  # an older boot's
    assert decoder.status(0).online


def test_a_change_of_ranges_takes_effect_with_its_birth_only() -> None:
    decoder, board = started()
    packet = bytearray(board.imu(12.0))
    packet[3] = 9  # configuration generation
    assert decoder.packet(0, "imu", bytes(packet), 12.02) is None
    decoder.packet(0, "state", birth(config_generation=9, accel_scale=2 * ACCEL_SCALE), 12.03)
    batch = decoder.packet(0, "imu", bytes(packet), 12.04)
    assert batch is not None and batch.acceleration_m_s2[0, 2] == pytest.approx(2 * 9.80665)
