"""The actuator sink of a robot that has no actuators: nothing to send, nothing to report."""

from __future__ import annotations

from collections.abc import Sequence

from onboard.messages import BoardReport, Setpoints


class NoBoards:
    """ports.ActuatorSink for robots that only sense."""

    def reports(self) -> Sequence[BoardReport]:
        """Never any."""
        return ()

    def arm(self, epoch: int) -> None:
        """Nothing to arm."""

    def disarm(self) -> None:
        """Nothing to disarm."""

    def send(self, setpoints: Setpoints) -> None:
        """Nothing to move."""

    def stop(self) -> None:
        """Nothing to stop."""
