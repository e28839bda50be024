"""Every row and every request of the supervisor's table, and what must hold in all of them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.errors import SafetyError
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.safety import table
from onboard.safety.faults import LINES, Fault, line, page
from onboard.safety.supervisor import Supervisor
from onboard.safety.table import (
    DEGRADING,
    FAULT_OF,
    GOOD,
    REQUESTS,
    ROWS,
    Condition,
    Event,
    Hold,
    Row,
    State,
    hold_times_s,
)

SPEC = load_robot(robot_file("manipulator"))
HOLDS = hold_times_s(SPEC)
ROOT = Path(__file__).resolve().parents[2]
TICK_S = 0.025

WAYS = {
    State.DISARMED: [],
    State.ARMING: [Event.ARM],
    State.ACTIVE: [Event.ARM, GOOD],
    State.TEACHING: [Event.ARM, GOOD, Event.TEACH],
    State.DEGRADED: [Event.ARM, GOOD, GOOD | Condition.MODULE_MISSING],
    State.SAFE: [Event.STOP],
    State.FAULT: [Event.ARM, GOOD, GOOD | Condition.BOARD_OUTPUT],
}


def supervisor_in(state: State) -> tuple[Supervisor, float]:
    """A supervisor led into `state` by legal steps, with good conditions as last seen, and the time there."""
    supervisor, t_s = Supervisor(SPEC), 10.0
    supervisor.step(t_s, Condition.BOARDS_READY)
    for move in WAYS[state]:
        t_s += TICK_S
        if isinstance(move, Event):
            supervisor.request(t_s, move)
        else:
            supervisor.step(t_s, move)
    assert supervisor.state is state
    return supervisor, t_s


def wanting(row: Row) -> list[Condition]:
    """Condition words that meet `row`: one for each bit of any_of, or the one that all_of asks for."""
    if row.any_of:
        return [GOOD | bit for bit in Condition if bit & row.any_of]
    if row.hold is Hold.DEGRADED:
        return [GOOD | Condition.MODULE_MISSING]  # else recovery comes first
    return [row.all_of | (Condition.NONE if row.state is State.ARMING else GOOD)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.state}-{row.fault or 'well'}-{row.target}")
def test_every_row_fires_when_its_conditions_have_held_long_enough_and_not_before(row):
    for conditions in wanting(row):
        supervisor, t_s = supervisor_in(row.state)
        entered_s, hold_s = t_s, HOLDS[row.hold]
        while True:
            t_s += TICK_S
            moved = supervisor.step(t_s, conditions)
            if moved is not None:
                break
            assert t_s - entered_s <= hold_s + 2 * TICK_S, "the row never fires"
        assert (moved.source, moved.target, moved.fault) == (row.state, row.target, row.fault)
        assert t_s - entered_s >= hold_s - 1e-9
        if row.fault:
            assert page(row.fault) in moved.text and LINES[row.fault] in moved.text


@pytest.mark.parametrize("row", [r for r in ROWS if r.hold is not Hold.NONE and r.any_of], ids=lambda r: f"{r.state}-{r.fault}")
def test_a_gap_in_the_condition_starts_its_hold_time_anew(row):
    supervisor, t_s = supervisor_in(row.state)
    bit = next(bit for bit in Condition if bit & row.any_of)
    healthy = GOOD if row.state is not State.ARMING else Condition.BOARDS_READY
    healthy |= Condition.MODULE_MISSING if row.state is State.DEGRADED else Condition.NONE
    ticks = int(HOLDS[row.hold] / TICK_S) - 1
    for _ in range(5):
        for _ in range(ticks):
            t_s += TICK_S
            assert supervisor.step(t_s, healthy | bit) is None
        t_s += TICK_S
        assert supervisor.step(t_s, healthy) is None


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_request_is_either_in_the_table_or_refused_with_a_reason(state, event):
    supervisor, t_s = supervisor_in(state)
    row = next((row for row in REQUESTS if (row.state, row.event) == (state, event)), None)
    supervisor.step(t_s, supervisor.conditions & GOOD) if state is State.FAULT else None
    if row is None:
        with pytest.raises(SafetyError) as refused:
            supervisor.request(t_s, event)
        assert len(str(refused.value)) > 20
        assert supervisor.state is state
    elif row.refuse_if & supervisor.conditions:
        with pytest.raises(SafetyError):
            supervisor.request(t_s, event)
    else:
        moved = supervisor.request(t_s, event)
        assert (moved.source, moved.target, supervisor.state) == (state, row.target, row.target)


@pytest.mark.parametrize("row", [row for row in REQUESTS if row.refuse_if], ids=lambda row: f"{row.state}-{row.event}")
def test_every_blocking_condition_refuses_its_request_and_names_its_page(row):
    for bit in (bit for bit in Condition if bit & row.refuse_if):
        supervisor, t_s = supervisor_in(row.state)
        supervisor.conditions = GOOD | bit
        with pytest.raises(SafetyError, match=page(FAULT_OF[bit])):
            supervisor.request(t_s, row.event)
        assert supervisor.state is row.state


def test_arming_waits_until_all_boards_have_reported():
    supervisor = Supervisor(SPEC)
    supervisor.step(0.0, Condition.NONE)
    with pytest.raises(SafetyError, match="not every actuator board"):
        supervisor.request(0.0, Event.ARM)


@pytest.mark.parametrize("state", State)
def test_stop_is_accepted_in_every_state_under_every_condition(state):
    for conditions in (Condition.NONE, GOOD, Condition(sum(bit for bit in Condition))):
        supervisor, t_s = supervisor_in(state)
        supervisor.conditions = conditions
        moved = supervisor.request(t_s, Event.STOP)
        assert moved.target in (State.SAFE, State.FAULT)
        assert supervisor.state is moved.target


def test_a_stop_does_not_let_a_fault_off_lightly():
    supervisor, t_s = supervisor_in(State.FAULT)
    cause = supervisor.fault
    assert supervisor.request(t_s, Event.STOP).target is State.FAULT
    assert supervisor.fault is cause
    with pytest.raises(SafetyError, match="reset is refused"):
        supervisor.request(t_s, Event.RESET)


@pytest.mark.parametrize("state", [State.SAFE, State.FAULT])
def test_safe_and_fault_latch_whatever_conditions_do(state):
    supervisor, t_s = supervisor_in(state)
    for conditions in (GOOD, Condition.NONE, Condition(sum(bit for bit in Condition)), GOOD) * 20:
        t_s += 1.0
        assert supervisor.step(t_s, conditions) is None
        for event in (Event.ARM, Event.GO, Event.TEACH):
            with pytest.raises(SafetyError):
                supervisor.request(t_s, event)
    assert supervisor.state is state


def test_arming_again_takes_a_new_epoch_each_time():
    supervisor, t_s = Supervisor(SPEC, epoch_start=41), 0.0
    supervisor.step(t_s, Condition.BOARDS_READY)
    epochs = []
    for _ in range(3):
        epochs.append(supervisor.request(t_s, Event.ARM).epoch)
        supervisor.request(t_s, Event.STOP)
        supervisor.request(t_s, Event.RESET)
    assert epochs == [42, 43, 44]
    assert Supervisor(SPEC, epoch_start=(1 << 32) + 5).epoch == 5


def test_recorder_failure_and_single_struts_warn_but_control_goes_on():
    supervisor, t_s = supervisor_in(State.ACTIVE)
    warnings = Condition.RECORDER_FAILED | Condition.STRUT_MISSING | Condition.RING_WARPED | Condition.LINK_DOWN
    assert supervisor.step(t_s, GOOD | warnings, {Condition.STRUT_MISSING: "strut07"}) is None
    assert supervisor.state is State.ACTIVE
    notices = {notice.fault: notice.text for notice in supervisor.notices()}
    assert set(notices) == {Fault.RECORDER_FAILED, Fault.STRUT_MISSING, Fault.RING_WARPED, Fault.LINK_DOWN}
    assert "strut07" in notices[Fault.STRUT_MISSING]
    assert supervisor.notices() == []


def test_a_flickering_warning_is_said_once_in_a_while_only():
    supervisor, t_s = supervisor_in(State.ACTIVE)
    said = 0
    for k in range(400):  # 10 s
        supervisor.step(t_s + k * TICK_S, GOOD | (Condition.STRUT_MISSING if k % 2 else Condition.NONE))
        said += len(supervisor.notices())
    assert said == 2


def test_a_warning_that_comes_back_too_soon_and_stays_is_said_after_the_pause():
    supervisor, t_s = supervisor_in(State.ACTIVE)
    times = []
    for k in range(400):  # there at once, gone for a moment, back for good
        supervisor.step(t_s + k * TICK_S, GOOD | (Condition.NONE if 4 < k < 8 else Condition.STRUT_MISSING))
        times += [k * TICK_S for _ in supervisor.notices()]
    assert times == pytest.approx([0.0, 5.0])


def test_while_teaching_a_poor_estimate_is_a_warning_since_it_moves_nothing():
    supervisor, t_s = supervisor_in(State.TEACHING)
    assert supervisor.step(t_s, GOOD | DEGRADING) is None
    assert supervisor.state is State.TEACHING
    with pytest.raises(SafetyError):
        supervisor.request(t_s, Event.GO)


def test_time_never_runs_backwards():
    supervisor, t_s = supervisor_in(State.ACTIVE)
    for bad in (t_s - 1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="time"):
            supervisor.step(bad, GOOD)


def test_every_state_is_reached_and_left():
    assert table.unreachable() == set()


def test_every_condition_but_the_good_ones_stands_for_a_fault_of_the_same_name():
    assert {fault.name for fault in FAULT_OF.values()} == {bit.name for bit in Condition if not bit & GOOD}


def test_every_fault_can_happen():
    named = {row.fault for row in ROWS} | set(FAULT_OF.values()) | {Fault.STOP_REQUEST}
    assert named - {None} == set(Fault)


def test_every_fault_has_its_page_and_every_page_its_fault():
    pages = {path.stem for path in (ROOT / "docs" / "faults").glob("*.md")} - {"index"}
    assert pages == {fault.value for fault in Fault}
    for fault in Fault:
        text = (ROOT / page(fault)).read_text()
        assert text.startswith("# ") and LINES[fault] in text, f"{page(fault)} does not quote the line a person sees"
        for part in ("## What it means", "## What the robot did", "## What to do"):
            assert part in text, f"{page(fault)} lacks {part!r}"


def test_the_line_for_a_person_carries_particulars_and_the_page():
    assert line(Fault.BOARD_SILENT, "valve3") == ("an actuator board does not report (valve3) -> docs/faults/board_silent.md")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(Event), st.integers(0, 2 * max(Condition) - 1)), max_size=60))
def test_no_sequence_of_requests_and_conditions_drives_without_arming(moves):
    supervisor, t_s, armed = Supervisor(SPEC), 0.0, False
    for move in moves:
        t_s += TICK_S
        before = supervisor.state
        if isinstance(move, Event):
            try:
                supervisor.request(t_s, move)
                armed = move is Event.ARM or (armed and supervisor.state in table.LIVE)
            except SafetyError:
                assert supervisor.state is before
        else:
            supervisor.step(t_s, Condition(move))
        if supervisor.state in table.LIVE:
            assert armed
        if before in (State.SAFE, State.FAULT) and supervisor.state not in (State.SAFE, State.FAULT):
            assert move in (Event.DISARM, Event.RESET) and supervisor.state is State.DISARMED
