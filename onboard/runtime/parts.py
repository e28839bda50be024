"""The seam between the daemon and a kind of robot: what a kind must bring so that the daemon can run it.

The daemon owns clock, loops, supervisor's tick, recorder, control socket and shutdown; a kind owns what lies between its
packets and its actuators. A new kind is a new `Parts`, and nothing in this package changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from onboard.ports import Recorder
from onboard.runtime.control_socket import Handler
from onboard.runtime.loop import LoopGroup
from onboard.safety.supervisor import Notice, Supervisor, Transition
from onboard.safety.table import Event

Record = Callable[[Path | None], Awaitable[str]]  # start a recording at a path, or end the present one


@dataclass(slots=True)
class LoopTotals:
    """Ticks and overruns of all control loops, and the link's state, as the supervisor's tick gets them."""

    ticks: int = 0
    overruns: int = 0
    link_down: bool = False
    recorder_failed: bool = False


@dataclass(slots=True)
class Outcome:
    """What the last calls brought forth, for the daemon to log: transitions and notices, oldest first."""

    transitions: list[Transition] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


class Heart(Protocol):
    """The deterministic part: it knows no clock, no socket and no file, and records whatever reaches it."""

    @property
    def supervisor(self) -> Supervisor:
        """State, epoch and faults."""

    def supervisor_tick(self, t_s: float, totals: LoopTotals) -> None:
        """Judge all conditions and carry out what follows."""

    def request(self, t_s: float, event: Event) -> Transition:
        """A person's request; raises SafetyError with the reason when it is refused."""

    def take_outcome(self) -> Outcome:
        """Transitions and notices since the last call."""

    def record_to(self, recorder: Recorder) -> None:
        """Write everything from now on to another recorder."""


class Parts(Protocol):
    """One robot of some kind. The daemon calls `begin` before anything else, and again for each new recording."""

    @property
    def name(self) -> str:
        """The robot's name: its control socket and its recordings carry it."""

    @property
    def physics_hash(self) -> str:
        """What models of the robot depend on."""

    @property
    def supervisor_hz(self) -> float:
        """Rate of the supervisor's tick."""

    @property
    def heart(self) -> Heart:
        """The present heart."""

    @property
    def connected(self) -> bool:
        """Whether the link stands."""

    def warm_up(self) -> None:
        """Compile and load everything that a tick may need."""

    def begin(self, recorder: Recorder, epoch_start: int) -> None:
        """A fresh heart that records to `recorder` and numbers arm epochs from `epoch_start`."""

    def add_loops(self, loops: LoopGroup) -> None:
        """Add the loops that run before the supervisor's, in their order."""

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What runs in the background until cancelled; one that ends by itself ends the daemon."""

    def console(self, loops: LoopGroup, record: Record, quit_daemon: Callable[[], None]) -> Handler:
        """What answers requests on the control socket."""

    def supervised(self, live: bool) -> None:
        """After each supervisor's tick; `live`: actuators may move."""

    def close(self) -> None:
        """Give back what `tasks` do not, after they have ended."""
