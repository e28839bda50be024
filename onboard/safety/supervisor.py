"""The supervisor: walks the transition table, latches, numbers arm epochs, says each step in one line; no clock, no I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from onboard.errors import SafetyError
from onboard.safety.degraded_time import DegradedTime
from onboard.safety.faults import Fault, line
from onboard.safety.table import FAULT_OF, GOOD, REQUESTS, ROWS, Condition, Event, Hold, Row, State, Supervised, hold_times_s

EPOCH_MODULUS = 1 << 32
NOTICE_GAP_S = 5.0  # the same warning again at the earliest after this long
RETOLD = (Condition.STRUT_PROBLEM,)  # conditions whose text is the news: another text is said although they hold already

_HINTS: dict[State, str] = {
    State.DISARMED: "the robot is disarmed: arm it first",
    State.ARMING: "the robot is arming: wait a moment",
    State.ACTIVE: "the robot is active already",
    State.TEACHING: "the robot is being taught: 'go NAME' or 'disarm' ends that",
    State.DEGRADED: "the robot is degraded and stands still: wait until it has recovered, or disarm",
    State.SAFE: "the robot is latched in its safe state: 'reset' (or 'disarm'), then 'arm'",
    State.FAULT: "the robot has a fault: remove its cause, 'reset', then 'arm'",
}


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of the supervisor. `text` is the line for a person; fault is None for steps that went as wanted."""

    t_s: float
    source: State
    target: State
    fault: Fault | None
    text: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that changes no state: a troubled condition has come."""

    t_s: float
    fault: Fault
    text: str


class Supervisor:
    """State, epoch and timers of one robot.

    epoch_start: where numbering of arm epochs begins; pass something that grows from run to run (seconds since 1970), so that
    commands of an earlier daemon are never valid again.
    """

    def __init__(self, spec: Supervised, epoch_start: int = 0) -> None:
        self.state = State.DISARMED
        self.epoch = epoch_start % EPOCH_MODULUS
        self.fault: Fault | None = None
        self.conditions = Condition.NONE
        self._holds = hold_times_s(spec)
        self._rows = {state: [(n, row) for n, row in enumerate(ROWS) if row.state is state] for state in State}
        self._requests = {(row.state, row.event): row for row in REQUESTS}
        self._since: dict[int, float] = {}  # row number -> when its bits were last continuously as it wants them
        self._last_s = -math.inf
        self._degraded = DegradedTime(spec.safety.degraded_window_s)
        self._noticed: dict[Condition, float] = {}
        self._unsaid = Condition.NONE
        self._told: dict[Condition, str] = {}
        self._notices: list[Notice] = []

    def step(self, t_s: float, conditions: Condition, details: Mapping[Condition, str] | None = None) -> Transition | None:
        """The transition that `conditions` cause at `t_s`, if any; at most one a step. `details`: particulars of single bits."""
        self._advance(t_s)
        details = details or {}
        rose, self.conditions = conditions & ~self.conditions, conditions
        fired = self._first_row(t_s, conditions)
        if fired is not None:
            bits = fired.any_of & conditions if fired.fault is not Fault.ARMING_FAILED else Condition.BOARDS_ARMED
            detail = "; ".join(details[bit] for bit in details if bit & bits)
            return self._go(t_s, fired.target, fired.fault, detail)
        self._notice(t_s, rose, details)
        return None

    def request(self, t_s: float, event: Event) -> Transition:
        """Carry out `event`; raises SafetyError with the reason if it is refused, and nothing has changed then.

        Requests are judged by the conditions of the last step.
        """
        self._advance(t_s)
        row = self._requests.get((self.state, event))
        if row is None:
            if event is Event.DISARM and self.state is State.DISARMED:
                raise SafetyError("disarm: the robot is disarmed already")
            raise SafetyError(f"{event.value}: {_HINTS[self.state]}")
        against = self.conditions & row.refuse_if
        if against:
            reasons = [line(FAULT_OF[bit]) for bit in Condition if bit & against]
            raise SafetyError(f"{event.value} is refused: " + "; ".join(reasons))
        lacking = row.require & ~self.conditions
        if lacking & Condition.BOARDS_READY:
            raise SafetyError(
                f"{event.value} is refused: not every actuator board is ready yet (heard, configured, its clock known)"
            )
        if lacking:
            raise SafetyError(f"{event.value} is refused: the actuator boards are not armed")
        if event is Event.ARM:
            self.epoch = (self.epoch + 1) % EPOCH_MODULUS
        return self._go(t_s, row.target, Fault.STOP_REQUEST if event is Event.STOP else None, "", event)

    def heed_epoch(self, epoch: int) -> None:
        """A board reports `epoch`: the next arm epoch will be greater, even if this computer's clock was set back."""
        self.epoch = max(self.epoch, epoch % EPOCH_MODULUS) if self.state is State.DISARMED else self.epoch

    def degraded_s(self, t_s: float) -> float:
        """Time spent degraded within the robot file's `safety.degraded_window_s` before `t_s`, since the last arming [s]."""
        return self._degraded.spent_s(t_s)

    def notices(self) -> list[Notice]:
        """Warnings since the last call, oldest first."""
        out, self._notices = self._notices, []
        return out

    def _advance(self, t_s: float) -> None:
        if not math.isfinite(t_s) or t_s < self._last_s:
            raise ValueError(f"supervisor time cannot go from {self._last_s} to {t_s} s")
        self._last_s = t_s

    def _first_row(self, t_s: float, conditions: Condition) -> Row | None:
        fired: Row | None = None
        for number, row in self._rows[self.state]:
            if not row.met(conditions):
                self._since.pop(number, None)
                continue
            since = self._since.setdefault(number, t_s)
            if fired is None and t_s - since >= self._holds[row.hold]:
                fired = row
        return fired

    def _go(self, t_s: float, target: State, fault: Fault | None, detail: str, event: Event | None = None) -> Transition:
        source, self.state = self.state, target
        if target is State.DEGRADED:
            self._degraded.enter(t_s)
        elif source is State.DEGRADED:
            self._degraded.leave(t_s)
        if target is State.DISARMED:  # a person has seen to it
            self._degraded.forget()
        self._since = {
            number: t_s for number, row in self._rows[target] if row.hold is not Hold.NONE and row.met(self.conditions)
        }
        if source is State.FAULT and target is State.FAULT:
            fault = self.fault  # a stop does not hide why the robot is in fault
        elif target in (State.SAFE, State.FAULT, State.DEGRADED) or source in (State.SAFE, State.FAULT, State.DEGRADED):
            self.fault = fault
        why = line(fault, detail) if fault else (f"request {event.value}" if event else "all is well")
        return Transition(t_s, source, target, fault, f"{source.value} -> {target.value}: {why}", self.epoch)

    def _notice(self, t_s: float, rose: Condition, details: Mapping[Condition, str]) -> None:
        self._unsaid = (self._unsaid | rose) & self.conditions  # one that comes back too soon is said later, if it stays
        for bit in RETOLD:
            if bit & self.conditions and self._told.get(bit, "") != details.get(bit, ""):
                self._unsaid |= bit
        for bit, fault in FAULT_OF.items():
            if bit & self._unsaid and t_s - self._noticed.get(bit, -math.inf) >= NOTICE_GAP_S:
                self._noticed[bit] = t_s
                self._unsaid &= ~bit
                self._told[bit] = details.get(bit, "")
                self._notices.append(Notice(t_s, fault, line(fault, details.get(bit, ""))))

    def troubles(self) -> list[Fault]:
        """The faults whose conditions hold now, for status displays."""
        return [fault for bit, fault in FAULT_OF.items() if bit & self.conditions & ~GOOD]
