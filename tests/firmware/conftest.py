"""A broker as a process of its own, boards under a temporary directory, and a plant that feeds sensors at their rate."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("micropython_unix", reason="virtual boards need the sim extra")

from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard

GRAVITY = (0.0, 0.0, 9.80665)


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0, what: str = "") -> None:
    """Poll until true; fail with `what` otherwise."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            pytest.fail(f"not within {timeout_s} s: {what or condition}")
        time.sleep(0.01)


class Broker:
    """A broker on a free loopback port that can be killed, frozen and started again on the same port."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        script = Path(__file__).with_name("broker_process.py")
        self.process = subprocess.Popen([sys.executable, str(script), str(self.port)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)


class Feeder:
    """Writes samples to struts at a rate, like a plant. `motion(k)` gives (acceleration, rate) of sample k."""

    def __init__(self, boards: list[VirtualBoard], rate_hz: float = 104.0) -> None:
        self._boards = boards
        self._rate_hz = rate_hz
        self._stop = threading.Event()
        self.paused = False
        self.motion = lambda k: (GRAVITY, (0.001 * (k % 500), 0.0, 0.0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        start_s = time.monotonic()
        count = 0
        while not self._stop.wait(max(0.0, start_s + count / self._rate_hz - time.monotonic())):
            count += 1
            if not self.paused:
                acceleration, rate = self.motion(count)
                for board in self._boards:
                    board.imu.write_physical(count, acceleration, rate)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def broker() -> Iterator[Broker]:
    running = Broker()
    yield running
    running.kill()


@pytest.fixture
def boards(tmp_path: Path) -> Iterator[Callable[..., VirtualBoard]]:
    """Make boards: boards(BoardConfig(...)) prepares one; all are switched off at the end."""
    made: list[VirtualBoard] = []

    def make(config: BoardConfig) -> VirtualBoard:
        board = VirtualBoard(config, tmp_path / "boards")
        made.append(board)
        return board

    yield make
    for board in made:
        board.close()


@pytest.fixture
def feed() -> Iterator[Callable[..., Feeder]]:
    """Start feeding struts; stopped before their files are closed."""
    with contextlib.ExitStack() as stack:

        def start(*fed: VirtualBoard, rate_hz: float = 104.0) -> Feeder:
            feeder = Feeder(list(fed), rate_hz)
            stack.callback(feeder.stop)
            return feeder

        yield start
