"""A service manager hears that the daemon is ready, alive as long as its loops run, and about to end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.runtime.notify import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(path)
        server.settimeout(60.0)
        yield server, path


def test_alive_is_said_four_times_a_period_and_no_more(manager: tuple[socket.socket, str]) -> None:
    server, path = manager
    service = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())})
    for tick in range(161):  # four seconds of 40 ticks
        service.alive(tick / 40.0)
    service.stopping()
    said = []
    while not said or said[-1] != b"STOPPING=1":
        said.append(server.recv(1000))
    assert said == [b"WATCHDOG=1"] * 9 + [b"STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "@no-such-name", "WATCHDOG_USEC": "0"},
    ],
)
def test_without_a_manager_or_with_one_that_went_away_nothing_happens(environment: dict[str, str]) -> None:
    service = ServiceManager(environment)
    service.ready("disarmed")
    service.alive(1.0)
    service.stopping()


def test_a_watchdog_meant_for_another_process_is_not_fed(manager: tuple[socket.socket, str]) -> None:
    server, path = manager
    service = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
    service.alive(1.0)
    service.ready("disarmed")
    assert server.recv(1000) == b"READY=1\nSTATUS=disarmed"


def test_the_daemon_itself_is_ready_alive_and_ends(manager: tuple[socket.socket, str], tmp_path: Path) -> None:
    server, path = manager
    environment = os.environ | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000", "XDG_RUNTIME_DIR": str(tmp_path)}
    words = ["-m", "onboard.cli.main", "run", "module_rig", "--hardware", "--postures", str(tmp_path / "postures")]
    with subprocess.Popen([sys.executable, *words], env=environment, stderr=subprocess.DEVNULL) as daemon:
        try:
            assert server.recv(1000).startswith(b"READY=1")
            beats = 0
            while beats < 4:
                beats += server.recv(1000) == b"WATCHDOG=1"
            daemon.send_signal(signal.SIGTERM)
            while server.recv(1000) != b"STOPPING=1":
                pass
            assert daemon.wait(10.0) == 0
        finally:
            daemon.kill()
