"""A flashed board on USB and what tests of it in the loop need: a broker that it was flashed for, and a host on its line."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import serial

from onboard.flash.flasher import Flasher, Job
from onboard.flash.provision import provision, read_secrets
from onboard.link.broker import EmbeddedBroker
from onboard.link.serial_frame import FrameReader, encode_frame
from onboard.link.wire_types import MessageType
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.boards.jail import BoardConfig
from sim.flash.usb_board import ESP32, RP2040, UsbBoard
from sim.usb import frames
from sim.usb.frames import BusReport, BusState, Hello

RIG = load_robot(robot_file("module_rig"))
ARM = load_robot(robot_file("manipulator"))


def flashed(folder: Path, spec: RobotSpec, strut: str, broker: EmbeddedBroker) -> UsbBoard:
    """A virtual board on USB that has become `strut` of the robot, signing in at `broker`."""
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o711)
    file = folder / "secrets.toml"
    file.touch(mode=0o600)
    file.write_text(f'[wifi]\nssid = "lab"\npassword = "x"\n[broker]\nhost = "127.0.0.1"\nport = {broker.port}\n')
    place = folder / strut
    place.mkdir()
    chip = RP2040 if spec.imu.board == "nano_rp2040" else ESP32
    one = UsbBoard(place, chip, BoardConfig(strut, board=spec.imu.board, prefix=spec.link.prefix))
    one.plug_in()
    Flasher(Job(strut, one.port, spec.imu.board, "strut", provision(spec, strut, read_secrets(file)))).flash()
    return one


class LoopHost:
    """The simulation's end of a strut's line, frame by frame."""

    def __init__(self, one: UsbBoard) -> None:
        self._line = serial.Serial(one.port, timeout=0.01)
        self._reader = FrameReader()
        self.hello: Hello | None = None
        self.states: list[BusState] = []
        self.reports: list[BusReport] = []
        self._count = 0

    def send(self, kind: MessageType, payload: bytes = b"") -> None:
        """One frame; none may interrupt a strut."""
        frame = encode_frame(kind, payload)
        assert frames.INTERRUPT not in frame
        self._line.write(frame)

    def begin(self, version: int = frames.VERSION) -> BusState:
        """Ask once, and wait for the answer."""
        self.states.clear()
        payload = bytearray(frames.begin(secrets.randbits(32), 3))
        if version != frames.VERSION:
            payload[1] ^= frames.VERSION ^ version
        self.send(MessageType.BUS_BEGIN, bytes(payload))
        self.until(lambda: bool(self.states), "an answer to BUS_BEGIN")
        return self.states[-1]

    def begun(self, limit_s: float = 15.0) -> None:
        """Ask until the board agrees: it first wants to know whether its robot is armed."""
        end_s = time.monotonic() + limit_s
        while not (state := self.begin()).fed:
            assert state.problem == "offline" and time.monotonic() < end_s, state
            time.sleep(0.2)

    def feed(
        self, samples: int, rate_hz: float = 104.0, values: Callable[[int], list[int]] = lambda k: [k, 0, 8192, 0, 0, 0, 0]
    ) -> None:
        """Samples at a rate, while reading what comes."""
        import struct

        start_s = time.monotonic()
        for index in range(samples):
            self._count += 1
            self.send(MessageType.BUS_SAMPLES, frames.samples(self._count, struct.pack("<7h", *values(self._count))))
            while time.monotonic() < start_s + (index + 1) / rate_hz:
                self.pump()

    def pump(self) -> None:
        """Read what has come."""
        for frame in self._reader.feed(self._line.read(max(1, self._line.in_waiting))):
            if frame.kind == MessageType.BIRTH:
                self.hello = frames.decode_hello(frame.payload)
            elif frame.kind == MessageType.BUS_STATE:
                self.states.append(frames.decode_state(frame.payload))
            elif frame.kind == MessageType.BUS_REPORT:
                self.reports.append(frames.decode_report(frame.payload))

    def until(self, condition: Callable[[], bool], what: str, limit_s: float = 10.0) -> None:
        """Read until true; fails the test after `limit_s`."""
        end_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end_s, f"not within {limit_s} s: {what}"
            self.pump()

    def close(self) -> None:
        """The cable stays, the program lets go."""
        self._line.close()

    def __enter__(self) -> LoopHost:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
