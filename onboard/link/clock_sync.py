"""A board's clock against the host's: least round trip of eight exchanges, then a straight line with drift.

Pure state: the same exchanges give the same clock, live and in replay. The host sends its stamp t1; the board answers with
the ticks of receipt t2 and of sending t3; the answer arrives at t4. Middle of the host's interval and middle of the
board's interval are taken as one moment, which errs by at most half the round trip (t4 - t1) - (t3 - t2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from onboard.link.wire import ticks_difference
from onboard.link.wire_types import TICKS_MASK, SyncResponse

US_PER_S = 1e6
BLOCK = 8  # exchanges of which the one with the least round trip counts
POINTS = 12  # blocks that the line is fitted to
MAX_ROUND_TRIP_S = 0.5  # a slower exchange says too little to be kept
MAX_DRIFT = 300e-6  # crystals of both sides, with margin; more is a clock that jumped
DRIFT_SIGMA = 100e-6  # what is known of crystals beforehand: keeps slow, jittery exchanges from inventing a drift
ROUND_TRIP_FLOOR_S = 50e-6  # weighs exchanges: nothing is known better than this
JUMP_S = 5e-3  # beyond this, drift and round trip allowed for, a clock has jumped: start again


@dataclass(frozen=True, slots=True)
class _Point:
    board_s: float
    host_s: float
    round_trip_s: float


class ClockSync:
    """One board's clock since its boot. Board times are unwrapped ticks: integers [us] that never wrap."""

    def __init__(self) -> None:
        self.restarts = -1
        self.restart()

    def restart(self) -> None:
        """Forget everything: the board booted anew, or a clock jumped."""
        self.restarts += 1
        self.refused = 0
        self._reference: tuple[int, float] | None = None
        self._forget_points()

    def _forget_points(self) -> None:
        self._block: list[_Point] = []
        self._points: deque[_Point] = deque(maxlen=POINTS)
        self._anchor_board_s = self._anchor_host_s = self._drift = 0.0

    @property
    def ready(self) -> bool:
        """True once a block of exchanges has set the clock."""
        return bool(self._points)

    @property
    def drift_ppm(self) -> float:
        """How much faster host time runs than board time, parts per million; near 0 until exchanges can tell."""
        return self._drift * 1e6

    @property
    def round_trip_s(self) -> float:
        """Round trip of the newest block's best exchange [s]; infinity before the first."""
        return self._points[-1].round_trip_s if self._points else float("inf")

    def unwrap(self, ticks: int, received_s: float) -> int:
        """Board time [us] of 30-bit `ticks` in a message received at host time `received_s`.

        The host's own clock says how often the ticks have wrapped since the last message, so that a silence of any length
        is bridged; a message may be up to 8.9 minutes older than its arrival.
        """
        if self._reference is None:
            self._reference = (ticks, received_s)
            return ticks
        at, when_s = self._reference
        predicted = at + round((received_s - when_s) * US_PER_S)
        unwrapped = predicted + ticks_difference(ticks, predicted & TICKS_MASK)
        self._reference = (unwrapped, received_s)
        return unwrapped

    def add(self, response: SyncResponse, received_s: float) -> bool:
        """Take one exchange; False when it is refused (too slow, older than its own question, or not ours)."""
        sent_s = response.host_ns / 1e9
        busy_s = ticks_difference(response.sent_ticks_us, response.received_ticks_us) / US_PER_S
        round_trip_s = (received_s - sent_s) - busy_s
        if busy_s < 0.0 or not -1e-3 <= round_trip_s <= MAX_ROUND_TRIP_S:
            self.refused += 1
            return False
        left_us = self.unwrap(response.sent_ticks_us, received_s)
        board_s = left_us / US_PER_S - busy_s / 2.0
        self._block.append(_Point(board_s, (sent_s + received_s) / 2.0, max(round_trip_s, 0.0)))
        if len(self._block) == BLOCK:
            best = min(self._block, key=lambda point: point.round_trip_s)
            self._block = []
            if self._points and abs(self._host_s(best.board_s) - best.host_s) > self._allowed_s(best):
                self._forget_points()
                self.restarts += 1
            self._points.append(best)
            self._fit()
        return True

    def to_host_s(self, ticks: int) -> float:
        """Host monotonic time [s] of unwrapped board `ticks` [us]; meaningful once `ready`."""
        return self._host_s(ticks / US_PER_S)

    def to_ticks(self, host_s: float) -> int:
        """Board ticks (30 bits, wrapped) at host time `host_s`; meaningful once `ready`."""
        board_s = self._anchor_board_s + (host_s - self._anchor_host_s) / (1.0 + self._drift)
        return round(board_s * US_PER_S) & TICKS_MASK

    def _host_s(self, board_s: float) -> float:
        return self._anchor_host_s + (board_s - self._anchor_board_s) * (1.0 + self._drift)

    def _allowed_s(self, point: _Point) -> float:
        return JUMP_S + point.round_trip_s + MAX_DRIFT * abs(point.board_s - self._points[-1].board_s)

    def _fit(self) -> None:
        """Weighted least squares of (host - board) over board time; weights from round trips, a prior on the drift."""
        last = self._points[-1]
        weights = [1.0 / (p.round_trip_s / 2.0 + ROUND_TRIP_FLOOR_S) ** 2 for p in self._points]
        total = sum(weights)
        # Relative to the newest point, so that microseconds survive beside months of uptime.
        x = [p.board_s - last.board_s for p in self._points]
        y = [(p.host_s - last.host_s) - dx for p, dx in zip(self._points, x, strict=True)]
        mean_x = sum(w * v for w, v in zip(weights, x, strict=True)) / total
        mean_y = sum(w * v for w, v in zip(weights, y, strict=True)) / total
        spread = sum(w * (v - mean_x) ** 2 for w, v in zip(weights, x, strict=True))
        tilt = sum(w * (v - mean_x) * (u - mean_y) for w, v, u in zip(weights, x, y, strict=True))
        self._drift = min(max(tilt / (spread + DRIFT_SIGMA**-2), -MAX_DRIFT), MAX_DRIFT)
        self._anchor_board_s = last.board_s + mean_x
        self._anchor_host_s = last.host_s + mean_x + mean_y


class SyncSchedule:
    """When to ask which board for its clock; boards take turns so that exchanges do not queue behind each other."""

    def __init__(self, boards: int, period_s: float) -> None:
        self._next_s = [period_s * index / max(boards, 1) for index in range(boards)]
        self._started = False

    def due(self, now_s: float, interval_s: Callable[[int], float]) -> list[int]:
        """Boards to ask at `now_s`; `interval_s(board)` is how long after that its next turn comes."""
        if not self._started:
            self._started = True
            self._next_s = [now_s + offset for offset in self._next_s]
        chosen = []
        for board, at_s in enumerate(self._next_s):
            wait_s = interval_s(board)
            if now_s >= at_s:
                chosen.append(board)
                self._next_s[board] = max(at_s + wait_s, now_s + wait_s / 2.0)
            elif at_s - now_s > wait_s:  # the interval became shorter: a board that has just booted
                self._next_s[board] = now_s + wait_s
        return chosen
