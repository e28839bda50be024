"""MicroPython's raw prompt over a serial port: run code on a board and get its output, every wait bounded.

The protocol is MicroPython's documented raw REPL with raw-paste mode (flow control by windows), so that a board with a small
input buffer loses nothing.
"""

from __future__ import annotations

import json
import os
import select
import termios
from contextlib import suppress
from typing import Any

import serial

from onboard.clock import Clock, WallClock
from onboard.errors import LinkError

BAUD = 115_200  # boards with native USB ignore it
READ_S = 0.05  # one wait for bytes; deadlines are checked between
ANSWER_S = 10.0  # for the longest single step: hashing a file on the slowest board
PROMPT_S = 2.0
RAW_PROMPT = b"raw REPL; CTRL-B to exit\r\n>"
INTERRUPT, RAW, FRIENDLY, END, PASTE = b"\x03", b"\x01", b"\x02", b"\x04", b"\x05A\x01"


class BoardError(LinkError):
    """Code on the board failed: `kind` is the exception's name there, `number` its errno or None."""

    def __init__(self, port: str, last_line: str) -> None:
        self.kind, _, text = last_line.partition(":")
        digits = text.strip().removeprefix("[Errno ").split("]")[0].split(" ")[0]
        self.number = int(digits) if digits.isdigit() else None
        super().__init__(f"{port}: the board says {last_line[:120]}")


class RawRepl:
    """One port. Raises LinkError for a port that is taken, has vanished or does not answer as MicroPython does."""

    def __init__(self, port: str, clock: Clock | None = None) -> None:
        self.port = port
        self._clock = clock or WallClock()
        self._serial: serial.Serial | None = None

    def open(self, timeout_s: float = 0.0) -> None:
        """Take the port; while it is absent (a board that resets) try again until `timeout_s` is over."""
        end_s = self._clock.now_s() + timeout_s
        while True:
            try:
                self._serial = serial.Serial(self.port, BAUD, timeout=READ_S, write_timeout=PROMPT_S, exclusive=True)
                return
            except (serial.SerialException, OSError, ValueError) as error:
                if self._clock.now_s() >= end_s:
                    raise LinkError(f"{self.port}: {_reason(error)}") from error
            select.select([], [], [], READ_S)

    def close(self) -> None:
        """Let go of the port."""
        line, self._serial = self._serial, None
        if line is not None:
            with suppress(serial.SerialException, OSError):
                line.close()

    @property
    def line(self) -> serial.Serial:
        """The open port; LinkError when it is closed."""
        if self._serial is None:
            raise LinkError(f"{self.port}: is not open")
        return self._serial

    def write(self, data: bytes) -> None:
        """Send bytes; LinkError when the port does not take them."""
        try:
            self.line.write(data)
        except (serial.SerialException, OSError) as error:
            raise LinkError(f"{self.port}: vanished while writing ({_reason(error)})") from error

    def read_some(self) -> bytes:
        """What has arrived, after at most READ_S."""
        try:
            return bytes(self.line.read(max(1, self.line.in_waiting)))
        except (serial.SerialException, OSError, TypeError) as error:
            raise LinkError(f"{self.port}: vanished while reading ({_reason(error)})") from error

    def read_until(self, end: bytes, timeout_s: float) -> bytes:
        """Everything up to and with the one byte `end`; LinkError after `timeout_s`."""
        data, end_s = bytearray(), self._clock.now_s() + timeout_s
        while not data.endswith(end):
            try:
                data += self.line.read_until(end, max(1, self.line.in_waiting))
            except (serial.SerialException, OSError, TypeError) as error:
                raise LinkError(f"{self.port}: vanished while reading ({_reason(error)})") from error
            if self._clock.now_s() > end_s:
                raise LinkError(f"{self.port}: no answer from a MicroPython prompt within {timeout_s:.0f} s")
        return bytes(data)

    def enter(self, timeout_s: float = PROMPT_S) -> bool:
        """Interrupt what runs and go to the raw prompt; False when nothing there answers as MicroPython does."""
        with suppress(serial.SerialException, OSError, termios.error):  # the write below says what is wrong with the port
            self.line.reset_input_buffer()
        end_s = self._clock.now_s() + timeout_s
        while self._clock.now_s() < end_s:
            self.write(b"\r" + INTERRUPT + INTERRUPT)
            with suppress(BoardSilentError):
                self._expect(b">>> ", 0.3)
                break
            self.write(b"\r" + FRIENDLY)  # perhaps a raw prompt that somebody has left
        else:
            return False
        self.write(b"\r" + RAW)
        try:
            self._expect(RAW_PROMPT, PROMPT_S)
        except BoardSilentError:
            return False
        return True

    def _expect(self, end: bytes, timeout_s: float) -> None:
        data, end_s = bytearray(), self._clock.now_s() + timeout_s
        while not data.endswith(end):
            data += self.read_some()
            if self._clock.now_s() > end_s:
                raise BoardSilentError(f"{self.port}: no prompt")

    def run(self, code: str, timeout_s: float = ANSWER_S) -> str:
        """Run `code` at the raw prompt; what it printed. BoardError when it raised there."""
        self._paste(code.encode())
        output = self.read_until(END, timeout_s)[:-1]
        problem = self.read_until(END, ANSWER_S)[:-1]
        self.read_until(b">", ANSWER_S)
        if problem:
            lines = problem.decode("utf-8", "replace").strip().splitlines()
            raise BoardError(self.port, lines[-1] if lines else "nothing")
        return output.decode("utf-8", "replace")

    def ask(self, code: str, timeout_s: float = ANSWER_S) -> Any:
        """Run code that prints one JSON value; that value. LinkError for anything else."""
        text = self.run(code, timeout_s)
        try:
            return json.loads(text)
        except ValueError as error:
            raise LinkError(f"{self.port}: the board's answer is not understood: {text[:80]!a}") from error

    def start(self, code: str) -> None:
        """Run code that does not come back, such as a reset."""
        self._paste(code.encode())

    def _paste(self, data: bytes) -> None:
        """Send code in raw-paste mode: never more than the board's window; LinkError when the interpreter is too old."""
        self.write(PASTE)
        if self._take(2) != b"R\x01":
            raise LinkError(f"{self.port}: the interpreter has no raw paste mode; MicroPython 1.23 or newer is needed")
        window = room = int.from_bytes(self._take(2), "little")
        at = 0
        while at < len(data):
            while room == 0 or self._waiting():
                signal = self._take(1)
                if signal == END:  # the board gives up: a syntax error or no memory
                    self.write(END)
                    return
                room += window
            part = data[at : at + room]
            self.write(part)
            at += len(part)
            room -= len(part)
        self.write(END)
        while self._take(1) != END:
            pass  # late window signals

    def _waiting(self) -> int:
        """Bytes that have arrived; a port that has vanished answers this with an error too."""
        try:
            return int(self.line.in_waiting)
        except (serial.SerialException, OSError, TypeError) as error:
            raise LinkError(f"{self.port}: vanished while writing ({_reason(error)})") from error

    def _take(self, count: int) -> bytes:
        data, end_s = b"", self._clock.now_s() + ANSWER_S
        while len(data) < count:
            try:
                data += self.line.read(count - len(data))
            except (serial.SerialException, OSError, TypeError) as error:
                raise LinkError(f"{self.port}: vanished while reading ({_reason(error)})") from error
            if self._clock.now_s() > end_s:
                raise LinkError(f"{self.port}: no answer from a MicroPython prompt within {ANSWER_S:.0f} s")
        return data


class BoardSilentError(LinkError):
    """No prompt came."""


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        text = os.strerror(error.errno)
        if error.errno in (11, 16):
            return f"is taken by another program ({text})"
        if error.errno in (2, 6, 19):
            return f"is not there ({text})"
        return text
    text = str(error)
    return "is taken by another program" if "lock" in text else text.splitlines()[0] if text else type(error).__name__
