"""The supervisor's transition table as data: states, condition bits, requests, and the rows that join them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Protocol

from onboard.safety.faults import LINES, Fault


class State(StrEnum):
    """Where the robot is; only ARMING, ACTIVE, TEACHING and DEGRADED let commands through."""

    DISARMED = "disarmed"  # boards disarmed, nothing is sent
    ARMING = "arming"  # boards are asked to arm; measured values are held
    ACTIVE = "active"  # the controller drives
    TEACHING = "teaching"  # compliant: a hand may move the arm
    DEGRADED = "degraded"  # the last issued values are held until the cause goes or time runs out
    SAFE = "safe"  # boards are in the robot file's safe state and latched
    FAULT = "fault"  # as SAFE, and the cause must go before a reset is accepted


class Event(StrEnum):
    """What a person or a program may ask for."""

    ARM = "arm"
    DISARM = "disarm"
    GO = "go"
    TEACH = "teach"
    STOP = "stop"
    RESET = "reset"


class Condition(IntFlag):
    """Condition bits, set by safety/monitor.py once a tick. READY and ARMED are good news, all others trouble."""

    NONE = 0
    BOARDS_READY = 1 << 0  # every board reports, is configured, and its clock is known
    BOARDS_ARMED = 1 << 1  # every board reports itself armed under the present epoch
    ESTIMATE_OLD = 1 << 2
    ESTIMATE_UNCERTAIN = 1 << 3
    ESTIMATE_LOST = 1 << 4
    MODULE_MISSING = 1 << 5
    STRUT_MISSING = 1 << 6
    STRUT_FROZEN = 1 << 7
    STRUT_SATURATED = 1 << 8
    STRUT_INCONSISTENT = 1 << 9
    STRUT_BUS_ERROR = 1 << 10
    FREE_FALL = 1 << 11
    RING_WARPED = 1 << 12
    TILT_LIMIT = 1 << 13
    NOT_A_NUMBER = 1 << 14
    BOARD_SILENT = 1 << 15
    BOARD_LATCHED = 1 << 16
    BOARD_OUTPUT = 1 << 17
    BOARD_UNCONFIGURED = 1 << 18
    STOP_INPUT = 1 << 19
    PRESSURE_NOT_FOLLOWING = 1 << 20
    LOOP_OVERLOAD = 1 << 21
    LINK_DOWN = 1 << 22
    PACKETS_REFUSED = 1 << 23
    RECORDER_FAILED = 1 << 24
    STRUT_SETTLING = 1 << 25
    STRUT_UNSYNCHRONISED = 1 << 26
    STRUT_PROBLEM = 1 << 27
    DEGRADED_OFTEN = 1 << 28  # more time degraded within the window than the robot's file allows
    PLAN_EXPIRED = 1 << 29  # there is a way to go, and no plan to go by
    ROBOT_STUCK = 1 << 30  # a warning: it is being freed, or waits for a person after too many tries
    ROBOT_TIPPED = 1 << 31  # the same on its end


GOOD = Condition.BOARDS_READY | Condition.BOARDS_ARMED
FAULT_OF: dict[Condition, Fault] = {bit: Fault[bit.name] for bit in Condition if bit.name and not bit & GOOD}
"""The fault that each troubled condition bit stands for: same name, checked at import."""

DEGRADING = (
    Condition.ESTIMATE_OLD
    | Condition.ESTIMATE_UNCERTAIN
    | Condition.ESTIMATE_LOST
    | Condition.MODULE_MISSING
    | Condition.LOOP_OVERLOAD
    | Condition.PLAN_EXPIRED
)
"""Trouble with knowing where the robot is or how to go on: standing still is safe, so there is time to recover."""

BLOCKS_ARMING = (
    Condition.STRUT_SETTLING
    | Condition.STRUT_UNSYNCHRONISED
    | Condition.ESTIMATE_OLD
    | Condition.ESTIMATE_LOST
    | Condition.MODULE_MISSING
    | Condition.TILT_LIMIT
    | Condition.NOT_A_NUMBER
    | Condition.BOARD_SILENT
    | Condition.BOARD_OUTPUT
    | Condition.BOARD_UNCONFIGURED
    | Condition.STOP_INPUT
)
BLOCKS_RESET = Condition.BOARD_OUTPUT | Condition.STOP_INPUT
BLOCKS_TEACHING = DEGRADING


class Hold(StrEnum):
    """How long a row's condition must have lasted without a gap; values come from the robot's file."""

    NONE = "none"
    NOT_A_NUMBER = "not_a_number"
    RECOVERY = "recovery"
    ARMING = "arming"
    DEGRADED = "degraded"


ARMING_LIMIT_S = 3.0
RECOVERY_S = 0.5


class Commanded(Protocol):
    """Actuators whose commands expire."""

    @property
    def command_ttl_ms(self) -> int: ...


class Limits(Protocol):
    """How long the degraded state may last, and over which window it is added up [s]."""

    @property
    def degraded_limit_s(self) -> float: ...
    @property
    def degraded_window_s(self) -> float: ...


class Supervised(Protocol):
    """What the supervisor must know of a robot, whatever its kind."""

    @property
    def actuators(self) -> Commanded | None: ...
    @property
    def safety(self) -> Limits: ...


def hold_times_s(spec: Supervised) -> dict[Hold, float]:
    """Seconds of every hold for one robot."""
    ttl_ms = spec.actuators.command_ttl_ms if spec.actuators else 100
    return {
        Hold.NONE: 0.0,
        Hold.NOT_A_NUMBER: ttl_ms / 1000.0,
        Hold.RECOVERY: RECOVERY_S,
        Hold.ARMING: ARMING_LIMIT_S,
        Hold.DEGRADED: spec.safety.degraded_limit_s,
    }


@dataclass(frozen=True, slots=True)
class Row:
    """In `state`, when (any bit of `any_of`) or, with `any_of` empty, (no bit of `none_of` and all bits of `all_of`), for `hold`.

    An empty row (no masks) depends on the time spent in the state alone. The first row that fires wins.
    """

    state: State
    target: State
    fault: Fault | None
    any_of: Condition = Condition.NONE
    all_of: Condition = Condition.NONE
    none_of: Condition = Condition.NONE
    hold: Hold = Hold.NONE

    def met(self, conditions: Condition) -> bool:
        """True if the bits of this row are as it wants them."""
        if self.any_of:
            return bool(conditions & self.any_of)
        return not conditions & self.none_of and (conditions & self.all_of) == self.all_of


@dataclass(frozen=True, slots=True)
class RequestRow:
    """`event` in `state` leads to `target`, unless a bit of `refuse_if` is set or one of `require` is missing."""

    state: State
    event: Event
    target: State
    refuse_if: Condition = Condition.NONE
    require: Condition = Condition.NONE


LIVE = (State.ARMING, State.ACTIVE, State.TEACHING, State.DEGRADED)
_STOPS: tuple[tuple[Condition, State, Hold], ...] = (
    (Condition.STOP_INPUT, State.SAFE, Hold.NONE),
    (Condition.BOARD_OUTPUT, State.FAULT, Hold.NONE),
    (Condition.BOARD_SILENT, State.SAFE, Hold.NONE),
    (Condition.BOARD_UNCONFIGURED, State.SAFE, Hold.NONE),
    (Condition.TILT_LIMIT, State.SAFE, Hold.NONE),
    (Condition.NOT_A_NUMBER, State.FAULT, Hold.NOT_A_NUMBER),
)
_STOPS_ARMED: tuple[tuple[Condition, State, Hold], ...] = (
    (Condition.BOARD_LATCHED, State.SAFE, Hold.NONE),  # while arming, boards may still be latched from before
    (Condition.PRESSURE_NOT_FOLLOWING, State.FAULT, Hold.NONE),
)
_DEGRADING_BITS = tuple(bit for bit in Condition if bit & DEGRADING)

ROWS: tuple[Row, ...] = (
    *(Row(state, target, FAULT_OF[bit], any_of=bit, hold=hold) for state in LIVE for bit, target, hold in _STOPS),
    *(Row(state, target, FAULT_OF[bit], any_of=bit, hold=hold) for state in LIVE[1:] for bit, target, hold in _STOPS_ARMED),
    Row(State.ARMING, State.ACTIVE, None, all_of=GOOD, none_of=DEGRADING | BLOCKS_ARMING),
    Row(State.ARMING, State.SAFE, Fault.ARMING_FAILED, hold=Hold.ARMING),
    *(Row(State.ACTIVE, State.DEGRADED, FAULT_OF[bit], any_of=bit) for bit in _DEGRADING_BITS),
    Row(State.DEGRADED, State.SAFE, Fault.DEGRADED_OFTEN, any_of=Condition.DEGRADED_OFTEN),
    Row(State.DEGRADED, State.ACTIVE, None, none_of=DEGRADING | Condition.NOT_A_NUMBER, hold=Hold.RECOVERY),
    Row(State.DEGRADED, State.SAFE, Fault.DEGRADED_TOO_LONG, hold=Hold.DEGRADED),
)
"""Transitions that conditions cause. In TEACHING the estimate moves nothing, so its troubles are warnings there."""

REQUESTS: tuple[RequestRow, ...] = (
    RequestRow(State.DISARMED, Event.ARM, State.ARMING, refuse_if=BLOCKS_ARMING, require=Condition.BOARDS_READY),
    RequestRow(State.ARMING, Event.DISARM, State.DISARMED),
    RequestRow(State.ACTIVE, Event.DISARM, State.DISARMED),
    RequestRow(State.TEACHING, Event.DISARM, State.DISARMED),
    RequestRow(State.DEGRADED, Event.DISARM, State.DISARMED),
    RequestRow(State.SAFE, Event.DISARM, State.DISARMED),
    RequestRow(State.SAFE, Event.RESET, State.DISARMED),
    RequestRow(State.FAULT, Event.RESET, State.DISARMED, refuse_if=BLOCKS_RESET),
    RequestRow(State.ACTIVE, Event.TEACH, State.TEACHING, refuse_if=BLOCKS_TEACHING),
    RequestRow(State.ACTIVE, Event.GO, State.ACTIVE, refuse_if=DEGRADING),
    RequestRow(State.TEACHING, Event.GO, State.ACTIVE, refuse_if=DEGRADING),
    *(RequestRow(state, Event.STOP, State.FAULT if state is State.FAULT else State.SAFE) for state in State),
)
"""Requests that may be accepted; every other pair of state and event is refused with a reason."""


def unreachable() -> set[State]:
    """States that no chain of rows and requests reaches from DISARMED; empty in a sound table."""
    reached = {State.DISARMED}
    edges = {(row.state, row.target) for row in ROWS} | {(row.state, row.target) for row in REQUESTS}
    while True:
        new = {target for source, target in edges if source in reached} - reached
        if not new:
            return set(State) - reached
        reached |= new


def _check() -> None:
    missing = set(Fault) - set(LINES)
    if missing:
        raise RuntimeError(f"faults without a line for a person: {sorted(missing)}")
    if unreachable():
        raise RuntimeError(f"states that cannot be reached: {sorted(unreachable())}")
    pairs = [(row.state, row.event) for row in REQUESTS]
    if len(set(pairs)) != len(pairs):
        raise RuntimeError("a pair of state and request stands twice in the table")
    ways = {(row.state, row.target) for row in ROWS} | {(row.state, row.target) for row in REQUESTS}
    dead = [state for state in State if not any(source is state and target is not state for source, target in ways)]
    if dead:
        raise RuntimeError(f"states without a way out: {dead}")


_check()
