"""Host time of a board's stamps: by clock synchronisation, before that by the fastest arrivals, and without jumps."""

from __future__ import annotations

from onboard.link.clock_sync import MAX_DRIFT, US_PER_S, ClockSync

ASSUMED_LATENCY_S = 0.005  # of the fastest arrivals, before synchronisation (reference measurement: p50 0.5 to 6 ms)
MAX_SLEW = 0.02  # corrections stretch time by at most this share, so that integrated rates stay right
STEP_S = 0.005  # an error larger than this and a round trip is put right at once


class BoardTime:
    """Maps one board's unwrapped ticks to host time; fed in the order of arrival.

    Until synchronisation is ready (`synchronised` false), the least difference between arrival and stamp stands for the
    offset: a message that comes late is thereby known to be old. It may rise by MAX_DRIFT, so that it follows the drift.
    """

    def __init__(self) -> None:
        self.sync = ClockSync()
        self.steps = 0
        self._forget()

    def _forget(self) -> None:
        self._fastest_s: float | None = None
        self._fastest_at_s = 0.0
        self._offset_s: float | None = None
        self._offset_at_s = 0.0
        self._was_ready = False

    def restart(self) -> None:
        """The board booted: its ticks say nothing about the ones before."""
        self.sync.restart()
        self._forget()

    @property
    def synchronised(self) -> bool:
        """False while times are only estimated from arrivals."""
        return self.sync.ready

    def host_s(self, ticks: int, received_s: float) -> float:
        """Host time [s] of unwrapped board `ticks` [us] in a message received at `received_s`."""
        board_s = ticks / US_PER_S
        arrival = received_s - board_s
        if self._fastest_s is None:
            self._fastest_s = arrival
        else:
            risen = self._fastest_s + MAX_DRIFT * max(received_s - self._fastest_at_s, 0.0)
            self._fastest_s = min(risen, arrival)
        self._fastest_at_s = received_s
        ready = self.sync.ready
        doubt_s = 0.0
        if ready:
            # An exchange errs by at most half its round trip, and no message arrives before it was stamped.
            middle = self.sync.to_host_s(ticks) - board_s
            doubt_s = self.sync.round_trip_s
            target = max(min(middle, self._fastest_s), middle - doubt_s / 2.0)
        else:
            target = self._fastest_s - ASSUMED_LATENCY_S
        if self._offset_s is None:
            self._offset_s = target
        elif ready != self._was_ready or abs(target - self._offset_s) > STEP_S + doubt_s:
            self.steps += 1
            self._offset_s = target
        else:
            reach = MAX_SLEW * max(board_s - self._offset_at_s, 0.0)
            self._offset_s += min(max(target - self._offset_s, -reach), reach)
        self._was_ready = ready
        self._offset_at_s = max(board_s, self._offset_at_s)
        return board_s + self._offset_s
