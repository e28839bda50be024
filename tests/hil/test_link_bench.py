"""The link benchmark: every strut of a robot through a broker; counts and ages are those of real firmware."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("micropython_run", reason="virtual boards need the 'sim' extra")

from onboard.cli.main import main
from onboard.link.broker import EmbeddedBroker
from onboard.resources import robot_file
from onboard.robot import load_robot
from sim.bench_link import Crowd, measure, measure_crowd

KEYS = {"struts", "rate_hz", "sent", "lost", "age_p50_ms", "age_p99_ms", "daemon_cpu_pct", "seed"}


def test_a_small_robot_is_heard_whole_and_its_samples_are_counted() -> None:
    path = robot_file("module_rig").resolve()
    spec = load_robot(path)
    result = measure(path, spec, 3.0, seed=1)
    assert result["struts"] == len(spec.struts) == 4
    # The sensors make as many samples as they should; what came of them is either accepted or counted as lost.
    assert result["sent"] == pytest.approx(4 * 3.0 * spec.imu.rate_hz, rel=0.25)
    assert 0 <= result["lost"] <= 0.2 * result["sent"]
    assert 0.0 < result["age_p50_ms"] <= result["age_p99_ms"] <= result["age_max_ms"]
    assert 0.0 < result["daemon_cpu_pct"] <= 100.0


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--seconds", "nan"], ["no_such_robot"]])
def test_wrong_words_start_nothing(words: list[str]) -> None:
    assert main(["bench", "link", *words]) == 2


@pytest.mark.long
@pytest.mark.realtime
def test_twenty_struts_for_a_minute_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "link", "--seconds", "60", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result.keys() >= KEYS
    assert result["struts"] == 20 and result["lost"] == 0
    assert result["age_p99_ms"] <= 40.0 and result["daemon_cpu_pct"] < 50.0


def test_a_crowd_without_firmware_is_heard_on_one_broker() -> None:
    path = robot_file("module_rig").resolve()
    with EmbeddedBroker("prestress/module_rig", 0) as broker:
        result = measure_crowd(Crowd(path, 6, 4, broker.endpoint, broker.pid), 3.0, seed=1)
    assert result["struts"] == 6 and not result["firmware"] and result["batch"] == 4
    assert result["sent"] == pytest.approx(6 * 3.0 * load_robot(path).imu.rate_hz, rel=0.25)
    assert 0 <= result["lost"] <= 0.2 * result["sent"]
    assert 0.0 < result["age_p50_ms"] <= result["age_p99_ms"]


@pytest.mark.parametrize("words", [["--struts", "0"], ["--struts", "4", "--batch", "9"], ["--broker", "mqtt://127.0.0.1:1"]])
def test_a_crowd_that_cannot_be_starts_nothing(words: list[str]) -> None:
    assert main(["bench", "link", *words]) == 2
