"""Where a strut's samples come from: its own sensor, or a simulation on its USB line; only the expected source is let through."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from onboard.errors import UsageError, WireError
from onboard.link.board_json import decode_birth
from onboard.robot import RobotSpec

log = logging.getLogger("prestress.link")

SENSOR, SIMULATION = "i2c", "usb"


class SampleSource:
    """Keeps out every packet of a strut whose newest birth names another source than expected.

    Without it a robot could be armed on samples that somebody's simulation feeds to one of its struts, and a simulated robot
    would take the desk that a board lies on for the robot's shape. fed: struts that a simulation is to feed; UsageError for
    one that the robot's file does not have.
    """

    def __init__(self, spec: RobotSpec, fed: Iterable[str] = ()) -> None:
        self._fed = set(fed)
        self._struts = spec.struts
        self._shut: set[int] = set()
        for name in self._fed:
            if name not in spec.struts:
                raise UsageError(f"--fed {name}: {spec.file} has no such strut")

    def admits(self, strut: int, kind: str, payload: bytes) -> bool:
        """Whether this packet may go on."""
        if kind == "state" and 0 <= strut < len(self._struts):
            self._born(strut, payload)
        return strut not in self._shut

    def _born(self, strut: int, payload: bytes) -> None:
        try:
            birth = decode_birth(payload)
        except (WireError, ValueError):
            return  # the decoder refuses it, and says so
        if not birth.online:
            return
        name = self._struts[strut]
        right = SIMULATION if name in self._fed else SENSOR
        if birth.bus == right:
            if strut in self._shut:
                log.warning("%s: its samples come from the expected source again", name)
            self._shut.discard(strut)
        elif strut not in self._shut:
            self._shut.add(strut)
            what = (
                "are fed by a simulation over USB" if birth.bus == SIMULATION else "come from its own sensor, not from the plant"
            )
            log.warning("%s: its samples %s: left out", name, what)
