"""A simulated robot on a network that can fail, every actuator board behind a cable that can be pulled and is listened to."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from onboard.errors import PrestressError
from sim.faults.cable import Cable
from sim.faults.network import BadNetwork
from sim.rig import SimulatedRobot
from sim.soak.watch import CommandWatch


class SoakRobot(SimulatedRobot):
    """network: between broker and daemon. cables, watches: by actuator board; empty for a robot without actuators."""

    network: BadNetwork

    def start_world(self) -> None:
        """Everything but the daemon, with the disturbances in between."""
        self.cables: dict[str, Cable] = {}
        self.watches: dict[str, CommandWatch] = {}
        super().start_world()
        assert self.fleet is not None
        self.network = BadNetwork(self.broker.port)
        if self.spec.actuators is not None:
            for board in self.spec.actuators.boards:
                cable = Cable(self.fleet[board.id].port, self.folder / f"cable-{board.id}")
                watch = CommandWatch(board, self.spec.actuators)
                self.cables[board.id], self.watches[board.id] = cable, watch
                listen(cable, watch)

    def close(self) -> None:
        """End everything, the daemon first."""
        if self.daemon is not None and self.daemon.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.daemon.pid, signal.SIGCONT)
        super().close()
        if hasattr(self, "network"):
            self.network.close()
        for cable in getattr(self, "cables", {}).values():
            if cable.plugged:
                cable.unplug()

    def ports(self) -> dict[str, str]:
        """Actuator board -> the daemon's end of its cable."""
        return {**super().ports(), **{name: str(cable.path) for name, cable in self.cables.items()}}

    def heal(self) -> None:
        """Everything around the daemon is as it should be."""
        assert self.plant is not None and self.fleet is not None
        self.network.heal()
        for name, cable in self.cables.items():
            listen(cable, self.watches[name])
            if not cable.plugged:
                cable.plug()
        for strut in self.spec.struts:
            self.plant.ask("fault", strut=strut, kind="none")
        for board in self.cables:
            self.plant.ask("bus", board=board, faults=0)
            self.plant.ask("press_stop", board=board, pressed=False)
            self.plant.ask("jam", board=board, jammed=False)
        self.plant.ask("be_still")
        for number in (self.broker.pid, self.daemon.pid if self.daemon is not None else None):
            if number is not None:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGCONT)
        self.fleet.start()

    def look(self) -> None:
        """Take in what the plant has published; raises PrestressError when plant or daemon has ended."""
        assert self.plant is not None
        for report in self.plant.poll(0.05):
            if report.failed:
                raise PrestressError(f"the plant failed: {report.failed}")
        if self.daemon is not None and self.daemon.poll() is not None:
            raise PrestressError(f"the daemon ended by itself: {self.last_line('daemon.log')}")

    def memory_mb(self) -> float:
        """What the daemon holds in memory now."""
        assert self.daemon is not None
        pages = int(Path(f"/proc/{self.daemon.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _daemon_url(self) -> str:
        return f"mqtt://127.0.0.1:{self.network.port}" if hasattr(self, "network") else super()._daemon_url()


def listen(cable: Cable, watch: CommandWatch) -> None:
    """An undisturbed cable whose every byte to the board is heard."""

    def heard(data: bytes) -> bytes:
        watch.hear(data)
        return data

    cable.to_board = heard
    cable.to_host = lambda data: data


def pause(robot: SoakRobot, seconds: float) -> None:
    """Look on for a while."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        robot.look()
