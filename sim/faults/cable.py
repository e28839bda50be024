"""A USB cable between the host and a virtual actuator board that can be pulled and disturbed."""

from __future__ import annotations

import os
import select
import threading
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class Cable:
    """A USB cable to a board: plug, unplug, and disturb what the host hears or says. `path` stays the same."""

    def __init__(self, port: str, path: Path) -> None:
        self.path, self._port = path, port
        self.to_host: Callable[[bytes], bytes] = lambda data: data
        self.to_board: Callable[[bytes], bytes] = lambda data: data
        self._ends: list[int] = []
        self._threads: list[threading.Thread] = []
        self.plug()

    def plug(self) -> None:
        master, slave = os.openpty()
        tty.setraw(slave)
        board = os.open(self._port, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(board)
        self.path.symlink_to(os.ttyname(slave))
        for end in (master, board):
            os.set_blocking(end, False)
        self._ends = [master, slave, board]
        self._threads = [
            threading.Thread(target=self._carry, args=(source, target, towards_host), daemon=True)
            for source, target, towards_host in ((board, master, True), (master, board, False))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def plugged(self) -> bool:
        """Whether it is in."""
        return bool(self._ends)

    def say_to_board(self, data: bytes) -> None:
        """Put bytes on the line as if the host had written them, once more or for the first time."""
        os.write(self._ends[2], data)

    def unplug(self) -> None:
        """Pull it."""
        self.path.unlink()
        ends, self._ends = self._ends, []
        for thread in self._threads:
            thread.join()  # one that still reads would go on with whatever file gets the closed one's number
        for end in ends[1:] + ends[:1]:
            os.close(end)

    def _carry(self, source: int, target: int, towards_host: bool) -> None:
        with suppress(OSError):
            while self._ends:
                if not select.select([source], [], [], 0.02)[0]:
                    continue
                data = os.read(source, 4096)
                data = (self.to_host if towards_host else self.to_board)(data)
                while data and self._ends:
                    select.select([], [target], [], 0.02)
                    with suppress(BlockingIOError):
                        data = data[os.write(target, data) :]
