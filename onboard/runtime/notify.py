"""Tells a service manager that the daemon is ready, alive and about to end (the sd_notify protocol; no library needed).

Alive is said from the supervisor's tick: when the loops stop, the manager restarts the daemon, which comes up disarmed; boards
have long gone to their safe state by themselves.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"
BEATS = 4.0  # beats in one watchdog period: two may be late


class ServiceManager:
    """The manager that started this process, if one did; otherwise every call does nothing."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        self._address = _address(given.get("NOTIFY_SOCKET", ""))
        period_us, process = given.get("WATCHDOG_USEC", ""), given.get("WATCHDOG_PID", "")
        meant = not process or process == str(os.getpid())
        self._every_s = int(period_us) * 1e-6 / BEATS if meant and period_us.isdecimal() and int(period_us) > 0 else None
        self._next_s = float("-inf")

    def ready(self, text: str) -> None:
        """The robot can be armed from now on."""
        self._send(f"{READY}\nSTATUS={text}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={text}")

    def alive(self, now_s: float) -> None:
        """Called every supervisor tick; sends only as often as the watchdog needs it."""
        if self._every_s is not None and now_s >= self._next_s:
            self._next_s = now_s + self._every_s
            self._send(ALIVE)

    def stopping(self) -> None:
        """An orderly end has begun."""
        self._send(STOPPING)

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as client:
                client.sendto(text.encode(), self._address)
        except OSError:
            return  # a manager that went away must not take the robot with it


def _address(path: str) -> str | None:
    if path.startswith("@"):
        return "\0" + path[1:]
    return path if path.startswith("/") else None
