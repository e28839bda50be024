"""How long a sample takes from the plant to a packet at a subscriber of the broker, found again there by its content."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from onboard.errors import WireError
from onboard.link.wire import decode_imu

KEPT = 1024  # samples of one board that may still come, about ten seconds
COMPARED_BYTES = 12  # of a sample: acceleration and rate, in which noise makes every sample its own; temperature comes seldom
SKIP_S = 2.0  # at the start: the first packets carry what had waited


class BoardLatency:
    """Latencies of one board's samples. fed: over USB; then the way to the register is timed apart."""

    def __init__(self, fed: bool) -> None:
        self.fed = fed
        self.lost = 0  # samples that never came in a packet
        self.total_s: list[float] = []
        self.to_register_s: list[float] = []
        self.to_packet_s: list[float] = []
        self._waiting: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._taken: OrderedDict[int, float] = OrderedDict()
        self._arrived: OrderedDict[int, float] = OrderedDict()
        self._start_s = math.inf

    def taken(self, t_s: float, counter: int, raw: bytes) -> None:
        """The plant has taken a sample, host time `t_s`."""
        self._start_s = min(self._start_s, t_s)
        self._waiting[raw[:COMPARED_BYTES]] = (t_s, counter)
        self._taken[counter] = t_s
        while len(self._waiting) > KEPT:
            self._waiting.popitem(last=False)
            self.lost += 1
        while len(self._taken) > KEPT:
            self._taken.popitem(last=False)

    def registered(self, counter: int, t_s: float) -> None:
        """The sample `counter` was in the board's register file at host time `t_s`."""
        if (taken_s := self._taken.get(counter)) is not None and t_s - self._start_s > SKIP_S:
            self.to_register_s.append(t_s - taken_s)
            if (arrived_s := self._arrived.get(counter)) is not None:
                self.to_packet_s.append(arrived_s - t_s)
            else:
                self._arrived[counter] = -t_s  # the packet is on its way

    def packet(self, payload: bytes, received_s: float) -> None:
        """An IMU frame of the board has come."""
        try:
            raw = decode_imu(payload).raw
        except WireError:
            return
        for row in raw:
            found = self._waiting.pop(row[:6].astype("<i2").tobytes(), None)
            if found is None or found[0] - self._start_s < SKIP_S:
                continue
            taken_s, counter = found
            self.total_s.append(received_s - taken_s)
            before = self._arrived.get(counter)
            if before is not None and before < 0.0:
                self.to_packet_s.append(received_s + before)
            self._arrived[counter] = received_s
            while len(self._arrived) > KEPT:
                self._arrived.popitem(last=False)

    def figures(self) -> dict[str, Any]:
        """Milliseconds at the median and the 99th percentile, and how many samples they stand on."""
        table: dict[str, Any] = {"samples": len(self.total_s), **_quantiles("packet", self.total_s)}
        if self.fed:
            table |= {"reports": len(self.to_register_s), **_quantiles("register", self.to_register_s)}
            table |= _quantiles("register_to_packet", self.to_packet_s)
        return table


def added(fed: Sequence[BoardLatency], virtual: Sequence[BoardLatency]) -> dict[str, Any]:
    """What being real adds [ms]: all fed boards' samples against all virtual ones', at two quantiles; None without samples."""
    real = [value for board in fed for value in board.total_s]
    other = [value for board in virtual for value in board.total_s]
    result: dict[str, Any] = {"virtual_samples": len(other), **_quantiles("virtual_packet", other)}
    for name, share in (("p50", 50), ("p99", 99)):
        known = bool(real and other)
        result[f"added_{name}_ms"] = _ms(np.percentile(real, share) - np.percentile(other, share)) if known else None
    return result


def _quantiles(name: str, values_s: Sequence[float]) -> dict[str, Any]:
    return {
        f"{name}_p50_ms": _ms(np.percentile(values_s, 50)) if values_s else None,
        f"{name}_p99_ms": _ms(np.percentile(values_s, 99)) if values_s else None,
    }


def _ms(value_s: Any) -> float:
    return round(1e3 * float(value_s), 2)
