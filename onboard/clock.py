"""The only place that knows the time: a wall clock, a simulated clock, and the kernel timer that fixed-rate loops wait on."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from typing import Protocol

NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """Monotonic seconds for all timing; wall nanoseconds only as labels in recordings and logs."""

    def now_s(self) -> float:
        """Monotonic time [s]; never steps, not even when the wall clock does."""

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; a label, never a basis for time-outs."""


class WallClock:
    """The machine's own clocks."""

    def now_s(self) -> float:
        return time.monotonic()

    def wall_ns(self) -> int:
        return time.time_ns()


class SimulatedClock:
    """Time that moves only when told to: for evaluations faster than real time, and for replay."""

    def __init__(self, start_s: float = 0.0, wall_start_ns: int = 0) -> None:
        self._t_s = start_s
        self._wall_offset_ns = wall_start_ns - round(start_s * NS_PER_S)

    def now_s(self) -> float:
        return self._t_s

    def wall_ns(self) -> int:
        return self._wall_offset_ns + round(self._t_s * NS_PER_S)

    def set(self, t_s: float) -> None:
        """Move to `t_s`; going back raises ValueError since nothing downstream may see time run backwards."""
        if t_s < self._t_s:
            raise ValueError(f"simulated time cannot go back from {self._t_s} to {t_s} s")
        self._t_s = t_s

    def advance(self, dt_s: float) -> None:
        self.set(self._t_s + dt_s)


async def wait_s(seconds: float) -> None:
    """Yield to the event loop for a while; for retries and shutdown only: fixed rates belong to runtime/loop.py."""
    await asyncio.sleep(seconds)


def process_cpu_s() -> float:
    """Processor time of this process [s]: for the budget that metrics report."""
    return time.process_time()


class KernelTimer:
    """A Linux timerfd with absolute monotonic deadlines, readable from an event loop.

    epoll rounds its own time-outs up to a millisecond; a timerfd does not. Python before 3.13 has no binding, so libc is
    called directly.
    """

    _CLOCK_MONOTONIC = 1
    _NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
    _ABSTIME = 1

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(self._CLOCK_MONOTONIC, self._NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")

    def arm(self, deadline_s: float) -> None:
        """Fire once at monotonic `deadline_s`; a deadline in the past fires at once."""
        ns = max(1, round(deadline_s * NS_PER_S))
        spec = struct.pack("=qqqq", 0, 0, ns // NS_PER_S, ns % NS_PER_S)
        if self._libc.timerfd_settime(self.fd, self._ABSTIME, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def acknowledge(self) -> None:
        """Consume the expiry so that the descriptor stops being readable."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
