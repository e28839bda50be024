"""How much of the last while was spent degraded: what keeps a robot from alternating with the active state for ever."""

from __future__ import annotations

from collections import deque


class DegradedTime:
    """Time in the degraded state within a sliding window of `window_s`; no clock of its own."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._spans: deque[tuple[float, float]] = deque()
        self._since_s: float | None = None

    def enter(self, t_s: float) -> None:
        """The degraded state begins."""
        self._since_s = t_s

    def leave(self, t_s: float) -> None:
        """It ends; nothing happens if it had not begun."""
        if self._since_s is not None:
            self._spans.append((self._since_s, t_s))
        self._since_s = None

    def forget(self) -> None:
        """A person has disarmed or reset the robot: what was before does not count."""
        self._spans.clear()
        self._since_s = None

    def spent_s(self, t_s: float) -> float:
        """Seconds degraded within the window that ends at `t_s`."""
        start_s = t_s - self._window_s
        while self._spans and self._spans[0][1] <= start_s:
            self._spans.popleft()
        spent = sum(end - max(begin, start_s) for begin, end in self._spans)
        return spent if self._since_s is None else spent + t_s - max(self._since_s, start_s)
