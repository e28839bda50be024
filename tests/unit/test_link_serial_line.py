"""The serial port: partial writes keep their rest, the newest command wins, a stop goes first, unplugging is noticed."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from onboard.clock import SimulatedClock
from onboard.link.serial_frame import FrameReader, SerialFrame, encode_frame
from onboard.link.serial_line import QUEUE, STALL_S, SerialLine
from onboard.link.wire_types import MessageType
from tests.link_support import until


@dataclass
class Wire:
    """Both ends of a pseudo-terminal, and what the line's owner was told."""

    master: int
    slave: int
    line: SerialLine
    clock: SimulatedClock
    frames: list[SerialFrame]
    lost: list[str]
    reader: FrameReader

    def read(self) -> list[SerialFrame]:
        """All frames that have reached the board's end."""
        try:
            return self.reader.feed(os.read(self.master, 1 << 20))
        except BlockingIOError:
            return []


@pytest.fixture
def wire() -> Iterator[Wire]:
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    frames: list[SerialFrame] = []
    lost: list[str] = []
    clock = SimulatedClock(1.0)
    line = SerialLine(os.ttyname(slave), clock, lambda frame, _: frames.append(frame), lost.append)
    wired = Wire(master, slave, line, clock, frames, lost, FrameReader())
    yield wired
    for end in (wired.master, wired.slave):
        if end >= 0:
            os.close(end)


async def choke(wire: Wire) -> int:
    """Fill the line until it takes no more; how many frames of 900 bytes that took.

    The kernel moves bytes between a pty's two buffers in its own time: full means full for a while.
    """
    sent, full = 0, 0
    while full < 20:
        before = len(wire.line._begun)
        if before:
            wire.line._write()
            full = full + 1 if len(wire.line._begun) == before else 0
            await asyncio.sleep(0.01)
        else:
            full = 0
            wire.line.send(MessageType.HEALTH, bytes([sent % 256]) * 900)
            sent += 1
    return sent


def test_a_full_line_keeps_the_rest_of_a_frame_and_loses_none(wire: Wire) -> None:
    async def scenario() -> None:
        assert wire.line.open() == ""
        sent = await choke(wire)
        for k in range(10):
            wire.line.send(MessageType.CONFIG, bytes([k]) * 300)
        got: list[SerialFrame] = []
        while len(got) < sent + 10:
            got += wire.read()
            await asyncio.sleep(0.001)
        assert [frame.payload for frame in got[:sent]] == [bytes([k % 256]) * 900 for k in range(sent)]
        assert [frame.payload for frame in got[sent:]] == [bytes([k]) * 300 for k in range(10)]
        assert wire.reader.crc_errors == 0 and wire.line.dropped == 0
        wire.line.close()

    asyncio.run(scenario())


def test_behind_a_slow_line_only_the_newest_command_waits(wire: Wire) -> None:
    async def scenario() -> None:
        wire.line.open()
        sent = await choke(wire)
        for k in range(50):
            wire.line.send(MessageType.COMMAND, bytes([k]), "command")
        assert wire.line.replaced == 49
        got: list[SerialFrame] = []
        while len(got) < sent + 1:
            got += wire.read()
            await asyncio.sleep(0.001)
        assert got[-1] == SerialFrame(MessageType.COMMAND, bytes([49]))
        wire.line.close()

    asyncio.run(scenario())


def test_a_stop_overtakes_whatever_waits(wire: Wire) -> None:
    async def scenario() -> None:
        wire.line.open()
        sent = await choke(wire)
        for k in range(5):
            wire.line.send(MessageType.CONFIG, bytes([k]) * 50)
        wire.line.send_first(MessageType.STOP, b"stop")
        got: list[SerialFrame] = []
        while len(got) < sent + 1:
            got += wire.read()
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert got[-1] == SerialFrame(MessageType.STOP, b"stop") and wire.read() == []
        wire.line.close()

    asyncio.run(scenario())


def test_the_queue_is_bounded_and_drops_the_oldest(wire: Wire) -> None:
    async def scenario() -> None:
        wire.line.open()
        await choke(wire)
        for k in range(QUEUE + 7):
            wire.line.send(MessageType.CONFIG, bytes([k]))
        assert wire.line.dropped == 7
        wire.line.close()

    asyncio.run(scenario())


def test_a_line_that_takes_nothing_is_given_up(wire: Wire) -> None:
    async def scenario() -> None:
        wire.line.open()
        await choke(wire)
        wire.clock.advance(0.9 * STALL_S)
        wire.line.check(wire.clock.now_s())
        assert wire.line.is_open
        wire.clock.advance(0.2 * STALL_S)
        wire.line.check(wire.clock.now_s())
        assert not wire.line.is_open and "takes no data" in wire.lost[0]

    asyncio.run(scenario())


def test_unplugging_is_noticed_and_writing_to_nothing_is_harmless(wire: Wire) -> None:
    async def scenario() -> None:
        wire.line.open()
        os.close(wire.slave)
        os.close(wire.master)
        wire.master = wire.slave = -1
        await until(lambda: bool(wire.lost), 5.0)
        assert not wire.line.is_open
        assert not wire.line.send(MessageType.COMMAND, b"x", "command")
        assert wire.line.open()  # says why not

    asyncio.run(scenario())


def test_noise_between_frames_costs_no_frame(wire: Wire) -> None:
    async def scenario() -> None:
        wire.line.open()
        good = encode_frame(MessageType.TELEMETRY, b"good")
        damaged = bytearray(encode_frame(MessageType.TELEMETRY, b"damaged"))
        damaged[4] ^= 0x55
        os.write(wire.master, b"boot: hello\r\n" + good[:3])
        await asyncio.sleep(0.01)
        os.write(wire.master, good[3:] + bytes(damaged) + good + os.urandom(50).replace(b"\0", b"") + good)
        await until(lambda: len(wire.frames) >= 3, 5.0)
        assert [frame.payload for frame in wire.frames] == [b"good"] * 3
        assert wire.line.reader.crc_errors == 3
        wire.line.close()

    asyncio.run(scenario())


def test_a_port_that_is_none_says_why(tmp_path: object) -> None:
    async def scenario() -> None:
        for path in (f"{tmp_path}/nothing", f"{tmp_path}", "/dev/null"):
            line = SerialLine(path, SimulatedClock(), lambda *_: None, lambda _: None)
            assert line.open() and not line.is_open

    asyncio.run(scenario())


def test_two_daemons_cannot_share_a_line(wire: Wire) -> None:
    async def scenario() -> None:
        assert wire.line.open() == ""
        second = SerialLine(wire.line.path, wire.clock, lambda *_: None, lambda _: None)
        assert "lock" in second.open().lower()
        assert not second.is_open
        wire.line.close()

    asyncio.run(scenario())
