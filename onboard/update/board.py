"""One board's update seen from the host: ask, offer, hand out chunks, permit, and wait until it proved itself or went back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from onboard.clock import Clock
from onboard.errors import LinkError, WireError
from onboard.link.board_json import U32, Birth
from onboard.update.keys import Signer
from onboard.update.manifest import Update, permit_digest

ANSWER_S = 3.0
TRIES = 3
PROGRESS_S = 30.0  # without a word from the board: far more than it takes to check a signature
GONE_S = 15.0  # for a board to come back to the broker: its link starts again by itself
GATE_S = 1.0  # how often the robot's state is asked during a transfer
LOOK_S = 2.0  # how often a restarted board is asked
UNCHANGED = "during the transfer; its firmware is unchanged, and the next try goes on from here"
COME_BACK_S = 60.0  # beyond the trial's time: three boots that end at the watchdog


class Report(msgspec.Struct, frozen=True):
    """What a board says on ota/ack: how its update stands, and what it is. Chunks that it lacks: from `offset` of `file`."""

    boot_id: U32
    state: str
    board: str
    version: str
    mpy: int
    loader: int
    error: str = ""
    rolled_back: str = ""  # why the last firmware that came over the air was given up
    offered: str = ""
    nonce: str = ""
    file: int = 0
    offset: int = 0
    done: int = 0
    total: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """One board, done. state: updated or current (it had this version); sent: bytes of chunks."""

    board_id: str
    state: str
    before: str
    version: str
    sent: int
    seconds: float


class Channel(Protocol):
    """One board's topics. `heard` gives its next report or birth, None after the time [s]; LinkError when the broker is lost."""

    async def send(self, leaf: str, payload: bytes) -> None:
        """Publish to the board."""

    async def heard(self, timeout_s: float) -> Report | Birth | None:
        """The next message of the board."""


def decode_report(payload: bytes) -> Report:
    """A message on ota/ack; WireError for anything else."""
    try:
        return msgspec.json.decode(payload, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"report of an update: {error}") from error


class BoardUpdate:
    """Updates one board. make(report) gives the update that fits it; gate() raises while the robot is armed;
    on_progress(text, done, total) tells how far it is."""

    def __init__(
        self,
        board_id: str,
        channel: Channel,
        make: Callable[[Report], Update],
        gate: Callable[[], Awaitable[None]],
        signer: Signer,
        clock: Clock,
        on_progress: Callable[[str, int, int], None] = lambda text, done, total: None,
    ) -> None:
        self._id, self._channel, self._make, self._gate = board_id, channel, make, gate
        self._signer, self._clock, self._on_progress = signer, clock, on_progress
        self._sent = 0

    async def run(self) -> Outcome:
        """Do it. LinkError: the board refused, vanished or went back to its old firmware; SafetyError: the robot is armed."""
        start_s = self._clock.now_s()
        await self._gate()
        self._on_progress("asking", 0, 0)
        before = await self._ask()
        update = self._make(before)
        state = "current"
        if before.version != update.header.version or before.state == "trial":
            state = "updated"
            await self._transfer(update, before.boot_id)
            await self._prove(update, before)
        seconds = self._clock.now_s() - start_s
        return Outcome(self._id, state, before.version, update.header.version, self._sent, seconds)

    async def _ask(self) -> Report:
        """The board's present report."""
        for _ in range(TRIES):
            await self._channel.send("ota/offer", b"")
            end_s = self._clock.now_s() + ANSWER_S
            while (left_s := end_s - self._clock.now_s()) > 0.0:
                said = await self._channel.heard(left_s)
                if isinstance(said, Report):
                    return said
        raise LinkError(
            f"{self._id}: does not answer within {TRIES * ANSWER_S:.0f} s: it is off, out of reach, or its firmware takes no "
            "updates over the air yet (flash it over USB once)"
        )

    async def _transfer(self, update: Update, boot_id: int) -> None:
        """Until the board restarts into the new firmware."""
        asked_s, gone, permitted = self._clock.now_s(), False, False
        await self._channel.send("ota/offer", update.offer)
        while True:
            said = await self._channel.heard(GONE_S if gone else PROGRESS_S)
            if permitted and (said is None or (said.boot_id != boot_id and (isinstance(said, Report) or said.online))):
                return  # its last words got lost
            if said is None and gone:
                raise LinkError(f"{self._id}: vanished from the broker {UNCHANGED}")
            if said is None:
                raise LinkError(f"{self._id}: said nothing for {PROGRESS_S:.0f} s; its firmware is unchanged, try again")
            if isinstance(said, Birth):
                if said.online and said.boot_id != boot_id:
                    raise LinkError(
                        f"{self._id}: restarted during the transfer; its firmware is unchanged, and it goes on next time"
                    )
                gone = not said.online
                continue
            gone = False
            if said.state in ("refused", "failed"):
                raise LinkError(f"{self._id}: {said.state}: {said.error}; its firmware is unchanged")
            if said.state == "trial":
                raise LinkError(f"{self._id}: its firmware {said.version} is still on trial; try again in a minute")
            if said.state == "starting":
                return
            if self._clock.now_s() - asked_s > GATE_S or said.state == "staged":
                asked_s = self._clock.now_s()
                await self._gate()
            if said.state == "staging":
                self._on_progress("sending", said.done, said.total)
                chunk = update.chunk(said.file, said.offset)
                self._sent += len(chunk)
                await self._channel.send("ota/chunk", chunk)
            elif said.state == "staged":
                self._on_progress("permitting", 1, 1)
                await self._channel.send("ota/permit", await self._permit(said, update))
                permitted = True

    async def _permit(self, said: Report, update: Update) -> bytes:
        try:
            nonce = bytes.fromhex(said.nonce)
        except ValueError as error:
            raise WireError(f"{self._id}: asks for a permit without a number") from error
        asked = permit_digest(self._id, said.boot_id, nonce, update.digest)
        return await asyncio.to_thread(self._signer.sign, asked)

    async def _prove(self, update: Update, before: Report) -> None:
        """Until the restarted board keeps the new firmware; LinkError when it comes back with the old one, or not at all."""
        self._on_progress("proving itself", 0, 0)
        end_s = self._clock.now_s() + update.header.trial_s + COME_BACK_S
        while self._clock.now_s() < end_s:
            said = await self._channel.heard(LOOK_S)
            if isinstance(said, Report) and said.boot_id != before.boot_id and said.state != "trial":
                if said.version == update.header.version:
                    return
                why = said.rolled_back or "it does not say why"
                raise LinkError(f"{self._id}: went back to {said.version} by itself: {why}")
            if isinstance(said, Report) and said.boot_id == before.boot_id and said.state == "refused":
                raise LinkError(f"{self._id}: refused: {said.error}; its firmware is unchanged")
            if said is None or (isinstance(said, Birth) and said.online):
                await self._channel.send("ota/offer", b"")
        raise LinkError(f"{self._id}: did not come back within {update.header.trial_s + COME_BACK_S:.0f} s of its restart")
