"""One idea: six spool motors behind boards with analogue outputs and inputs: shares of full speed out, rest lengths back.

Half of the output's scale is standstill; it is also the boards' safe set-point, so that silence, expiry and stop end in
standstill without the computer.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onboard.clock import Clock
from onboard.link.serial_boards import BoardLink, SerialBoards
from onboard.messages import BoardReport, Setpoints, frozen
from onboard.robot import ActuatorBoard, Valves
from onboard.three_bar_robot import Boards, ThreeBar

SLEW_PA_PER_S = 1e8  # the drives may change as fast as they are told; the governor slews


@dataclass(frozen=True, slots=True)
class _Pace:
    sync_period_ms: int


@dataclass(frozen=True, slots=True)
class BoardedMotors:
    """A robot's boards as the serial link wants to know them."""

    name: str
    file: str
    actuators: Valves
    link: _Pace


def boarded(spec: ThreeBar, file: str) -> BoardedMotors:
    """The motor boards of a robot's file."""
    table, drive = spec.boards, spec.drive
    valves = Valves(
        type="valve",
        boards=[ActuatorBoard(id=b.id, first=b.first, channels=b.channels, port=b.port) for b in table.motor],
        min_pressure_pa=0.0,
        max_pressure_pa=table.full_scale_pa,
        rest_pressure_pa=0.5 * table.full_scale_pa,
        safe_pressure_pa=0.5 * table.full_scale_pa,
        max_slew_pa_per_s=SLEW_PA_PER_S,
        deadline_ms=table.deadline_ms,
        command_ttl_ms=drive.command_ttl_ms,
        max_tracking_error_pa=0.0,
        tracking_timeout_ms=0,  # outputs are speeds and inputs positions: nothing to compare
    )
    return BoardedMotors(spec.robot.name, file, valves, _Pace(table.sync_period_ms))


class AnalogueMotors:
    """ports.ActuatorSink in shares of full speed. Reports carry rest lengths [u] in `measured`."""

    def __init__(self, spec: ThreeBar, file: str, clock: Clock, ports: Mapping[str, str]) -> None:
        self._table: Boards = spec.boards
        self._boards = SerialBoards(boarded(spec, file), clock, ports)
        self._converted: dict[str, tuple[BoardReport, BoardReport]] = {}

    def run(self) -> Coroutine[Any, Any, None]:
        """Keep all lines open until cancelled."""
        return self._boards.run()

    def arm(self, epoch: int) -> None:
        """See ports.ActuatorSink."""
        self._boards.arm(epoch)

    def disarm(self) -> None:
        """See ports.ActuatorSink."""
        self._boards.disarm()

    def send(self, setpoints: Setpoints) -> None:
        """One command per board; values (motors,) in [-1, 1]."""
        half = 0.5 * self._table.full_scale_pa
        self._boards.send(Setpoints(setpoints.t_s, frozen(half * (1.0 + setpoints.value)), setpoints.source))

    def stop(self) -> None:
        """See ports.ActuatorSink."""
        self._boards.stop()

    def reports(self) -> list[BoardReport]:
        """The newest report of every board; the same object until a newer one comes."""
        out = []
        for raw in self._boards.reports():
            known = self._converted.get(raw.board)
            if known is None or known[0] is not raw:
                rest_u = np.asarray(raw.measured) * self._table.rest_u_per_pa
                known = self._converted[raw.board] = (raw, replace(raw, measured=frozen(rest_u)))
            out.append(known[1])
        return out

    def links(self) -> list[BoardLink]:
        """State of every line."""
        return self._boards.links()
