"""The Mosquitto configuration in deploy/, on a real Mosquitto: who may sign in, and who may say what."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiomqtt
import pytest

from onboard.errors import UsageError
from onboard.flash.certs import make
from onboard.flash.flasher import Flasher
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.resources import root
from onboard.update.fleet import FleetUpdate
from sim.flash.usb_board import UsbBoard
from tests.flash.air import NEW, OLD, SPEC, Keys, firmware, snapshot
from tests.flash.support import booted, job

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
pytestmark = pytest.mark.skipif(
    MOSQUITTO is None or shutil.which("openssl") is None, reason="needs mosquitto and openssl of the system"
)
DEPLOY = root() / "deploy" / "mosquitto"
TOPIC = "prestress/manipulator/v1"
BOARDS = ["strut07", "strut08"]


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mosquitto") / "certs"
    make(folder, BOARDS, ["127.0.0.1"], 90)
    return folder


@pytest.fixture(scope="module")
def port(certs: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    text = (DEPLOY / "prestress.conf").read_text()
    text = text.replace("listener 8883", f"listener {number} 127.0.0.1").replace("persistence true", "persistence false")
    text = text.replace("/etc/mosquitto/prestress/prestress.acl", str(DEPLOY / "prestress.acl"))
    config = certs.parent / "mosquitto.conf"
    config.write_text(text.replace("/etc/mosquitto/prestress", str(certs)) + "user root\n")
    with (certs.parent / "log").open("wb") as log:
        broker = subprocess.Popen([str(MOSQUITTO), "-c", str(config)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 10.0
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", number), 1.0):
                break
            assert broker.poll() is None and time.monotonic() < deadline, (certs.parent / "log").read_text()
            time.sleep(0.05)
        yield number
    finally:
        broker.terminate()
        broker.wait(10.0)


def url(port: int, certs: Path, name: str | None) -> str:
    cert = f"&cert={certs / name}.pem" if name else ""
    return f"mqtts://127.0.0.1:{port}?ca={certs / 'ca.pem'}{cert}"


def client(endpoint: Endpoint, timeout_s: float = 5.0) -> aiomqtt.Client:
    return aiomqtt.Client(endpoint.host, endpoint.port, tls_context=endpoint.tls_context(), timeout=timeout_s)


async def heard(port: int, certs: Path, listener: str, filters: str, speaker: str, topics: list[str]) -> list[str]:
    """Topics that `listener` hears of those that `speaker` says; the daemon's word ends it."""
    found: list[str] = []
    async with (
        client(parse_endpoint(url(port, certs, listener))) as ear,
        client(parse_endpoint(url(port, certs, speaker))) as mouth,
        client(parse_endpoint(url(port, certs, "daemon"))) as daemon,
    ):
        await ear.subscribe(filters, qos=1)
        for topic in topics:
            await mouth.publish(topic, b"x", qos=1)
        end = f"{TOPIC}/{listener if listener != 'daemon' else 'strut07'}/sync/req"
        await daemon.publish(end, b"end", qos=1)
        async with asyncio.timeout(10.0):
            async for message in ear.messages:
                if str(message.topic) == end:
                    return found
                found.append(str(message.topic))
    return found


def test_a_board_speaks_for_itself_only(port: int, certs: Path) -> None:
    own = [f"{TOPIC}/strut07/{leaf}" for leaf in ("imu", "state", "health", "cfg/ack", "sync/rsp", "ota/ack")]
    foreign = [f"{TOPIC}/strut08/{leaf}" for leaf in ("imu", "state")]
    commands = [f"{TOPIC}/{board}/{leaf}" for board in BOARDS for leaf in ("cfg", "cmd", "arm", "ota/offer", "ota/permit")]
    elsewhere = ["prestress/manipulator/v1/imu", "other/v1/strut07/imu", "prestress/v1/strut07/imu"]
    topics = [*foreign, *commands, *elsewhere, *own]
    assert asyncio.run(heard(port, certs, "daemon", "#", "strut07", topics)) == own


def test_a_board_hears_only_what_is_meant_for_it(port: int, certs: Path) -> None:
    topics = [f"{TOPIC}/{board}/cfg" for board in ("strut07", "strut08")]
    assert asyncio.run(heard(port, certs, "strut08", "#", "daemon", topics)) == [topics[1]]


def test_nobody_signs_in_without_a_certificate_of_the_authority(port: int, certs: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", ["daemon2"], ["127.0.0.1"], 90)
    foreign = f"mqtts://127.0.0.1:{port}?ca={certs / 'ca.pem'}&cert={tmp_path / 'other' / 'daemon2.pem'}"
    for address in (url(port, certs, None), foreign, f"mqtt://127.0.0.1:{port}", f"mqtt://daemon:x@127.0.0.1:{port}"):

        async def sign_in(address: str = address) -> None:
            async with client(parse_endpoint(address), 1.5):
                pass

        with pytest.raises(aiomqtt.MqttError):
            asyncio.run(sign_in())


def test_a_broker_of_another_authority_is_not_trusted(port: int, certs: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", ["strut07"], ["127.0.0.1"], 90)
    address = f"mqtts://127.0.0.1:{port}?ca={tmp_path / 'other' / 'ca.pem'}&cert={certs / 'daemon.pem'}"

    async def sign_in() -> None:
        async with client(parse_endpoint(address)):
            pass

    with pytest.raises(aiomqtt.MqttError, match="certificate verify failed"):
        asyncio.run(sign_in())


def test_a_flashed_strut_joins(port: int, certs: Path, usb: Callable[..., UsbBoard], tmp_path: Path) -> None:
    shutil.copytree(certs, tmp_path / "certs")
    one = usb()

    async def birth() -> bytes:
        async with client(parse_endpoint(url(port, certs, "daemon"))) as daemon, asyncio.timeout(30.0):
            await daemon.subscribe(f"{TOPIC}/strut07/state", qos=1)
            async for message in daemon.messages:
                if b'"online": true' in bytes(message.payload):
                    return bytes(message.payload)
        raise AssertionError("no birth")

    try:
        extra = 'certificates = "certs"\nname = "127.0.0.1"\n'
        Flasher(job(one, tmp_path, port=port, extra=extra)).flash()
        assert b"strut07" in asyncio.run(birth())
    finally:
        one.unplug()


@pytest.mark.long
def test_a_strut_is_updated_over_the_air_through_mosquitto_and_nobody_but_the_daemon_can_do_that(
    port: int, certs: Path, usb: Callable[..., UsbBoard], tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flashed with its own certificate, offered to, permitted and proved over TLS, under the ACL of deploy/."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    shutil.copytree(certs, tmp_path / "certs")
    shutil.copy2(keys.signer.path.with_suffix(".pub"), tmp_path / "update.pub")
    extra = 'certificates = "certs"\nname = "127.0.0.1"\n\n[update]\nkey = "update.pub"\n'
    one = usb()
    Flasher(dataclasses.replace(job(one, tmp_path, port=port, extra=extra), link_s=30.0), snapshot()).flash()

    def fleet(name: str) -> FleetUpdate:
        return FleetUpdate(SPEC, parse_endpoint(url(port, certs, name)), keys.signer, firmware(), 20)

    # Another board's certificate: its offers reach nobody, whoever signed them, and it hears no answer.
    done, failed = asyncio.run(fleet("strut08").run(["strut07"]))
    assert done == [] and "does not answer" in failed["strut07"] and booted(one) == OLD
    done, failed = asyncio.run(fleet("daemon").run(["strut07"]))
    assert failed == {} and [(row.before, row.version) for row in done] == [(OLD, NEW)]
    assert (one.jail / "slot").read_text() == "b" and not (one.jail / "trial").exists()
    assert booted(one) == NEW


def test_a_key_that_is_not_the_certificates_is_refused(port: int, certs: Path) -> None:
    address = f"{url(port, certs, 'daemon')}&key={certs / 'strut07.key'}"
    with pytest.raises(UsageError, match=r"certificate .*daemon\.pem with key .*strut07\.key cannot be used"):
        parse_endpoint(address).tls_context()
