"""A strut speaks TLS to a broker whose authority it knows, and to no other."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from tests.firmware.conftest import Feeder, wait_until
from tests.firmware.slow_broker import SlowBroker

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


def authority(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A new authority (DER) and a server context with a certificate by it for the name `broker`."""
    key, pem, der = folder / f"{name}.key", folder / f"{name}.pem", folder / f"{name}.der"
    server_key, request, server = folder / f"{name}-s.key", folder / f"{name}-s.csr", folder / f"{name}-s.pem"
    extensions = folder / f"{name}.ext"
    extensions.write_text("subjectAltName=DNS:broker\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for arguments in (
        ["req", "-x509", *curve, "-keyout", key, "-out", pem, "-days", "2", "-subj", f"/CN={name}"],
        ["x509", "-in", pem, "-outform", "der", "-out", der],
        ["req", *curve, "-keyout", server_key, "-out", request, "-subj", "/CN=broker"],
        ["x509", "-req", "-in", request, "-CA", pem, "-CAkey", key, "-extfile", extensions, "-days", "2", "-out", server],
    ):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server, server_key)
    return der, context


def strut_with(boards: Callable[..., VirtualBoard], broker: SlowBroker, ca: Path, name: str) -> VirtualBoard:
    tls = {"ca": "/ca.der", "name": name}
    board = boards(BoardConfig("strut00", prefix="test", broker_port=broker.port, broker_tls=tls))
    shutil.copyfile(ca, board.jail / "ca.der")
    return board


def test_samples_flow_over_tls(tmp_path: Path, boards: Callable[..., VirtualBoard], feed: Callable[..., Feeder]) -> None:
    ca, context = authority(tmp_path, "ours")
    broker = SlowBroker(tls=context)
    board = strut_with(boards, broker, ca, "broker")
    feed(board)
    board.start()
    try:
        wait_until(lambda: sum(topic.endswith("/imu") for topic, _ in broker.publishes) > 100, 20.0, "samples")
        assert broker.connections == 1
        assert broker.broken == ""
    finally:
        board.stop()
        broker.close()


@pytest.mark.parametrize(("foreign", "name"), [(True, "broker"), (False, "another")])
def test_a_foreign_authority_or_another_name_gets_nothing(
    tmp_path: Path, boards: Callable[..., VirtualBoard], foreign: bool, name: str
) -> None:
    ca, context = authority(tmp_path, "ours")
    if foreign:
        ca, _ = authority(tmp_path, "foreign")
    broker = SlowBroker(tls=context)
    board = strut_with(boards, broker, ca, name)
    board.start()
    try:
        wait_until(lambda: broker.connections >= 2, 20.0, "two attempts")
        assert broker.publishes == []
        assert "link:" in board.log_path.read_text()
    finally:
        board.stop()
        broker.close()
    assert board.resets == 0
