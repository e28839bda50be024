"""What `prestress struts` tells of boards that run the real firmware behind a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from onboard.cli.main import main
from onboard.link.broker import EmbeddedBroker
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from tests.firmware.conftest import Feeder, boards, feed, wait_until

__all__ = ["boards", "feed"]
PREFIX = "prestress/module_rig"
RATE_HZ = 83.3


def strut(port: int, name: str, **changes: object) -> BoardConfig:
    options = {"board": "m5stickc_plus", "prefix": PREFIX, "broker_port": port, "drift_ppm": 40} | changes
    return BoardConfig(name, **options)  # type: ignore[arg-type]


def ask(port: int, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, object]]:
    status = main(["struts", "module_rig", "--broker", f"mqtt://127.0.0.1:{port}", "--json", *more])
    return status, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_struts_are_listed_with_missing_ones_faults_and_strangers(
    boards: Callable[..., VirtualBoard], feed: Callable[..., Feeder], capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedBroker(PREFIX, port=0) as broker:
        good = boards(strut(broker.port, "strut00"))
        wrong = boards(strut(broker.port, "strut01", board="nano_rp2040"))
        stranger = boards(strut(broker.port, "visitor"))
        gone = boards(strut(broker.port, "strut02"))
        feed(good, stranger, gone, rate_hz=RATE_HZ)
        for one in (good, wrong, stranger, gone):
            one.start()
        wait_until(lambda: all(one.registers.watchdog()[1] > 2 for one in (good, wrong, stranger, gone)), 20.0, "boots")
        time.sleep(2.0)  # births are at the broker
        gone.stop()
        time.sleep(0.5)  # and its last will
        status, told = ask(broker.port, capsys, "--seconds", "5")
    assert status == 1
    rows = {row["id"]: row for row in told["struts"]}  # type: ignore[attr-defined]
    assert list(rows) == ["strut00", "strut01", "strut02", "strut03"]
    first = rows["strut00"]
    assert first["online"] and first["chip_id"] == good.config.chip_id and first["fault"] == ""
    assert (first["board"], first["sensor"], first["firmware"]) == ("m5stickc_plus", "mpu6886", "0.1.0")
    assert 0.2 * RATE_HZ < first["rate_hz"] < 1.5 * RATE_HZ  # wide: on a busy machine the plant of this test comes late
    assert first["rssi_dbm"] == -50
    assert first["age_ms"] < 2000.0 and abs(first["drift_ppm"]) <= 500.0
    assert "has sensor 'lsm6dsox', the robot's file says mpu6886" in rows["strut01"]["fault"]
    assert not rows["strut02"]["online"] and not rows["strut03"]["online"]
    assert {"strut02", "strut03"} <= set(told["missing"]) and told["strangers"] == ["visitor"]  # type: ignore[call-overload]


def test_an_empty_broker_misses_all(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker(PREFIX, port=0) as broker:
        status, told = ask(broker.port, capsys, "--seconds", "0.5")
        assert main(["struts", "module_rig", "--broker", f"mqtt://127.0.0.1:{broker.port}", "--seconds", "0.5"]) == 1
    assert status == 1 and told["missing"] == ["strut00", "strut01", "strut02", "strut03"] and told["strangers"] == []
    assert "missing: strut00, strut01, strut02, strut03" in capsys.readouterr().out


def test_a_broker_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["struts", "module_rig", "--broker", "mqtt://user:geheim@127.0.0.1:9"]) == 4
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if "prestress" in line]
    assert len(lines) == 1 and "the broker is not reached" in lines[0] and "geheim" not in err


def test_without_a_broker_or_with_a_senseless_time_nothing_is_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRESTRESS_BROKER", raising=False)
    assert main(["struts", "module_rig"]) == 2
    for seconds in ("0", "-1", "nan", "1e9"):
        assert main(["struts", "module_rig", "--broker", "mqtt://h", "--seconds", seconds]) == 2
    assert main(["struts", "module_rig", "--broker", "http://h"]) == 2
