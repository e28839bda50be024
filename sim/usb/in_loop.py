"""Real boards in a simulated robot, as its rig sees them: found, begun, listened to, ended."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from onboard.errors import LinkError, PrestressError
from onboard.link.endpoint import Endpoint
from sim.boards import registers

FIND_S = 60.0  # its process starts in this time too, maybe on a busy computer
BEGIN_S = 60.0
END_S = 15.0
COMPARED = 3  # virtual struts that are timed beside the real ones


def create_unread(folder: Path) -> None:
    """A register file where the plant expects one; the board it stands for is fed by the bridge and reads another."""
    (folder / "sim").mkdir(parents=True, exist_ok=True)
    registers.create(folder / "sim" / "registers.bin")


class BoardsInTheLoop:
    """ports: strut -> port. `lines`: what a person should know, oldest first. `result`: figures, after close()."""

    def __init__(self, robot: Path, struts: Sequence[str], ports: Mapping[str, str], seed: int, folder: Path) -> None:
        self.ports = dict(ports)
        self.timed = [name for name in struts if name not in ports][:COMPARED]
        self.lines: list[str] = []
        self.result: dict[str, Any] = {}
        path = folder / "tap.sock"
        self.tap = path if len(os.fsencode(path)) < 100 else Path(f"/tmp/prestress-tap-{os.getpid()}-{id(self) % 10000}.sock")
        self._settings = {"robot": str(robot), "seed": seed, "boards": self.ports, "timed": self.timed, "tap": str(self.tap)}
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "loop.log"
        self._inbox = b""
        self._told = 0

    def find(self) -> None:
        """Start, and recognise every board; LinkError says which is not what it should be. Nothing is changed on them yet."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sim.usb.bridge"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches whoever started us, who ends the bridge in order
            )
        self._send(self._settings)
        self._await("found", FIND_S)

    def begin(self, endpoint: Endpoint) -> None:
        """Put the boards onto the plant's samples; LinkError when one refuses or is not at its broker."""
        order = {"do": "begin", "host": endpoint.host, "port": endpoint.port, "tls": endpoint.tls}
        order |= {"username": endpoint.username, "password": endpoint.password, "ca_file": endpoint.ca_file}
        self._send(order)
        self._await("fed", BEGIN_S)

    def poll(self) -> list[str]:
        """New lines for a person, without waiting."""
        while event := self._next(0.0):
            self._take(event)
        return self.take_lines()

    def take_lines(self) -> list[str]:
        """Lines that nobody has taken yet."""
        new = self.lines[self._told :]
        self._told = len(self.lines)
        return new

    def plant_words(self) -> list[str]:
        """What the plant's process must be told."""
        words = ["--tap", str(self.tap)]
        return words + [word for name in (*self.ports, *self.timed) for word in ("--tapped", name)]

    def close(self) -> None:
        """Give the boards back to their sensors and keep the figures."""
        process = self._process
        if process is None:
            return
        with suppress(OSError, LinkError):
            self._send({"do": "end"})
            self._await("result", END_S)
        self._process = None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _send(self, fields: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(fields) + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise LinkError(f"the bridge to the boards has ended; see {self._log}") from error

    def _await(self, wanted: str, limit_s: float) -> None:
        while True:
            event = self._next(limit_s)
            if event is None:
                raise LinkError(f"the bridge to the boards has ended or does not answer; see {self._log}")
            self._take(event)
            if event["event"] == wanted:
                return

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "say":
            self.lines.append(str(event["text"]))
        elif kind == "failed":
            raise LinkError(str(event["text"]))
        elif kind == "result":
            self.result = {key: value for key, value in event.items() if key != "event"}

    def _next(self, wait_s: float) -> dict[str, Any] | None:
        """The next event; None after `wait_s`, or when the process has ended."""
        if self._process is None or self._process.stdout is None:
            return None
        fd = self._process.stdout.fileno()
        while b"\n" not in self._inbox:
            readable, _, _ = select.select([fd], [], [], wait_s)
            data = os.read(fd, 65_536) if readable else b""
            if not data:
                return None
            self._inbox += data
        line, self._inbox = self._inbox.split(b"\n", 1)
        try:
            event: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise PrestressError(f"the bridge to the boards says {line[:80]!a}") from error
        return event
