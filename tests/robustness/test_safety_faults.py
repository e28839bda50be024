"""Faults around supervisor, monitor and governor: pressures stay in range, boards go safe in time, a person gets a line."""

import dataclasses

import numpy as np
import pytest

from onboard.errors import SafetyError
from onboard.link.wire_types import BoardFault
from onboard.messages import EstimateFlag, SensorFlag, Setpoints, frozen
from onboard.safety.faults import Fault
from onboard.safety.table import Event, State
from tests.robustness.simulated_arm import CONTROL_S, DEADLINE_S, SUPERVISOR_S, Arm
from tests.unit.control_support import SPEC, VALVES, bent, estimate


@pytest.fixture
def arm():
    one = Arm()
    one.go_on(0.5)
    one.ask(Event.ARM)
    one.until(State.ACTIVE, 0.5)
    one.go_on(2.0)
    yield one
    limits = np.array(one.pressures)
    assert (limits >= VALVES.min_pressure_pa - 1e-6).all() and (limits <= VALVES.max_pressure_pa + 1e-6).all()


def spoil_flags(flag, struts):
    flags = np.zeros(20, dtype=np.int64)
    flags[struts] = int(flag)
    return lambda t_s: estimate(t_s, strut_flags=flags)


def tilted(degrees):
    return lambda t_s: estimate(t_s, bent(degrees))


STOPPING = {
    "board_silent": (lambda arm: setattr(arm.sink.boards[2], "mute", True), State.SAFE, SPEC.safety.board_silence_ms / 1000.0),
    "board_latched": (lambda arm: setattr(arm.sink.boards[1], "state", "latched"), State.SAFE, 0.0),
    "stop_input": (lambda arm: setattr(arm.sink.boards[4], "stop_open", True), State.SAFE, 0.0),
    "board_output": (lambda arm: setattr(arm.sink.boards[0], "fault", int(BoardFault.OUTPUT)), State.FAULT, 0.0),
    "board_unconfigured": (lambda arm: setattr(arm.sink.boards[3], "fault", int(BoardFault.UNCONFIGURED)), State.SAFE, 0.0),
    "tilt_limit": (lambda arm: setattr(arm, "see", tilted(SPEC.safety.max_tilt_deg + 2.0)), State.SAFE, 0.0),
    "not_a_number": (
        lambda arm: setattr(arm, "want", lambda t_s: Setpoints(t_s, np.full(40, np.nan), "broken")),
        State.FAULT,
        VALVES.command_ttl_ms / 1000.0,
    ),
}


@pytest.mark.parametrize("name", STOPPING)
def test_each_stopping_fault_brings_all_boards_to_the_safe_pressure_in_time_and_says_why(arm, name):
    plant, target, allowed_s = STOPPING[name]
    plant(arm)
    took_s = arm.until(target, allowed_s + 3 * SUPERVISOR_S)
    assert took_s <= allowed_s + 3 * SUPERVISOR_S
    assert any(f"docs/faults/{name}.md" in line and f"-> {target.value}" in line for line in arm.lines)
    sent = len(arm.sink.sent)
    arm.go_on(1.0)
    assert len(arm.sink.sent) == sent, "nothing is sent after the stop"
    for board in arm.sink.boards:
        assert board.state in ("latched", "disarmed")
        assert board.pressure == pytest.approx(np.full(8, VALVES.safe_pressure_pa), abs=200.0)
    for event in (Event.ARM, Event.GO, Event.TEACH):
        with pytest.raises(SafetyError):
            arm.ask(event)


def test_a_pressure_that_does_not_follow_is_a_fault_after_its_time_out(arm):
    arm.sink.boards[2].stuck = True
    arm.want = lambda t_s: Setpoints(t_s, np.full(40, 5.0e5), "test")
    took_s = arm.until(State.FAULT, VALVES.tracking_timeout_ms / 1000.0 + 0.5)
    assert took_s >= VALVES.tracking_timeout_ms / 1000.0
    assert "valve2 channel" in arm.lines[-1] and "pressure_not_following" in arm.lines[-1]


def test_a_daemon_that_stops_lets_every_board_go_safe_by_itself(arm):
    arm.sink.sent.clear()
    start_s = arm.clock.now_s()
    while any(board.state == "active" for board in arm.sink.boards):
        arm.clock.advance(0.005)
        arm.sink.reports()
        assert arm.clock.now_s() - start_s <= DEADLINE_S + 0.02
    assert arm.sink.sent == []


def test_a_control_loop_that_hangs_while_the_supervisor_lives_ends_in_the_safe_state(arm):
    arm.want = lambda t_s: None
    arm.until(State.SAFE, (VALVES.command_ttl_ms + VALVES.deadline_ms) / 1000.0 + 3 * SUPERVISOR_S)
    assert "board_latched" in arm.lines[-1]


@pytest.mark.parametrize(
    ("name", "see"),
    [
        ("module_missing", spoil_flags(SensorFlag.MISSING, slice(8, 12))),
        ("estimate_lost", lambda t_s: estimate(t_s, flags=EstimateFlag.LOST)),
        ("estimate_uncertain", lambda t_s: estimate(t_s, flags=EstimateFlag.UNCERTAIN)),
        ("estimate_old", lambda t_s: None),
    ],
)
def test_losing_sight_of_the_arm_holds_its_pressures_and_comes_back_or_ends_safe(arm, name, see):
    healthy = arm.see
    arm.want = lambda t_s: Setpoints(t_s, np.full(40, 3.5e5 + 1e5 * np.sin(t_s)), "moving")
    arm.go_on(0.7)
    arm.see = see
    arm.until(State.DEGRADED, SPEC.safety.estimate_max_age_ms / 1000.0 + 3 * SUPERVISOR_S)
    assert f"docs/faults/{name}.md" in arm.lines[-1]
    held = arm.sink.sent[-1].value
    arm.go_on(3.0)
    assert (arm.sink.sent[-1].value == held).all()
    arm.see = healthy
    arm.until(State.ACTIVE, 0.7)
    arm.see = see
    arm.until(State.DEGRADED, 1.0)
    arm.until(State.SAFE, SPEC.safety.degraded_limit_s + 0.1)
    assert "degraded_too_long" in arm.lines[-1]


def test_sight_that_comes_and_goes_ends_in_the_safe_state_too(arm):
    healthy, lost = arm.see, lambda t_s: estimate(t_s, flags=EstimateFlag.LOST)
    start_s, spent_s = arm.clock.now_s(), 0.0
    while arm.supervisor.state is not State.SAFE:
        arm.see = lost
        arm.go_on(0.3)
        arm.see = healthy
        arm.go_on(0.9)  # half a second until it is active again, and then the next time
        spent_s += 0.8
        assert spent_s < SPEC.safety.degraded_budget_s + 1.0
    assert arm.clock.now_s() - start_s < SPEC.safety.degraded_window_s
    assert any("degraded_often" in line and "-> safe" in line for line in arm.lines)
    arm.ask(Event.RESET)
    arm.go_on(0.1)
    assert Fault.DEGRADED_OFTEN not in arm.supervisor.troubles()
    arm.ask(Event.ARM)
    arm.until(State.ACTIVE, 0.5)
    arm.see = lost
    arm.go_on(0.3)
    arm.see = healthy
    arm.until(State.ACTIVE, 0.8)


@pytest.mark.long
def test_rare_short_losses_of_sight_go_on_for_ever(arm):
    healthy, lost = arm.see, lambda t_s: estimate(t_s, flags=EstimateFlag.LOST)
    for _ in range(40):
        arm.see = lost
        arm.go_on(0.5)
        arm.see = healthy
        arm.go_on(5.5)  # a second degraded of every six: ten of the last sixty
        assert arm.supervisor.state is State.ACTIVE


@pytest.mark.parametrize(
    ("name", "see"),
    [
        ("strut_missing", spoil_flags(SensorFlag.STALE, [5])),
        ("strut_frozen", spoil_flags(SensorFlag.FROZEN, [5])),
        ("strut_saturated", spoil_flags(SensorFlag.SATURATED, [5])),
        ("strut_inconsistent", spoil_flags(SensorFlag.INCONSISTENT, [5])),
        ("strut_bus_error", spoil_flags(SensorFlag.BUS_ERROR, [5])),
        ("strut_unsynchronised", spoil_flags(SensorFlag.UNSYNCHRONISED, [5])),
        ("free_fall", spoil_flags(SensorFlag.FREE_FALL, slice(0, 15))),
        ("ring_warped", lambda t_s: estimate(t_s, flags=EstimateFlag.WARPED)),
    ],
)
def test_lesser_troubles_are_said_and_control_goes_on(arm, name, see):
    arm.see = see
    sent = len(arm.sink.sent)
    arm.go_on(5.0)
    assert arm.supervisor.state is State.ACTIVE
    assert len(arm.sink.sent) - sent == pytest.approx(5.0 / CONTROL_S, abs=1)
    assert sum(f"docs/faults/{name}.md" in line for line in arm.lines) == 1


def test_a_recording_that_fails_costs_the_recording_only(arm):
    arm.recorder_failed = True
    arm.go_on(30.0)
    assert arm.supervisor.state is State.ACTIVE
    assert sum("recorder_failed" in line for line in arm.lines) == 1


def test_one_estimate_that_is_not_a_number_changes_nothing(arm):
    healthy, broken = arm.see, estimate(cable_length_m=frozen(np.full(40, np.nan)))
    at_s = arm.clock.now_s() + 0.1
    arm.see = lambda t_s: dataclasses.replace(broken, t_s=t_s) if abs(t_s - at_s) < CONTROL_S else healthy(t_s)
    arm.go_on(2.0)
    assert arm.supervisor.state is State.ACTIVE


def test_loops_that_miss_ticks_hold_and_then_stop(arm):
    arm.go_on(2.0)

    def busy(t_s):
        arm.missed += 1
        return Setpoints(t_s, np.full(40, 3.5e5), "busy")

    arm.want = busy
    arm.until(State.DEGRADED, 2.5)
    assert "loop_overload" in arm.lines[-1]
    arm.until(State.SAFE, SPEC.safety.degraded_limit_s + 0.1)


def test_starting_again_takes_reset_and_arm_and_commands_of_the_old_epoch_are_history(arm):
    arm.ask(Event.STOP)
    arm.go_on(0.5)
    old = arm.sink.boards[0].epoch
    with pytest.raises(SafetyError, match="reset"):
        arm.ask(Event.ARM)
    arm.ask(Event.RESET)
    arm.go_on(0.1)
    arm.ask(Event.ARM)
    arm.until(State.ACTIVE, 0.5)
    assert all(board.epoch == arm.supervisor.epoch > old for board in arm.sink.boards)


def test_a_pressed_stop_keeps_the_robot_from_arming_until_it_is_released(arm):
    arm.sink.boards[4].stop_open = True
    arm.until(State.SAFE, 0.2)
    arm.go_on(0.5)
    arm.ask(Event.RESET)
    arm.go_on(0.1)
    with pytest.raises(SafetyError, match="stop_input"):
        arm.ask(Event.ARM)
    arm.sink.boards[4].stop_open = False
    arm.go_on(0.1)
    arm.ask(Event.ARM)
    arm.until(State.ACTIVE, 0.5)


def test_a_board_that_does_not_confirm_ends_arming_in_the_safe_state(arm):
    arm.ask(Event.DISARM)
    arm.go_on(0.2)
    arm.sink.boards[3].deaf = True
    arm.ask(Event.ARM)
    took_s = arm.until(State.SAFE, 3.2)
    assert took_s > 2.9
    assert "arming_failed" in arm.lines[-1]


def test_nothing_jumps_from_arming_to_driving(arm):
    steps = np.abs(np.diff(np.array([sent.value for sent in arm.sink.sent]), axis=0))
    assert steps.max() <= VALVES.max_slew_pa_per_s * CONTROL_S + 1e-6
    assert arm.sink.sent[0].value == pytest.approx(np.full(40, VALVES.safe_pressure_pa), abs=1.0)
