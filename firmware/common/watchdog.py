"""The hardware watchdog, fed only while every part that must advance has advanced lately."""

import machine

from common import ticks

TIMEOUT_MS = 8000  # the RP2040's hardware cannot wait longer than 8388 ms


class Watchdog:
    """Parts call `beat(name)`; `feed()` passes it on only when none of them is late."""

    def __init__(self, limits_ms: dict[str, int], timeout_ms: int = TIMEOUT_MS) -> None:
        now = ticks.now()
        self._limits_us = {name: ms * 1000 for name, ms in limits_ms.items()}
        self._beats = {name: now for name in limits_ms}
        self._hardware = machine.WDT(timeout=timeout_ms)
        self.late = ""  # the part that keeps the watchdog hungry, for the log

    def beat(self, name: str) -> None:
        """The part `name` has done a full turn."""
        self._beats[name] = ticks.now()

    def feed(self) -> bool:
        """Feed the hardware unless a part is late; call it at least every second."""
        now = ticks.now()
        for name, limit_us in self._limits_us.items():
            if ticks.diff(now, self._beats[name]) > limit_us:
                self.late = name
                return False
        self.late = ""
        self._hardware.feed()
        return True
