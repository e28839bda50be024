"""A networked board's part in updates: knows whether the robot is armed, ends the trial of new firmware, wakes the updater."""

import asyncio
import json
import os
import sys

import machine

from common import ticks
from common.identity import VERSION
from common.link import Link
from common.trial import ROLLED_BACK, Trial, loader, read

LEAVES = ["armed", "ota/offer", "ota/permit", "ota/chunk"]
ARMED_MS = 3000  # the host repeats it three times as often
KEEP_MS = 1000  # of an unbroken session before a firmware on trial is kept
STEP_MS = 100


class Updating:
    """What wakes with the first offer; ota.py has the real one, so that its code is not loaded before."""

    state = "idle"

    def take(self, leaf: str, payload: bytes) -> None:
        """A message on ota/offer, ota/permit or ota/chunk."""

    def wake(self) -> None:
        """The robot has been armed."""


class Upkeep:
    """One per board. `take` gets every message on LEAVES; `run` is one of the application's tasks."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.trial = Trial()
        self._armed_at = 0
        self._armed = False
        self._updater: Updating | None = None  # its code and memory are wanted once in a while
        self._loader = loader()
        self._rolled_back = read(ROLLED_BACK)

    def armed(self) -> bool:
        """True while the robot's actuators may move, as far as the host has told lately."""
        if self._armed and ticks.diff(ticks.now(), self._armed_at) > ARMED_MS * 1000:
            self._armed = False
        return self._armed

    def take(self, leaf: str, payload: bytes, retained: bool, received: int) -> None:
        """A message on one of LEAVES. What is not of this moment (retained) is not acted on."""
        if retained:
            return
        if leaf == "armed":
            self._armed = payload == b"1"
            self._armed_at = received
            if self._armed and self._updater is not None:
                self._updater.wake()
        elif leaf == "ota/offer" and not payload:
            self.report(self._updater.state if self._updater else "idle")
        else:
            if self._updater is None:
                if leaf != "ota/offer":
                    return
                from common.ota import Updater

                updater = Updater(self)
                self._updater = updater
                asyncio.create_task(updater.run())
            self._updater.take(leaf, payload)

    def mpy(self) -> int:
        """What compiled files the interpreter loads: version of the code, and architecture << 10."""
        return int(getattr(sys.implementation, "_mpy", 0))

    def report(self, state: str, error: str = "", more: "dict[str, object] | None" = None) -> None:
        """Say on ota/ack how an update stands and what this board is."""
        table: dict[str, object] = {
            "boot_id": self.link.identity.boot_id,
            "state": "trial" if self.trial.running else state,
            "error": error,
            "board": self.link.identity.board,
            "version": VERSION,
            "mpy": self.mpy(),
            "loader": self._loader,
            "rolled_back": self._rolled_back,
        }
        if more:
            table.update(more)
        self.link.publish("ota/ack", json.dumps(table).encode(), False, 1)

    async def run(self) -> None:
        """End a trial: keep the firmware after a session of KEEP_MS, restart into the one before when none comes in time."""
        waited_ms = online_ms = 0
        while self.trial.running:
            await asyncio.sleep_ms(STEP_MS)
            waited_ms += STEP_MS
            online_ms = online_ms + STEP_MS if self.link.online else 0
            if online_ms >= KEEP_MS:
                self.trial.keep()
                self._rolled_back = ""
                self.report("confirmed")
            elif not online_ms and waited_ms >= self.trial.limit_s * 1000:
                said = self.link.said or "nothing of the network"
                self.trial.give_up("%s did not reach the broker within %d s: %s" % (self.trial.version, self.trial.limit_s, said))
                self.restart()

    def restart(self) -> None:
        """Leave nothing unwritten, and start again."""
        if hasattr(os, "sync"):
            os.sync()
        machine.reset()
