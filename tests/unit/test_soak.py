"""The soak's judge knows an unsafe command when it hears one, and its trends are the ones that were put in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onboard.cli.main import main
from onboard.errors import UsageError
from onboard.link.serial_frame import encode_frame
from onboard.link.wire import SETPOINT_PA, encode_command
from onboard.link.wire_types import MessageType
from onboard.resources import robot_file
from onboard.robot import Valves, load_robot
from sim.one_module import one_module
from sim.soak import watch
from sim.soak.trend import Trend
from sim.soak.watch import CommandWatch

SPEC = load_robot(robot_file("manipulator"))
assert SPEC.actuators is not None
VALVES: Valves = SPEC.actuators
STEP_US = 12_500
SLEW_COUNTS = int(VALVES.max_slew_pa_per_s * STEP_US / 1e6 / SETPOINT_PA)


def command(counts: int | list[int], sequence: int = 1, epoch: int = 5, ttl_ms: int = VALVES.command_ttl_ms) -> bytes:
    values = [counts] * 8 if isinstance(counts, int) else counts
    return encode_frame(MessageType.COMMAND, encode_command(1, epoch, sequence, sequence * STEP_US, ttl_ms, values))


def stop(kind: MessageType = MessageType.STOP) -> bytes:
    return encode_frame(kind, encode_command(1, 5, 9, 0, 100))


def judged(*frames: bytes) -> dict[str, int]:
    one = CommandWatch(VALVES.boards[0], VALVES)
    for frame in frames:
        one.hear(frame)
    return dict(one.verdict.unsafe)


REST = int(VALVES.rest_pressure_pa / SETPOINT_PA)


def test_what_the_governor_lets_through_is_found_safe() -> None:
    assert judged(*(command(REST + k * SLEW_COUNTS, k) for k in range(1, 5)), stop(), command(REST, 6, epoch=6)) == {}


@pytest.mark.parametrize(
    ("reason", "frames"),
    [
        ("range", [command(int(VALVES.max_pressure_pa / SETPOINT_PA) + 20)]),
        ("range", [command([REST] * 7 + [int(VALVES.min_pressure_pa / SETPOINT_PA) - 20])]),
        ("slew", [command(REST, 1), command(REST + 4 * SLEW_COUNTS, 2)]),
        ("channels", [command([REST] * 7)]),
        ("life", [command(REST, ttl_ms=VALVES.command_ttl_ms + 1)]),
        ("stopped", [command(REST, 1), stop(), command(REST, 2)]),
        ("stopped", [command(REST, 1), stop(MessageType.DISARM), command(REST, 2)]),
        ("malformed", [encode_frame(MessageType.COMMAND, b"\x00" * 30)]),
    ],
)
def test_a_command_that_breaks_a_rule_is_counted(reason: str, frames: list[bytes]) -> None:
    assert judged(*frames) == {reason: 1}


STATES = [(2.0, "arming"), (2.5, "active"), (5.0, "safe"), (7.0, "disarmed"), (8.0, "arming")]


def judged_by_state(monkeypatch: pytest.MonkeyPatch, issued_s: list[float], late_s: list[float]) -> int:
    one, now = CommandWatch(VALVES.boards[0], VALVES), [0.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: now[0])
    for k, (issue_s, delay_s) in enumerate(zip(issued_s, late_s, strict=True)):
        now[0] = issue_s + delay_s
        one.hear(encode_frame(MessageType.COMMAND, encode_command(1, k, k, round(1e6 * issue_s), 200, [REST] * 8)))
    one.judge_states(STATES)
    return sum(one.verdict.unsafe.values())


@pytest.mark.parametrize(("at_s", "unsafe"), [(1.0, 1), (3.0, 0), (5.03, 0), (5.2, 1), (7.5, 1), (8.5, 0)])
def test_a_command_outside_the_states_that_allow_it_is_counted(monkeypatch: pytest.MonkeyPatch, at_s: float, unsafe: int) -> None:
    assert judged_by_state(monkeypatch, [at_s], [0.0]) == unsafe


def test_a_command_heard_late_is_judged_by_when_it_was_issued(monkeypatch: pytest.MonkeyPatch) -> None:
    issued_s = [3.0 + 0.0125 * k for k in range(160)]  # until just before the safe state
    late_s = [0.001] * 130 + [5.6 - t_s for t_s in issued_s[130:]]  # the last all at once, long after
    assert judged_by_state(monkeypatch, [], []) == 0
    assert judged_by_state(monkeypatch, issued_s, late_s) == 0
    assert judged_by_state(monkeypatch, [*issued_s, 5.3, 5.31], [*late_s, 0.4, 0.39]) == 2


def test_bytes_may_be_cut_anywhere() -> None:
    line = b"".join(command(REST, k) for k in range(1, 40))
    one = CommandWatch(VALVES.boards[0], VALVES)
    for at in range(0, len(line), 7):
        one.hear(line[at : at + 7])
    assert one.verdict.commands == 39 and not one.verdict.unsafe


def loops(ticks: int, overruns: int) -> list[dict[str, float]]:
    return [{"name": "control", "rate_hz": 80.0, "ticks": ticks, "overruns": overruns}]


def test_a_leak_and_a_drift_are_measured_and_settling_is_not() -> None:
    trend, rng = Trend(), np.random.default_rng(1)
    for k in range(101):
        t_s = 36.0 * k
        memory_mb = 150.0 + 3.0 * t_s / 3600.0 + (-40.0 if k < 5 else 0.0) + rng.normal(0.0, 0.05)
        trend.add(t_s, memory_mb, loops(round(79.2 * t_s), round(0.4 * t_s)))
    assert trend.memory_slope_mb_per_h() == pytest.approx(3.0, abs=0.2)
    assert trend.rate_drift_pct() == pytest.approx(0.5, abs=0.01)
    assert trend.rate_loss_pct() == pytest.approx(1.0, abs=0.01)
    assert Trend().memory_slope_mb_per_h() is None and Trend().rate_drift_pct() is None


def test_one_module_of_the_manipulator_is_a_robot_with_one_valve_board(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(one_module(robot_file("manipulator").read_text(), "small"))
    small = load_robot(tmp_path / "small.toml")
    assert small.actuators is not None
    assert (small.name, len(small.struts), len(small.structure.cylinders)) == ("small", 4, 8)
    assert [board.id for board in small.actuators.boards] == ["valve0"]
    assert small.actuators.max_pressure_pa == VALVES.max_pressure_pa
    with pytest.raises(UsageError, match="valves"):
        one_module(robot_file("module_rig").read_text(), "small")


@pytest.mark.parametrize("words", [["--minutes", "0"], ["--minutes", "nan"], ["--robot", "nobody"]])
def test_a_soak_that_cannot_be_is_refused_before_anything_starts(words: list[str]) -> None:
    assert main(["bench", "soak", *words]) == 2


@pytest.mark.long
@pytest.mark.realtime
def test_a_minute_of_faults_brings_forth_no_unsafe_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.toml").write_text(one_module(robot_file("manipulator").read_text(), "small"))
    status = main(["bench", "soak", "--robot", str(tmp_path / "small.toml"), "--minutes", "1", "--seed", "3", "--json"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["unsafe_commands"] == 0, result["cases"]
    assert status == 0, result
    assert result["commands"] > 1000 and result["fault_count"] >= 5
