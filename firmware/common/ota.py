"""An update over the air on the board's side: an offer checked, files fetched into the folder not in use, a permit awaited.

Loaded with the first offer. The board asks for what it lacks, one chunk at a time, so that it can go on after any interruption.
"""

import asyncio
import binascii
import errno
import hashlib
import json
import os
import struct

from common import trial
from common.ed25519 import verify
from common.identity import VERSION, section
from common.ota_fetch import Fetch
from common.upkeep import Updating, Upkeep

SIGNATURE = 64
MAX_HEADER = 900
MANIFEST_TAG = b"prestress manifest 1\0"
PERMIT_TAG = b"prestress permit 1\0"
PERMIT_MS = 30_000
REPEAT_MS = 3000
STEP_MS = 100
LAST_WORDS_MS = 300  # for the last report to leave the board


class Refused(Exception):
    """The update is not wanted, in words for a person; the firmware in use is untouched."""


class Superseded(Exception):
    """A new offer has come while one was in progress."""


def tuple_of(version: str) -> tuple[int, ...]:
    """1.20.3 as numbers that compare; ValueError for anything else."""
    return tuple([int(part) for part in version.split(".")])


class UpdateFetch(Fetch):
    """Fetches through the updater."""

    updater: "Updater"

    async def next_chunk(self, timeout_ms: int) -> "bytes | None":
        message = await self.updater.next(timeout_ms)
        if message is None:
            return None
        return message[1] if message[0] == "ota/chunk" else b""

    def ask(self, file: int, offset: int, done: int, total: int) -> None:
        self.updater.say("staging", "", {"file": file, "offset": offset, "done": done, "total": total})


class Updater(Updating):
    """One update at a time. `state`: idle, checking, staging, staged, starting, refused, failed."""

    def __init__(self, upkeep: Upkeep) -> None:
        self.upkeep = upkeep
        self.identity = upkeep.link.identity
        self.state = "idle"
        self._inbox: list[tuple[str, bytes]] = []
        self._arrived = asyncio.Event()
        self._header: dict[str, object] = {}
        self._digest = b""  # of the offer in progress

    def take(self, leaf: str, payload: bytes) -> None:
        """A message for the updater; more than it can hold are lost, and asked for again."""
        if len(self._inbox) < 3:
            self._inbox.append((leaf, payload))
            self._arrived.set()

    def wake(self) -> None:
        """Look at once whether to go on."""
        self._arrived.set()

    async def next(self, timeout_ms: int) -> "tuple[str, bytes] | None":
        """The next chunk or permit; None after `timeout_ms`. Refused when the robot has been armed."""
        if not self._inbox:
            self._arrived.clear()
            try:
                await asyncio.wait_for_ms(self._arrived.wait(), timeout_ms)
            except asyncio.TimeoutError:
                pass
        self._refuse_armed()
        if not self._inbox:
            return None
        if self._inbox[0][0] == "ota/offer":
            raise Superseded
        return self._inbox.pop(0)

    def say(self, state: str, error: str = "", more: "dict[str, object] | None" = None) -> None:
        """Change state and report it."""
        self.state = state
        table: dict[str, object] = {"offered": self._header.get("version", "")}
        if more:
            table.update(more)
        self.upkeep.report(state, error, table)

    async def run(self) -> None:
        """For ever: one offer after another."""
        while True:
            while not self._inbox:
                self._arrived.clear()
                await self._arrived.wait()
            leaf, payload = self._inbox.pop(0)
            if leaf != "ota/offer":
                continue
            try:
                await self._update(payload)
            except Superseded:
                pass
            except Refused as refusal:
                self.say("refused", str(refusal))
            except OSError as error:
                full = error.errno == getattr(errno, "ENOSPC", 28)
                self.say("failed", "the board's flash is full" if full else "flash: %s" % error)
            except ValueError as error:
                self.say("failed", str(error))
            except Exception as error:  # whatever else it is, the next offer is to be heard
                self.say("failed", "%s: %s" % (type(error).__name__, error))

    async def _update(self, offer: bytes) -> None:
        self._header = {}
        self.say("checking")
        await self._accept(offer)
        slot = trial.other()
        fetch = UpdateFetch(self._header, slot)
        fetch.updater = self
        await fetch.run()
        await self._permit()
        trial.begin(slot, int(str(self._header["trial_s"])), str(self._header["version"]))
        self.say("starting")
        await asyncio.sleep_ms(LAST_WORDS_MS)
        if self.upkeep.armed():
            trial.remove(trial.TRIAL)
        self._refuse_armed()
        self.upkeep.restart()

    async def _accept(self, offer: bytes) -> None:
        """Check signature, board, version, interpreter; Refused says what does not fit."""
        key = str(section(self.identity.settings, "update").get("key", ""))
        if not key:
            raise Refused("this board has no update key: flash it over USB with one")
        header = offer[SIGNATURE:]
        self._digest = hashlib.sha256(MANIFEST_TAG + header).digest()
        if not 0 < len(header) <= MAX_HEADER or not await verify(binascii.unhexlify(key), self._digest, offer[:SIGNATURE]):
            raise Refused("the manifest is altered or signed by another key")
        self._header = json.loads(header)
        self._refuse_unfit()

    def _refuse_unfit(self) -> None:
        header = self._header
        if self.upkeep.trial.running:
            raise Refused("the firmware in use is itself on trial")
        if header["board"] != self.identity.board or header["app"] != self.identity.app:
            raise Refused("it is for %s boards (%s), this is a %s (%s)" % (
                header["board"], header["app"], self.identity.board, self.identity.app,
            ))  # fmt: skip
        if tuple_of(str(header["version"])) <= tuple_of(VERSION):
            raise Refused("version %s is not newer than %s, which runs" % (header["version"], VERSION))
        mpy = self.upkeep.mpy()
        offered = int(str(header["mpy"]))
        if mpy & 0xFF != offered & 0xFF or mpy >> 10 != offered >> 10:
            raise Refused("it is compiled for another interpreter or processor")
        if trial.loader() < int(str(header["loader"])):
            raise Refused("main.py on this board is too old: flash it over USB once")
        self._refuse_armed()

    def _refuse_armed(self) -> None:
        if self.upkeep.armed():
            raise Refused("the robot is armed")

    async def _permit(self) -> None:
        """Wait for the permit for this boot, this manifest and this moment; each nonce is good for one answer."""
        await self._until_settled()
        nonce = os.urandom(16)
        message = None
        waited_ms = 0
        while message is None or message[0] != "ota/permit":
            if message is None:
                if waited_ms >= PERMIT_MS:
                    raise Refused("no permit came within %d s" % (PERMIT_MS // 1000))
                self.say("staged", "", {"nonce": binascii.hexlify(nonce).decode()})  # again: words get lost
                waited_ms += REPEAT_MS
            message = await self.next(REPEAT_MS)
        boot = struct.pack("<I", self.identity.boot_id)
        asked = hashlib.sha256(PERMIT_TAG + self.identity.name.encode() + b"\0" + boot + nonce + self._digest).digest()
        key = str(section(self.identity.settings, "update")["key"])
        if not await verify(binascii.unhexlify(key), asked, message[1]):
            raise Refused("the permit is not for this update of this board")
        await self._until_settled()  # the session may be another than the one in which it was asked for

    async def _until_settled(self) -> None:
        """A board that has just joined counts as disarmed until it is told: wait until it would have been told."""
        waited_ms = 0
        while not self.upkeep.link.settled:
            if waited_ms >= PERMIT_MS:
                raise Refused("its session with the broker does not last")
            if await self.next(STEP_MS) is None:
                waited_ms += STEP_MS
        self._refuse_armed()
