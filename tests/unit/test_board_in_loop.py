"""Frames to a strut never interrupt it; latencies are those of the samples; only the expected source is let through."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.cli.main import main
from onboard.errors import UsageError, WireError
from onboard.link.board_json import Birth
from onboard.link.sample_source import SampleSource
from onboard.link.serial_frame import FrameReader, encode_frame
from onboard.link.wire import encode_imu
from onboard.link.wire_types import ImuFlag, ImuFrame, MessageType
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.usb import frames
from sim.usb.latency import SKIP_S, BoardLatency, added

RIG = load_robot(robot_file("module_rig"))


def opened(kind: MessageType, payload: bytes) -> bytes:
    """The payload under its mask, after the way over the line; the line must not see an interrupt."""
    frame = encode_frame(kind, payload)
    assert frames.INTERRUPT not in frame
    (got,) = FrameReader().feed(frame)
    assert got.kind == kind
    return bytes(byte ^ got.payload[0] for byte in got.payload[1:])


@given(st.integers(0, 2**32 - 1), st.binary(min_size=14, max_size=14))
def test_no_sample_interrupts_a_strut(counter: int, raw: bytes) -> None:
    plain = opened(MessageType.BUS_SAMPLES, frames.samples(counter, raw))
    assert plain == bytes([1]) + counter.to_bytes(4, "little") + raw


@given(st.integers(0, 2**32 - 1), st.integers(-128, 127))
def test_no_beginning_interrupts_a_strut(token: int, steps: int) -> None:
    plain = opened(MessageType.BUS_BEGIN, frames.begin(token, steps))
    assert plain == bytes([frames.VERSION, steps & 0xFF]) + token.to_bytes(4, "little")


@given(st.integers(0, 2**64 - 1))
def test_no_clock_request_interrupts_a_strut_and_its_token_is_told(token: int) -> None:
    wanted, payload = frames.sync_request(token)
    assert frames.INTERRUPT not in encode_frame(MessageType.SYNC_REQUEST, payload)
    assert payload[4:] == wanted.to_bytes(8, "little") and len(payload) == 12


def test_faults_hello_and_end_do_not_either() -> None:
    assert [opened(MessageType.BUS_FAULTS, frames.faults(bits)) for bits in range(4)] == [bytes([bits]) for bits in range(4)]
    for kind in (MessageType.HELLO, MessageType.BUS_END):
        assert frames.INTERRUPT not in encode_frame(kind, b"")


@pytest.mark.parametrize("payload", [b"", b"{}", b"[1]", b'{"token": 1, "fed": "yes", "problem": "", "boot_id": 1}', b"\xff"])
def test_a_broken_word_of_a_board_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        frames.decode_state(payload)
    with pytest.raises(WireError):
        frames.decode_report(payload + b"x")


def sample(number: int) -> np.ndarray:
    return np.array([number, -number, 8192, 1, 2, 3, 40], dtype=np.int16)


def frame(*numbers: int) -> bytes:
    raw = np.array([sample(number) for number in numbers])
    elapsed = np.arange(len(numbers), dtype=np.int64) * 9600
    return encode_imu(ImuFrame(1, numbers[0], 0, ImuFlag(0), 0, elapsed, raw))


def test_a_sample_is_timed_from_the_plant_to_its_packet() -> None:
    fed, virtual = BoardLatency(fed=True), BoardLatency(fed=False)
    for number in range(600):
        t_s = number * 0.01
        fed.taken(t_s, number, sample(number).tobytes())
        virtual.taken(t_s, number, sample(number).tobytes())
        fed.registered(number, t_s + 0.001)
        if number % 2:  # a batch of two: the older waits for the newer
            fed.packet(frame(number - 1, number), t_s + 0.005)
            virtual.packet(frame(number - 1, number), t_s + 0.002)
    counted = 600 - round(SKIP_S / 0.01)
    assert abs(len(fed.total_s) - counted) <= 1 and len(virtual.total_s) == len(fed.total_s)
    assert np.unique(np.round(fed.total_s, 6)).tolist() == [0.005, 0.015]
    assert np.unique(np.round(fed.to_register_s, 6)).tolist() == [0.001]
    assert np.unique(np.round(fed.to_packet_s, 6)).tolist() == [0.004, 0.014]
    assert added([fed], [virtual])["added_p50_ms"] == pytest.approx(3.0, abs=0.01)
    assert fed.figures()["register_p50_ms"] == 1.0 and fed.lost == 0


def test_without_samples_nothing_is_claimed() -> None:
    assert added([BoardLatency(fed=True)], [BoardLatency(fed=False)])["added_p50_ms"] is None
    assert BoardLatency(fed=True).figures()["packet_p50_ms"] is None


def birth(bus: str, online: bool = True) -> bytes:
    return msgspec.json.encode(Birth(v=1, online=online, boot_id=1, name="strut01", bus=bus))


def test_a_strut_that_a_simulation_feeds_is_left_out_by_a_daemon_that_does_not_expect_that() -> None:
    gate = SampleSource(RIG)
    assert gate.admits(1, "state", birth("i2c")) and gate.admits(1, "imu", b"")
    assert not gate.admits(1, "state", birth("usb"))
    assert not gate.admits(1, "imu", b"") and gate.admits(0, "imu", b"")
    assert not gate.admits(1, "state", birth("i2c", online=False))  # a last will says nothing of the source
    assert gate.admits(1, "state", birth("i2c")) and gate.admits(1, "imu", b"")


def test_a_strut_that_should_be_fed_is_left_out_on_its_own_sensor() -> None:
    gate = SampleSource(RIG, ["strut01"])
    assert not gate.admits(1, "state", birth("i2c")) and not gate.admits(1, "imu", b"")
    assert gate.admits(1, "state", birth("usb")) and gate.admits(1, "imu", b"")
    assert gate.admits(1, "state", b"no birth")  # the decoder refuses that


def test_a_fed_strut_that_the_robot_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="--fed strut77"):
        SampleSource(RIG, ["strut77"])


@pytest.mark.parametrize(
    ("boards", "said"),
    [
        (["strut99=/dev/x"], "has no strut 'strut99'; it has strut00 .. strut03"),
        (["strut00=/dev/x", "strut00=/dev/y"], "strut00 is given twice"),
        (["strut00=/dev/x", "strut01=/dev/x"], "/dev/x is given twice"),
        (["strut00"], "write STRUT=PORT"),
        (["strut00="], "write STRUT=PORT"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(boards: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for board in boards for word in ("--board", board)]
    for verb in ("sim", "run"):
        assert main([verb, "module_rig", "--broker", "mqtt://127.0.0.1:1", *words]) == 2
        assert said in capsys.readouterr().err


def test_only_struts_are_fed_and_a_broker_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "manipulator", "--broker", "mqtt://h", "--board", "valve0=/dev/x"]) == 2
    assert "valve0 is an actuator board" in capsys.readouterr().err
    for verb in ("sim", "run"):
        assert main([verb, "module_rig", "--board", "strut00=/dev/x"]) == 2
        assert "needs the broker that the board was flashed for" in capsys.readouterr().err
    assert main(["run", "module_rig", "--hardware", "--board", "strut00=/dev/x"]) == 2
