"""Nothing reaches an actuator that is not finite, inside limits, slew-limited, fresh and allowed by the supervisor's state."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onboard.errors import SafetyError
from onboard.messages import BoardReport, Setpoints
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.safety.governor import LONGEST_STEP_S, Governor
from onboard.safety.table import State

SPEC = load_robot(robot_file("manipulator"))
VALVES = SPEC.actuators
ROOT = Path(__file__).resolve().parents[2]
TICK_S = 1.0 / SPEC.rates.control_hz
CHANNELS = len(SPEC.structure.cylinders)


class ListeningSink:
    """Keeps what boards would have heard."""

    def __init__(self):
        self.sent, self.log = [], []

    def arm(self, epoch):
        self.log.append(("arm", epoch))

    def disarm(self):
        self.log.append("disarm")

    def send(self, setpoints):
        self.sent.append(setpoints)

    def stop(self):
        self.log.append("stop")

    def reports(self):
        return [
            BoardReport(board.id, 0.0, 1, 1, True, False, False, 0, 0, np.full(board.channels, 1e5 * (2 + k)))
            for k, board in enumerate(VALVES.boards[:-1])
        ]


def governed(pressure=3.5e5):
    sink = ListeningSink()
    governor = Governor(SPEC, sink)
    governor.arm(7, np.full(CHANNELS, pressure))
    return governor, sink


def wanted(value, t_s):
    return Setpoints(t_s, np.broadcast_to(np.asarray(value, dtype=float), (CHANNELS,)), "test")


@pytest.mark.parametrize("state", State)
def test_commands_pass_in_the_states_that_allow_them_only(state):
    governor, sink = governed()
    issued = governor.issue(1.0, wanted(3.6e5, 1.0), state)
    assert (issued is not None) == (state in (State.ARMING, State.ACTIVE, State.TEACHING, State.DEGRADED))
    assert len(sink.sent) == (issued is not None)


@pytest.mark.parametrize("state", [State.ARMING, State.DEGRADED])
def test_while_arming_or_degraded_the_last_values_are_held_whatever_is_asked(state):
    governor, sink = governed(3.1e5)
    for k in range(200):
        governor.issue(k * TICK_S, wanted(6e5, k * TICK_S) if k % 2 else None, state)
    assert len(sink.sent) == 200
    assert all((sent.value == 3.1e5).all() for sent in sink.sent)


def test_the_first_command_after_arming_is_what_was_measured():
    governor, sink = governed(2.2e5)
    governor.issue(5.0, wanted(6e5, 5.0), State.ACTIVE)
    assert (sink.sent[0].value == 2.2e5).all()


def test_measured_values_that_are_missing_start_from_the_safe_pressure():
    sink = ListeningSink()
    governor = Governor(SPEC, sink)
    start = governor.measured()
    assert np.isnan(start[-8:]).all() and (start[:8] == 2e5).all() and (start[24:32] == 5e5).all()
    governor.arm(1, start)
    governor.issue(0.0, wanted(3e5, 0.0), State.ACTIVE)
    assert (sink.sent[0].value[-8:] == VALVES.safe_pressure_pa).all()


@given(
    hnp.arrays(np.float64, (30, CHANNELS), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)),
    st.lists(st.floats(0.0, 0.3), min_size=30, max_size=30),
)
def test_whatever_is_asked_limits_and_slew_hold(values, gaps):
    governor, sink = governed(1.5e5)
    t_s = 0.0
    for value, gap in zip(values, gaps, strict=True):
        t_s += gap
        governor.issue(t_s, Setpoints(t_s, value, "fuzz"), State.ACTIVE)
    last_s, last = None, np.full(CHANNELS, 1.5e5)
    for sent in sink.sent:
        assert np.isfinite(sent.value).all()
        assert (sent.value >= VALVES.min_pressure_pa).all() and (sent.value <= VALVES.max_pressure_pa).all()
        step_s = 0.0 if last_s is None else min(sent.t_s - last_s, LONGEST_STEP_S)
        assert (np.abs(sent.value - last) <= VALVES.max_slew_pa_per_s * step_s + 1e-6).all()
        last_s, last = sent.t_s, sent.value


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_number_is_refused_the_last_good_command_goes_on_and_then_expires(bad):
    governor, sink = governed()
    governor.issue(0.0, wanted(3.5e5, 0.0), State.ACTIVE)
    value = np.full(CHANNELS, 3.5e5)
    value[17] = bad
    sent_at = []
    for k in range(1, 40):
        t_s = k * TICK_S
        if governor.issue(t_s, Setpoints(t_s, value, "broken"), State.ACTIVE) is not None:
            sent_at.append(t_s)
        assert governor.not_finite
    assert max(sent_at) <= VALVES.command_ttl_ms / 1000.0 < max(sent_at) + 2 * TICK_S
    assert governor.counts.not_finite == 39
    assert all((sent.value == 3.5e5).all() for sent in sink.sent)
    governor.issue(1.0, wanted(3.5e5, 1.0), State.ACTIVE)
    assert not governor.not_finite


def test_a_controller_that_falls_silent_lets_the_boards_time_out():
    governor, sink = governed()
    governor.issue(0.0, wanted(3.5e5, 0.0), State.ACTIVE)
    for k in range(1, 400):
        governor.issue(k * TICK_S, None, State.ACTIVE)
    assert sink.sent[-1].t_s <= VALVES.command_ttl_ms / 1000.0
    assert governor.counts.expired > 300


def test_commands_from_the_past_or_the_future_are_not_sent():
    governor, sink = governed()
    assert governor.issue(10.0, wanted(3.5e5, 9.0), State.ACTIVE) is None
    assert governor.issue(10.0, wanted(3.5e5, 11.0), State.ACTIVE) is None
    assert sink.sent == []


def test_a_command_of_the_wrong_shape_is_refused():
    governor, sink = governed()
    assert governor.issue(0.0, Setpoints(0.0, np.full(CHANNELS - 1, 3e5), "short"), State.ACTIVE) is None
    assert governor.counts.wrong_shape == 1 and sink.sent == []


def test_after_a_stop_or_disarm_old_commands_do_not_come_back():
    for end in ("stop", "disarm"):
        governor, sink = governed()
        governor.issue(0.0, wanted(3.5e5, 0.0), State.ACTIVE)
        getattr(governor, end)()
        assert sink.log == [("arm", 7), end]
        assert governor.issue(0.01, None, State.ACTIVE) is None
        assert governor.issued is None


def test_a_long_gap_does_not_earn_a_bigger_step():
    governor, sink = governed(2e5)
    governor.issue(0.0, wanted(2e5, 0.0), State.ACTIVE)
    governor.issue(30.0, wanted(6e5, 30.0), State.ACTIVE)
    assert sink.sent[-1].value[0] == pytest.approx(2e5 + VALVES.max_slew_pa_per_s * LONGEST_STEP_S)


def test_a_robot_without_actuators_has_nothing_to_govern():
    with pytest.raises(SafetyError, match="no actuators"):
        Governor(load_robot(robot_file("module_rig")), ListeningSink())


def test_issued_values_cannot_be_changed_by_who_reads_them():
    governor, sink = governed()
    governor.issue(0.0, wanted(3.5e5, 0.0), State.ACTIVE)
    with pytest.raises(ValueError):
        sink.sent[0].value[0] = 9e9
    with pytest.raises(ValueError):
        governor.issued[0] = 9e9


def test_no_other_code_names_or_calls_an_actuator_sink():
    """Outside the governors in safety/ nobody sends to, arms or stops anything called a sink."""
    for path in sorted((ROOT / "onboard").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith("onboard/safety/") and where.endswith("governor.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called_on = ast.unparse(node.func.value).lower()
                if node.func.attr in ("send", "arm", "disarm", "stop") and "sink" in called_on:
                    pytest.fail(f"{where}:{node.lineno} calls {ast.unparse(node.func)}: only the governor may")
