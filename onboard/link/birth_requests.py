"""When to ask which strut for its birth message: data without one are no use, and a lost one comes again only on request."""

from __future__ import annotations

from collections.abc import Callable

PATIENCE_S = 0.5  # a birth that is on its way gets this long to arrive
FIRST_S = 1.0  # between requests, doubling
LONGEST_S = 30.0


class BirthRequests:
    """One timer a strut; the pause between requests doubles while the answer does not help."""

    def __init__(self, struts: int) -> None:
        self._due_s: list[float | None] = [None] * struts
        self._pause_s = [FIRST_S] * struts

    def due(self, now_s: float, wanted: Callable[[int], bool]) -> list[int]:
        """Struts to ask at `now_s`; `wanted(strut)` says whose birth is missing."""
        chosen = []
        for strut, due_s in enumerate(self._due_s):
            if not wanted(strut):
                self._due_s[strut], self._pause_s[strut] = None, FIRST_S
            elif due_s is None:
                self._due_s[strut] = now_s + PATIENCE_S
            elif now_s >= due_s:
                chosen.append(strut)
                self._due_s[strut] = now_s + self._pause_s[strut]
                self._pause_s[strut] = min(2.0 * self._pause_s[strut], LONGEST_S)
        return chosen
