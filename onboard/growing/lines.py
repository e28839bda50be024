"""One idea: actuators of a growing robot as pneumatic lines of one valve board: SI values to set-points [Pa] and back.

Five channels: growth drive, tube, base, side muscles, pilot. Each line's pressure between `low_pa` and `high_pa` stands for its
actuator's value between least and greatest. The pilot line opens the check valves of the others from `pilot_share` of `high_pa`
up; below, growth stops and tube, base and muscles keep what they have. A board that goes to its safe state lets all lines to
`safe_pa`, so that silence holds the shape although the board knows nothing of shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import ConfigError
from onboard.messages import Floats, frozen
from onboard.robot import ActuatorBoard, Link, Valves

VALUES = ("growth", "pressure", "base_heading", "curvature")
CHANNELS = len(VALUES) + 1  # and the pilot
Pascals = Annotated[float, Meta(ge=0.0, le=6e5)]
Milliseconds = Annotated[int, Meta(ge=20, le=10_000)]


class Lines(Section, frozen=True):
    """[lines]: the valve board that makes the set-points."""

    board: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    low_pa: Pascals
    high_pa: Pascals
    safe_pa: Annotated[float, Meta(ge=0.0, le=0.0)]
    pilot_share: Annotated[float, Meta(ge=0.5, le=0.99)]
    max_slew_pa_per_s: Annotated[float, Meta(gt=0.0, le=1e8)]
    deadline_ms: Milliseconds
    follow_pa: Annotated[float, Meta(gt=0.0, le=6e5)]
    follow_ms: Milliseconds
    time_constant_s: Annotated[float, Meta(ge=0.0, le=1.0)]
    port: Annotated[str, Meta(max_length=200)] = ""


@dataclass(frozen=True, slots=True)
class LineMap:
    """low, high (4,): least and greatest growth [m/s], pressure [Pa], base heading [rad], curvature [1/m]."""

    lines: Lines
    low: Floats
    high: Floats

    def to_pa(self, values: Floats, free: bool) -> Floats:
        """Set-points (5,) [Pa] for values (4,) inside their limits; free: whether the check valves are opened."""
        share = (values - self.low) / (self.high - self.low)
        a = self.lines
        out: Floats = np.append(a.low_pa + share * (a.high_pa - a.low_pa), a.high_pa if free else a.safe_pa)
        return out

    def from_pa(self, pressures_pa: Floats) -> tuple[Floats, bool]:
        """(values (4,), whether the check valves are open) of line pressures (5,) [Pa]; values stay within their limits."""
        a = self.lines
        share = np.clip((pressures_pa[:-1] - a.low_pa) / (a.high_pa - a.low_pa), 0.0, 1.0)
        values: Floats = self.low + share * (self.high - self.low)
        return values, bool(pressures_pa[-1] >= a.pilot_share * a.high_pa)


@dataclass(frozen=True, slots=True)
class ValveRobot:
    """What link and boards need to know of the robot."""

    name: str
    file: str
    actuators: Valves
    link: Link


def valve_robot(name: str, file: str, lines: Lines, link: Link, command_ttl_ms: int) -> ValveRobot:
    """Raises ConfigError when the lines' pressures contradict each other."""
    if not lines.low_pa < lines.high_pa:
        raise ConfigError(file, "lines.high_pa", f"is {lines.high_pa}: must exceed low_pa, {lines.low_pa}")
    board: dict[str, Any] = {"id": lines.board, "first": 0, "channels": CHANNELS, "port": lines.port}
    valves = Valves(
        type="valve",
        boards=[ActuatorBoard(**board)],
        min_pressure_pa=lines.safe_pa,
        max_pressure_pa=lines.high_pa,
        rest_pressure_pa=lines.safe_pa,
        safe_pressure_pa=lines.safe_pa,
        max_slew_pa_per_s=lines.max_slew_pa_per_s,
        deadline_ms=lines.deadline_ms,
        command_ttl_ms=command_ttl_ms,
        max_tracking_error_pa=lines.follow_pa,
        tracking_timeout_ms=lines.follow_ms,
    )
    return ValveRobot(name, file, valves, link)


def line_map(lines: Lines, growth: tuple[float, float], pressure: tuple[float, float], low: Floats, high: Floats) -> LineMap:
    """low, high (2,): of base heading [rad] and curvature [1/m]."""
    return LineMap(lines, frozen([growth[0], pressure[0], *low]), frozen([growth[1], pressure[1], *high]))
