"""What the link must know of a robot, of whatever kind, to hold a session with its struts."""

from __future__ import annotations

from typing import Protocol

from onboard.robot import Imu, Link


class Reached(Protocol):
    """file: for messages. struts: ids of the boards that stream."""

    @property
    def file(self) -> str: ...
    @property
    def struts(self) -> list[str]: ...
    @property
    def imu(self) -> Imu: ...
    @property
    def link(self) -> Link: ...
