"""Judges every command by itself, on the wire before the board: range, slew, and whether the supervisor's state allows commands.

It knows nothing of the governor: it reads bytes that the daemon wrote to a serial line, and the robot's file.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from onboard.errors import WireError
from onboard.link.serial_frame import FrameReader
from onboard.link.wire import SETPOINT_PA, decode_command, ticks_difference
from onboard.link.wire_types import CommandFrame, MessageType
from onboard.robot import ActuatorBoard, Valves

ALLOWED = frozenset({"arming", "active", "teaching", "degraded"})
GRACE_S = 0.05  # between a supervisor's tick that ends a state and the issue of a command, as its time on the wire says it
NEIGHBOURS = 200  # commands among which the quickest tells how a board's ticks lie on the host's clock
ROUNDING_PA = 1.5 * SETPOINT_PA
CLOCK_S = 0.02  # by how much two commands may stand further apart than their times in the board's clock say


@dataclass(slots=True)
class Verdict:
    """What was seen on one line, and what of it broke a rule (reason -> count), with the first few cases in words."""

    commands: int = 0
    unsafe: Counter[str] = field(default_factory=Counter)
    cases: list[str] = field(default_factory=list)

    def add(self, reason: str, words: str) -> None:
        """One more command that broke a rule."""
        self.unsafe[reason] += 1
        if self.unsafe[reason] <= 5:
            self.cases.append(f"{reason}: {words}")


class CommandWatch:
    """All commands to one board. `hear` takes the bytes of its line, from any thread; times: host monotonic [s]."""

    def __init__(self, board: ActuatorBoard, valves: Valves) -> None:
        self.board, self._valves = board, valves
        self.verdict = Verdict()
        self._heard_s, self._issued_s, self._boots = array("d"), array("d"), array("q")
        self._reader, self._lock = FrameReader(), threading.Lock()
        self._last: tuple[int, int, np.ndarray] | None = None  # epoch, issue time [ticks], set-points [Pa]
        self._epoch = self._ended_epoch = -1
        self._ticks = 0

    def hear(self, data: bytes) -> None:
        """The next bytes that the daemon has written."""
        now_s = time.monotonic()
        with self._lock:
            for frame in self._reader.feed(data):
                if frame.kind == MessageType.COMMAND:
                    self._command(frame.payload, now_s)
                elif frame.kind in (MessageType.DISARM, MessageType.STOP):
                    self._last, self._ended_epoch = None, self._epoch
                elif frame.kind == MessageType.ARM:
                    self._last = None

    def _command(self, payload: bytes, now_s: float) -> None:
        name = self.board.id
        try:
            frame = decode_command(payload)
        except WireError as error:
            self.verdict.add("malformed", f"{name}: {error}")
            return
        self.verdict.commands += 1
        self._keep(frame, now_s)
        wanted_pa = frame.setpoints * SETPOINT_PA
        if len(wanted_pa) != self.board.channels:
            self.verdict.add("channels", f"{name}: {len(wanted_pa)} set-points for {self.board.channels} channels")
            return
        low, high = self._valves.min_pressure_pa - ROUNDING_PA, self._valves.max_pressure_pa + ROUNDING_PA
        if wanted_pa.min() < low or wanted_pa.max() > high:
            self.verdict.add("range", f"{name}: {wanted_pa.min():.0f} .. {wanted_pa.max():.0f} Pa")
        if not 0 < frame.ttl_ms <= self._valves.command_ttl_ms:
            self.verdict.add("life", f"{name}: lives for {frame.ttl_ms} ms")
        if frame.epoch == self._ended_epoch:
            self.verdict.add("stopped", f"{name}: epoch {frame.epoch} was stopped or disarmed on this very line")
        self._epoch = frame.epoch
        if self._last is not None and self._last[0] == frame.epoch:
            elapsed_s = ticks_difference(frame.issued_ticks_us, self._last[1]) / 1e6
            step_pa = float(np.abs(wanted_pa - self._last[2]).max())
            allowed_pa = self._valves.max_slew_pa_per_s * (max(elapsed_s, 0.0) + CLOCK_S) + ROUNDING_PA
            if step_pa > allowed_pa:
                self.verdict.add("slew", f"{name}: {step_pa:.0f} Pa within {1000 * elapsed_s:.1f} ms")
        self._last = (frame.epoch, frame.issued_ticks_us, wanted_pa)

    def _keep(self, frame: CommandFrame, now_s: float) -> None:
        """Remember when it was heard and when, in the board's ticks from its first command on, it was issued."""
        issued_s = 0.0
        if self._boots and self._boots[-1] == frame.boot_id:
            issued_s = self._issued_s[-1] + ticks_difference(frame.issued_ticks_us, self._ticks) / 1e6
        self._ticks = frame.issued_ticks_us
        self._heard_s.append(now_s)
        self._issued_s.append(issued_s)
        self._boots.append(frame.boot_id)

    def issue_times_s(self) -> np.ndarray:
        """When each command was issued (n,), host monotonic [s].

        A busy computer hears a line late, so the hearing alone would not do: a board's ticks are laid onto the host's clock by
        the command that took least time among its neighbours."""
        heard, issued, boots = (np.array(one) for one in (self._heard_s, self._issued_s, self._boots))
        out = np.empty(len(heard))
        if not len(out):
            return out
        ends = [*(np.flatnonzero(np.diff(boots)) + 1), len(heard)]
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            delay = heard[start:end] - issued[start:end]
            padded = np.pad(delay, NEIGHBOURS, constant_values=np.inf)
            least = sliding_window_view(padded, 2 * NEIGHBOURS + 1).min(axis=1)
            out[start:end] = issued[start:end] + least
        return out

    def judge_states(self, transitions: Iterable[tuple[float, str]]) -> None:
        """Compare with the supervisor's states: (time [s], state from then on), by time; before the first it is disarmed."""
        times, allowed = [-np.inf], [False]
        for t_s, state in transitions:
            times.append(t_s)
            allowed.append(state in ALLOWED)
        issued = self.issue_times_s()
        at = np.searchsorted(times, issued, side="right") - 1
        since = np.searchsorted(times, issued - GRACE_S, side="right") - 1
        # Within the grace any state that held meanwhile may have been the one that the command was issued in.
        permitted = np.concatenate([[0], np.cumsum(allowed)])
        for t_s in issued[permitted[at + 1] == permitted[since]]:
            self.verdict.add("state", f"{self.board.id}: a command at {t_s:.3f} s, when none was allowed")
