"""The doctor finds what is wrong with a computer or a robot, and says what to do about it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from onboard.cli.main import main
from onboard.doctor import computer, robot
from onboard.doctor.check import tried
from onboard.flash.certs import make
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import parse_endpoint
from onboard.resources import root
from onboard.robot import load_robot

RIG = root() / "robots" / "module_rig.toml"


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_a_good_computer_passes_and_every_line_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(RIG), "--seconds", "0.5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    names = [check["name"] for check in result["checks"]]
    assert {"interpreter", "packages", "realtime priority", "loop lateness", "kernels", "daemon", "broker"} <= set(names)
    assert all(set(check) == {"name", "ok", "message", "needed"} for check in result["checks"])
    assert result["ok"] is True


def test_a_broken_robot_file_fails_the_whole_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bent.toml"
    path.write_text(RIG.read_text().replace("rate_hz", "rate_herz", 1))
    assert main(["doctor", str(path), "--seconds", "0.5"]) == 1
    assert f"BAD   robot file: {path}: imu.rate_herz" in capsys.readouterr().out


def test_a_changed_or_missing_model_is_found(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"network")
    manifest = {"file": "net.onnx", "onnx_sha256": hashlib.sha256(b"network").hexdigest()}
    (tmp_path / "net.json").write_text(json.dumps(manifest))
    (tmp_path / "report.json").write_text("{}")
    assert robot.models(tmp_path).ok
    (tmp_path / "net.onnx").write_bytes(b"networt")
    assert "damaged or changed" in robot.models(tmp_path).message
    (tmp_path / "net.onnx").unlink()
    assert "net.onnx: is missing" in robot.models(tmp_path).message
    (tmp_path / "net.json").write_text("{")
    assert "is not JSON" in robot.models(tmp_path).message


def test_a_broker_that_answers_and_one_that_does_not() -> None:
    with EmbeddedBroker("prestress", port=0) as broker:
        endpoint = broker.endpoint
        assert robot.broker(endpoint).ok
    check = tried("broker", lambda: robot.broker(endpoint))
    assert not check.ok and str(endpoint) in check.message and "is it running" in check.message


def test_secrets_of_the_broker_never_show(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--seconds", "0.5", "--broker", "mqtt://me:sesame@127.0.0.1:9"])
    out = capsys.readouterr()
    assert "sesame" not in out.out + out.err
    assert parse_endpoint("mqtt://me:sesame@127.0.0.1:9").password == "sesame"


def test_a_named_serial_port_that_is_not_there(tmp_path: Path) -> None:
    text = (root() / "robots" / "manipulator.toml").read_text()
    path = tmp_path / "arm.toml"
    path.write_text(text.replace('id = "valve0"', 'id = "valve0", port = "/dev/no-such-port"', 1))
    check = robot.serial_ports(load_robot(path))
    assert not check.ok and "valve0: there is no /dev/no-such-port" in check.message


def test_certificates_are_judged_for_every_board(tmp_path: Path) -> None:
    spec = load_robot(RIG)
    make(tmp_path / "certs", spec.struts, ["127.0.0.1"], 3650)
    assert robot.certificates(tmp_path / "certs", spec, ["127.0.0.1"]).ok
    (tmp_path / "certs" / f"{spec.struts[1]}.pem").unlink()
    check = robot.certificates(tmp_path / "certs", spec, ["127.0.0.1"])
    assert not check.ok and spec.struts[1] in check.message and "prestress certs" in check.message


def test_little_memory_and_a_full_disk_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000000 kB\nMemAvailable: 204800 kB\n")
    assert computer.memory(meminfo).message.startswith("200 MB available")
    monkeypatch.setattr(computer.shutil, "disk_usage", lambda _: SimpleNamespace(free=5e8))
    check = computer.disk(tmp_path)
    assert not check.ok and not check.needed and "0.50 GB free" in check.message


def test_a_power_saving_governor_is_only_a_note(tmp_path: Path) -> None:
    (tmp_path / "cpu0" / "cpufreq").mkdir(parents=True)
    file = tmp_path / "cpu0" / "cpufreq" / "scaling_governor"
    file.write_text("powersave\n")
    check = computer.governor(tmp_path)
    assert not check.ok and not check.needed and "powersave" in check.message
    file.write_text("performance\n")
    assert computer.governor(tmp_path).ok


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--seconds", "nan"], ["--certs", "x"], ["nobody"]])
def test_wrong_words_are_refused(words: list[str]) -> None:
    assert main(["doctor", *words]) == 2
