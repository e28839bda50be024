"""One real strut on its port: recognised, put onto the plant's samples, kept there, and given back to its own sensor."""

from __future__ import annotations

import dataclasses
import secrets
from collections import deque
from collections.abc import Callable

from onboard.clock import Clock, wait_s
from onboard.errors import LinkError, WireError
from onboard.link.clock_sync import ClockSync
from onboard.link.serial_frame import SerialFrame
from onboard.link.serial_line import SerialLine
from onboard.link.wire import decode_sync_response
from onboard.link.wire_types import MessageType
from sim.usb import frames
from sim.usb.frames import BusReport, BusState, Hello

HELLO_S = 3.0  # for a strut to answer at all
ONLINE_S = 20.0  # for it to have been at its broker long enough to know whether its robot is armed
ASK_S = 0.3
LOOK_S = 0.02
KEEP_S = 0.2  # between signs of life, when the plant gives none
SILENT_S = 1.5  # without a report while samples go out: below the board's own lease
REPORTED = 7  # samples from report to report, firmware/strut/usb_feed.py
RETRY_S = 1.0
RELEASE_S = 1.0
KEPT_TOKENS = 16
ONLINE = "online"


class FedBoard:
    """on_report(report, host time at which it came to the register [s]); say(line) tells what a person should know.

    `fed`: the board takes its samples from here. losses: how often it stopped in between.
    """

    def __init__(
        self, strut: str, path: str, clock: Clock, say: Callable[[str], None], on_report: Callable[[BusReport, float], None]
    ) -> None:
        self.strut, self.path = strut, path
        self.hello: Hello | None = None
        self.fed = False
        self.losses = self.sent = 0
        self.newest: BusReport | None = None
        self._clock, self._say, self._on_report = clock, say, on_report
        self._line = SerialLine(path, clock, self._frame, self._lost)
        self._state: BusState | None = None
        self._steps = self._faults = self._unanswered = 0
        self._sync = ClockSync()
        self._asked: deque[tuple[int, float]] = deque(maxlen=KEPT_TOKENS)
        self._said_s = self._synced_s = self._reported_s = self._tried_s = float("-inf")
        self._told = ""

    async def recognise(self, prefix: str, sensor: str) -> Hello:
        """Open the port and ask who is there; LinkError unless it is this robot's strut of that name and sensor."""
        self._open()
        end_s = self._clock.now_s() + HELLO_S
        self.hello = None
        while self.hello is None:
            self._send(MessageType.HELLO, b"")
            await self._until(lambda: self.hello is not None, ASK_S)
            if self.hello is None and self._clock.now_s() > end_s:
                raise LinkError(f"{self.path}: no strut answers there within {HELLO_S:.0f} s: flash it (prestress flash)")
        hello = self.hello
        if hello.name != self.strut:
            raise LinkError(f"{self.path}: leads to a board named {hello.name!a}, not to {self.strut}: are two cables swapped?")
        if hello.app != "strut":
            raise LinkError(f"{self.path}: {hello.name} runs {hello.app!a} firmware, not a strut's")
        if hello.sensor != sensor:
            raise LinkError(f"{self.path}: {self.strut} has sensor {hello.sensor!a}, the robot's file says {sensor}")
        if hello.prefix != prefix:
            raise LinkError(
                f"{self.path}: {self.strut} was flashed for the topics {hello.prefix!a}, not {prefix!a}: flash it anew"
            )
        return hello

    async def begin(self, rate_steps: int, limit_s: float = ONLINE_S) -> None:
        """Put it onto the plant's samples; LinkError when it refuses, or is not at its broker in time."""
        self._steps = rate_steps
        end_s = self._clock.now_s() + limit_s
        while True:
            state = await self._ask_to_begin()
            if state is not None and state.fed:
                return
            if state is not None and state.problem != "offline":
                raise LinkError(f"{self.path}: {self._refusal(state.problem)}")
            if self._clock.now_s() > end_s:
                raise LinkError(f"{self.path}: {await self._why_offline(limit_s)}")
            await self._until(lambda: False, ASK_S)

    async def _ask_to_begin(self) -> BusState | None:
        token = secrets.randbits(32)
        self._state = None
        self._send(MessageType.BUS_BEGIN, frames.begin(token, self._steps))
        await self._until(lambda: self._state is not None, ASK_S)
        state = self._state
        if state is None or (state.fed and state.token != token):
            return None
        if state.fed:
            self._begun()
        return state

    def _begun(self) -> None:
        self.fed = True
        self._told = ""
        self._unanswered = 0
        self._sync.restart()
        if self._faults:
            self.set_faults(self._faults)

    def _refusal(self, problem: str) -> str:
        if problem == "armed":
            return f"{self.strut} refuses to be fed: its robot is armed; disarm it first"
        if problem == "version":
            return f"{self.strut} has firmware {self.hello.firmware if self.hello else ''} of another version: flash it anew"
        return f"{self.strut} refuses to be fed: {problem}"

    async def _why_offline(self, limit_s: float) -> str:
        self.hello = None
        self._send(MessageType.HELLO, b"")
        await self._until(lambda: self.hello is not None, ASK_S)
        said = self.hello.link if self.hello else ""
        where = self.hello.broker if self.hello else "its broker"
        if said == ONLINE:
            return f"{self.strut} does not take the samples within {limit_s:.0f} s"
        return (
            f"{self.strut} was flashed for the broker at {where} and does not reach it within {limit_s:.0f} s; it says: "
            f"{said or 'nothing'}; name that broker with --broker, or flash the board for this one"
        )

    def feed(self, counter: int, raw: bytes) -> None:
        """One sample of 14 bytes, in the drivers' order, that the plant has just taken."""
        if self.fed:
            self._send(MessageType.BUS_SAMPLES, frames.samples(counter, raw))
            self.sent += 1
            self._unanswered += 1
            if self._unanswered == 1:
                self._reported_s = self._clock.now_s()

    def set_faults(self, bits: int) -> None:
        """Faults of the bus from now on."""
        self._faults = bits
        if self.fed:
            self._send(MessageType.BUS_FAULTS, frames.faults(bits))

    async def tend(self) -> None:
        """Until cancelled: signs of life, clock, and a board that has stopped is asked to begin again."""
        while True:
            now_s = self._clock.now_s()
            self._line.check(now_s)
            if self.fed:
                if now_s - self._synced_s > (ASK_S if self._sync.ready else KEEP_S / 2):
                    self._synced_s = now_s
                    token, payload = frames.sync_request(secrets.randbits(64))
                    self._asked.append((token, self._clock.now_s()))
                    self._send(MessageType.SYNC_REQUEST, payload)
                if now_s - self._said_s > KEEP_S:
                    self._send(MessageType.BUS_SAMPLES, frames.samples(0, b""))
                if self._unanswered > REPORTED and now_s - self._reported_s > SILENT_S:
                    self._stopped("says nothing more")
            elif now_s - self._tried_s > RETRY_S:
                self._tried_s = now_s
                await self._try_again()
            await wait_s(LOOK_S)

    async def _try_again(self) -> None:
        try:
            if not self._line.is_open:
                self._open()
            state = await self._ask_to_begin()
        except LinkError:
            return
        if state is not None and state.fed:
            self._say(f"{self.strut}: is fed by the plant again")
        elif state is not None and state.problem != self._told:
            self._told = state.problem
            self._say(f"{self.strut}: not fed again: {self._refusal(state.problem)}")

    async def release(self) -> bool:
        """Give the board back to its own sensor; True when it has said so."""
        if not self._line.is_open:
            return False
        self._state = None
        if self.fed:
            self.fed = False
            self._send(MessageType.BUS_END, b"")
            await self._until(lambda: self._state is not None and not self._state.fed, RELEASE_S)
        said = self._state is not None and not self._state.fed
        self._line.close()
        return said

    # --- the line ---------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if problem := self._line.open():
            raise LinkError(f"{self.path}: {_plain(problem)}")

    def _send(self, kind: MessageType, payload: bytes) -> None:
        self._said_s = self._clock.now_s()
        self._line.send(kind, payload)

    async def _until(self, condition: Callable[[], bool], limit_s: float) -> None:
        end_s = self._clock.now_s() + limit_s
        while not condition() and self._clock.now_s() < end_s:
            await wait_s(LOOK_S)

    def _lost(self, reason: str) -> None:
        self._stopped(f"{reason}; it goes back to its own sensor by itself")

    def _stopped(self, why: str) -> None:
        if self.fed:
            self.fed = False
            self.losses += 1
            self._say(f"{self.strut}: {why}; the run goes on without it")

    def _frame(self, frame: SerialFrame, received_s: float) -> None:
        try:
            self._take(frame, received_s)
        except WireError as error:
            self._say(f"{self.strut}: {error}")

    def _take(self, frame: SerialFrame, received_s: float) -> None:
        if frame.kind == MessageType.BIRTH:
            self.hello = frames.decode_hello(frame.payload)
        elif frame.kind == MessageType.BUS_STATE:
            self._state = frames.decode_state(frame.payload)
            if not self._state.fed:
                self._stopped(f"is back on its own sensor: {self._state.problem}")
        elif frame.kind == MessageType.BUS_REPORT:
            self._reported_s, self._unanswered = received_s, 0
            self.newest = report = frames.decode_report(frame.payload)
            if self._sync.ready:
                self._on_report(report, self._sync.to_host_s(self._sync.unwrap(report.ticks_us, received_s)))
        elif frame.kind == MessageType.SYNC_RESPONSE:
            response = decode_sync_response(frame.payload)
            for token, sent_s in self._asked:
                if token == response.host_ns:
                    self._sync.add(dataclasses.replace(response, host_ns=round(sent_s * 1e9)), received_s)


def _plain(problem: str) -> str:
    """What a person can act on, of pyserial's words."""
    lower = problem.lower()
    if "no such file" in lower:
        return "is not there"
    if "lock" in lower or "busy" in lower or "temporarily unavailable" in lower:
        return "is taken by another program"
    if "permission" in lower:
        return "may not be opened: permission is missing (group dialout on most systems)"
    return f"cannot be opened: {problem}"
