"""Certificates: made once, private, checked for dates, names, keys and modes, and good enough for a real handshake."""

from __future__ import annotations

import json
import shutil
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.errors import ConfigError, UsageError
from onboard.flash.certs import check, make
from onboard.flash.flasher import Flasher
from sim.flash.usb_board import UsbBoard
from tests.firmware.conftest import wait_until
from tests.firmware.slow_broker import SlowBroker
from tests.flash.support import job

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
BOARDS = ["strut07", "strut08"]


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "certs"
    assert make(folder, BOARDS, ["robot-host", "127.0.0.1"], 90) == ["ca", "broker", "daemon", *BOARDS]
    return folder


@pytest.fixture
def copy(certs: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(certs, tmp_path / "certs"))


def problems(folder: Path, hosts: tuple[str, ...] = ()) -> dict[str, str]:
    return {entry.name: entry.problem for entry in check(folder, BOARDS, hosts) if entry.problem}


def test_all_are_good_keys_are_private_and_nothing_is_made_twice(certs: Path) -> None:
    assert problems(certs, ("robot-host", "127.0.0.1")) == {}
    for key in certs.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = {path.name: path.read_bytes() for path in certs.iterdir()}
    assert make(certs, BOARDS, [], 90) == []
    assert {path.name: path.read_bytes() for path in certs.iterdir()} == before


def test_a_key_that_others_can_read(copy: Path) -> None:
    (copy / "strut07.key").chmod(0o640)
    assert "has mode 0640" in problems(copy)["strut07"]


def test_a_key_of_somebody_else(copy: Path) -> None:
    shutil.copy2(copy / "strut08.key", copy / "strut07.key")
    assert "belongs to another certificate" in problems(copy)["strut07"]


def test_a_certificate_of_another_name(copy: Path) -> None:
    for suffix in (".key", ".pem"):
        shutil.copy2(copy / f"strut08{suffix}", copy / f"strut07{suffix}")
    assert "bears another name" in problems(copy)["strut07"]


def test_a_name_that_begins_like_the_boards_is_another(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    make(folder, ["strut1", "strut11"], ["robot-host"], 90)
    for suffix in (".key", ".pem"):
        shutil.copy2(folder / f"strut11{suffix}", folder / f"strut1{suffix}")
    assert [one.problem for one in check(folder, ["strut1"]) if one.name == "strut1"] == ["bears another name than strut1"]


def test_a_certificate_by_another_authority(copy: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", ["strut07"], ["robot-host"], 90)
    for suffix in (".key", ".pem"):
        shutil.copy2(tmp_path / "other" / f"strut07{suffix}", copy / f"strut07{suffix}")
    assert "not by the authority" in problems(copy)["strut07"]


def test_a_certificate_that_is_missing_or_runs_out(copy: Path, tmp_path: Path) -> None:
    (copy / "strut08.pem").unlink()
    (copy / "broker.key").unlink()
    assert problems(copy) == {"strut08": "is missing", "broker": "its key is missing"}
    make(tmp_path / "short", BOARDS, ["h"], 7)
    assert all("runs out soon" in text for text in problems(tmp_path / "short").values())


def test_a_broker_of_another_host(certs: Path) -> None:
    assert problems(certs, ("elsewhere",)) == {"broker": "is not for the host elsewhere"}
    assert problems(certs, ("10.0.0.1",)) == {"broker": "is not for the host 10.0.0.1"}


@pytest.mark.parametrize("name", ["a b", "x\ny", "-subj", "/CN=x", "", "x,DNS:y"])
def test_names_that_would_be_options_or_more_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a certificate"):
        make(tmp_path / "none", BOARDS, [name], 90)
    assert not (tmp_path / "none").exists()


def test_no_certificate_without_the_authoritys_key(copy: Path) -> None:
    (copy / "ca.key").unlink()
    assert problems(copy) == {}  # a robot lives without it
    with pytest.raises(ConfigError, match=r"ca\.key"):
        make(copy, ["strut09"], [], 90)


def test_the_verb_needs_a_host_and_says_what_is_bad(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certs", "module_rig", "--out", str(copy.parent / "none")]) == 2
    assert "needs --host" in capsys.readouterr().err
    assert main(["certs", "module_rig", "--out", str(copy), "--check", "--json"]) == 2
    out, err = capsys.readouterr()
    assert "strut00.pem: is missing" in err
    assert {entry["name"] for entry in json.loads(out)["checked"]} >= {"ca", "broker", "strut00"}


def test_a_flashed_strut_signs_in_with_its_certificate(usb: Callable[..., UsbBoard], certs: Path, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "broker.pem", certs / "broker.key")
    context.load_verify_locations(certs / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    broker = SlowBroker(tls=context)
    shutil.copytree(certs, tmp_path / "certs")
    one = usb()
    try:
        extra = 'certificates = "certs"\nname = "robot-host"\n'
        Flasher(job(one, tmp_path, port=broker.port, extra=extra)).flash()
        topic = "prestress/manipulator/v1/strut07/state"
        wait_until(lambda: any(name == topic for name, _ in broker.publishes), 20.0, "a birth over TLS")
    finally:
        one.unplug()
        broker.close()
    kept = sorted((one.jail / "tls").iterdir())
    assert [path.name.split("-")[0] for path in kept] == ["ca", "cert", "key"]
    assert broker.connections >= 1
