"""The embedded broker as a process: where it listens, whom it lets in, when it ends."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.errors import LinkError
from onboard.link.board_json import StrutConfig
from onboard.link.broker import EmbeddedBroker
from onboard.link.passwords import create_passwords
from tests.link_support import Client, until
from tests.robustness.session_support import session, topic


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker("prestress/manipulator", 0) as running:
        yield running


def test_a_taken_port_is_said_plainly() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LinkError, match=rf"port {port} .*--broker mqtt://127\.0\.0\.1:{port}"):
            EmbeddedBroker("prestress/manipulator", port).start()


def test_the_broker_listens_on_loopback_only(broker: EmbeddedBroker) -> None:
    listening = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{broker.port:04X}" in listening
    assert f"00000000:{broker.port:04X}" not in listening


def test_a_killed_daemon_takes_its_broker_along() -> None:
    code = (
        "import sys, time; from onboard.link.broker import EmbeddedBroker\n"
        "b = EmbeddedBroker('p', 0); b.start(); print(b.port, b.pid, flush=True); time.sleep(60)"
    )
    daemon = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    port, pid = (int(part) for part in daemon.stdout.readline().split())
    socket.create_connection(("127.0.0.1", port), 5.0).close()
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()
    deadline = time.monotonic() + 10.0
    while Path(f"/proc/{pid}/cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1.0)


def test_on_the_network_everybody_needs_a_password_and_keeps_to_its_topics(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    known = create_passwords(passwords, ["strut00", "strut01"])

    async def scenario() -> None:
        with EmbeddedBroker("prestress/manipulator", 0, lan=True, passwords=passwords, boards=["strut00"]) as lan:
            for name, password in ((None, None), ("strut00", "wrong"), ("strut00", known["strut01"]), ("nobody", "x")):
                intruder = Client(lan.port, name, password)
                assert intruder.refused
                intruder.close()
            async with session(lan) as (link, packets):
                board = Client(lan.port, "strut00", known["strut00"])
                assert not board.refused
                board.subscribe(topic(0, "cfg"))
                await asyncio.sleep(0.2)
                board.publish(topic(1, "imu"), b"forged")
                board.publish(topic(0, "cfg"), b"forged", 1, retain=True)
                board.publish(topic(0, "imu"), b"own")
                link.configure(0, StrutConfig(generation=1))
                await until(lambda: bool(packets) and bool(board.received))
                assert [packet[2] for packet in packets] == [b"own"]
                assert all(payload != b"forged" for _, payload, _ in board.received)
                board.close()

    asyncio.run(scenario())
