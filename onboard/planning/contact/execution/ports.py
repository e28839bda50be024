"""What execution needs from the world: link poses, seal pressures, and one sink for chambers and pads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class PoseReading:
    """Link poses as a motion capture or another pose source gave them.

    t_s: when they held, on the daemon's clock. frames: rotation (link to world) and position [m], tail first. Shape
    (n + 1, 3, 4).
    """

    t_s: float
    frames: Floats


@dataclass(frozen=True)
class SuctionReport:
    """What the suction boards say. t_s: when; vacuum_pa: below ambient at each pad, positive. Shape (n + 1,)."""

    t_s: float
    vacuum_pa: Floats


@dataclass(frozen=True)
class Command:
    """One command to the boards. pressures: of all chambers, in the units of the worm's file. Shape (n, 4). suction: which
    pads have their vacuum on. Shape (n + 1,)."""

    t_s: float
    pressures: Floats
    suction: Flags


class PosePort(Protocol):
    """Where link poses come from."""

    def newest(self) -> PoseReading | None:
        """The newest reading that has arrived; None before the first."""


class WormSink(Protocol):
    """The boards of one worm."""

    def send(self, command: Command) -> None:
        """Passes a command on."""

    def report(self) -> SuctionReport | None:
        """The newest report of the pads; None before the first."""
