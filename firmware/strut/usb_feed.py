"""A simulation on the USB line may take the place of the sensor's bus: only while it speaks, and never while the robot is armed.

Ctrl-C stays an interrupt here, for people and the flasher: no frame to a strut holds the byte 0x03 (docs/protocol.md).
"""

import asyncio
import json
import select
import struct
import sys

import micropython
from common import frames, ticks
from common.serial_port import SerialPort

from strut.sensor import RAW_SIZE

CTRL_C = 3
LEASE_MS = 2000  # without a good frame for so long the real sensor is back
LOOK_MS = 200
ABSENT_MS = 1000
DRAIN = 256  # bytes taken from the line before others get their turn
REPORT_EVERY = 7  # frames with samples; odd, so that it falls on every place in a batch
VERSION = 1
BEGIN = "<BbI"  # version, INTERNAL_FREQ_FINE, token
HEAD = 5  # of a frame with samples: count, counter of the first


class UsbLine(SerialPort):
    """Frames on a line that is a console too."""

    def __init__(self) -> None:
        super().__init__()
        micropython.kbd_intr(CTRL_C)
        self._poller = select.poll()
        self._poller.register(sys.stdin.buffer, select.POLLIN)

    async def receive(self) -> list[tuple[int, bytes]]:
        """Like a serial port's, but all bytes that are there at once: a task switch for each would take the processor."""
        try:
            data = bytearray(await self._input.read(1))
            while data and len(data) < DRAIN and self._poller.poll(0):
                more = sys.stdin.buffer.read(1)
                if not more:
                    break
                data.extend(more)
        except OSError:
            data = bytearray()
        self.connected = bool(data)
        if not data:
            self._pending = bytearray()
            await asyncio.sleep_ms(ABSENT_MS)
            return []
        return self.frames.feed(bytes(data))


class UsbFeed:
    """Override the four questions to the strut. `fed` is True while a simulation has the bus."""

    def __init__(self, sensor: str, boot_id: int) -> None:
        self._line = UsbLine()
        self._sensor = sensor
        self._boot_id = boot_id
        self._token = 0
        self._heard = 0
        self._frames = 0
        self._bus: object = None

    def birth(self) -> dict[str, object]:
        """The strut's birth message."""
        raise NotImplementedError

    def refusal(self) -> str:
        """Why no simulation may begin now: armed, or offline (it cannot know); empty when one may."""
        raise NotImplementedError

    def use(self, bus: object) -> None:
        """Sample from this bus; from the board's own when it is None."""
        raise NotImplementedError

    @property
    def fed(self) -> bool:
        return self._bus is not None

    async def run(self) -> None:
        """For ever."""
        while True:
            for kind, payload in await self._line.receive():
                self._take(kind, payload, ticks.now())

    def _take(self, kind: int, payload: bytes, now: int) -> None:
        if kind == frames.HELLO:
            self._line.send(frames.BIRTH, json.dumps(self.birth()).encode())
        elif kind == frames.BUS_BEGIN:
            self._begin(_unmask(payload), now)
        elif kind == frames.SYNC_REQUEST:
            self._heard = now
            try:
                stamp = frames.decode_sync_request(payload)
            except frames.Refused:
                return
            self._line.send(frames.SYNC_RESPONSE, frames.encode_sync_response(stamp, self._boot_id, now, ticks.now()))
        elif self._bus is None:
            return
        elif kind == frames.BUS_SAMPLES:
            self._heard = now
            self._samples(_unmask(payload), now)
        elif kind == frames.BUS_FAULTS and len(payload) == 2:
            self._bus.set_faults(_unmask(payload)[0])  # type: ignore[attr-defined]  # a UsbBus, loaded only when there is one
        elif kind == frames.BUS_END:
            self._end("the simulation ended")

    def _begin(self, data: bytearray, now: int) -> None:
        problem = ""
        if len(data) != struct.calcsize(BEGIN) or data[0] != VERSION:
            problem = "version"
        else:
            problem = self.refusal()
        if not problem:
            _, steps, self._token = struct.unpack(BEGIN, data)
            from strut.usb_bus import UsbBus  # costs memory: only boards that are fed load it

            was_fed = self.fed
            self._bus = bus = UsbBus(self._sensor, steps)
            self._heard = now
            self._frames = 0
            self.use(bus)
            print("usb: fed by a simulation")
            if not was_fed:
                asyncio.create_task(self._watch())
        self._tell(problem)

    def _samples(self, data: bytearray, now: int) -> None:
        if len(data) < HEAD or len(data) != HEAD + RAW_SIZE * data[0]:
            return
        file = self._bus.file  # type: ignore[attr-defined]
        view = memoryview(data)
        for at in range(HEAD, len(data), RAW_SIZE):
            file.push(view[at : at + RAW_SIZE])
        if not data[0]:
            return
        self._frames += 1
        if self._frames % REPORT_EVERY == 0:
            newest = struct.unpack_from("<I", data, 1)[0] + data[0] - 1
            report = struct.pack("<IIII", newest & 0xFFFFFFFF, now, file.taken & 0xFFFFFFFF, file.missed & 0xFFFFFFFF)
            self._line.send(frames.BUS_REPORT, report)

    async def _watch(self) -> None:
        while self._bus is not None:
            await asyncio.sleep_ms(LOOK_MS)
            if self._bus is not None and ticks.diff(ticks.now(), self._heard) > LEASE_MS * 1000:
                self._end("the cable or the simulation is gone")

    def _end(self, why: str) -> None:
        self._bus = None
        self.use(None)
        print("usb: %s, back on the real sensor" % why)
        self._tell(why)

    def _tell(self, problem: str) -> None:
        table = {"token": self._token, "fed": self.fed, "problem": problem, "boot_id": self._boot_id}
        self._line.send(frames.BUS_STATE, json.dumps(table).encode())


def _unmask(payload: bytes) -> bytearray:
    """What lies under the mask that the first byte of a payload is."""
    data = bytearray(payload[1:])
    if payload:
        mask = payload[0]
        for index in range(len(data)):
            data[index] ^= mask
    return data
