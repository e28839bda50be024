"""The daemon of one robot: runs its parts with loops, control socket and recorder, and takes them down in the right order."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onboard import __version__
from onboard.clock import Clock, wait_s
from onboard.config import read_text
from onboard.errors import PrestressError, RobotFault, SafetyError
from onboard.runtime.control_socket import ControlSocket, Handler, socket_path
from onboard.runtime.loop import LoopGroup
from onboard.runtime.notify import ServiceManager
from onboard.runtime.parts import LoopTotals, Parts
from onboard.runtime.realtime import WAKE_EARLY_S, enter_realtime, freeze_garbage
from onboard.safety.supervisor import Supervisor
from onboard.safety.table import Event, State
from onboard.telemetry.recorder import NO_LIMITS, Limits, McapRecorder, NullRecorder

log = logging.getLogger("prestress")

SWITCH_INTERVAL_S = 0.0005  # how long the recorder's thread may hold the interpreter against a tick
FLUSH_S = 0.2  # for the last disarm to reach the boards
LIVE = (State.ARMING, State.ACTIVE, State.TEACHING, State.DEGRADED)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: the robot's file, where to record (or not), realtime priority, how long."""

    robot: Path
    record: Path | None = None
    realtime: bool = True
    duration_s: float | None = None
    calibration: str | None = None  # the file's text, kept for recordings
    limits: Limits = NO_LIMITS  # what a recording may take of the disk


class Daemon:
    """One robot's daemon. `run()` returns the exit status. parts: see onboard.runtime.parts."""

    def __init__(self, options: Options, parts: Parts, clock: Clock) -> None:
        self.options, self.parts, self.clock = options, parts, clock
        self._server = ControlSocket(socket_path(parts.name), lambda request: self._answer(request))
        self._server.claim()  # first: a second daemon must leave no trace, least of all a file
        self._toml = read_text(options.robot)  # kept for recordings: the file may be edited while the robot runs
        self._recorder: McapRecorder | NullRecorder = NullRecorder()
        # A number that grows from run to run: commands of an earlier daemon are never valid again.
        self._epoch_start = (self.clock.wall_ns() // 1_000_000_000) & 0xFFFFFFFF
        if options.record is not None:
            self._recorder = self._new_recorder(options.record)
        parts.warm_up()
        parts.begin(self._recorder, self._epoch_start)
        self.loops = LoopGroup(self.clock)
        self.manager = ServiceManager()
        self._answer: Handler
        self._changing_recorder = asyncio.Lock()
        self._quit = False
        self._fault: str | None = None

    async def run(self) -> int:
        """Run until a signal, a quit request, the duration's end or a fault of the daemon itself."""
        self.parts.add_loops(self.loops)
        self.loops.add("supervisor", self.parts.supervisor_hz, self._supervise)
        self._answer = self.parts.console(self.loops, self._record, self.stop)
        await self._server.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the last when a terminal or its network goes
            loop.add_signal_handler(number, self.stop)
        if self.options.duration_s is not None:
            loop.call_later(self.options.duration_s, self.stop)
        background = [loop.create_task(task) for task in self.parts.tasks()]
        for task in background:
            task.add_done_callback(self._background_ended)
        self._settle_process()
        log.info("%s is ready: %s", self.parts.name, self._supervisor.state.value)
        self.manager.ready(self._supervisor.state.value)
        try:
            if not self._quit:
                await self.loops.run()
        except PrestressError as error:
            self._fault = str(error)
        except Exception as error:
            self._fault = f"internal error: {type(error).__name__}: {error}"
            log.exception("internal error in a control loop; boards go to their safe state")
        finally:
            await self._shut_down(background)
        return self._exit_code()

    def summary(self) -> dict[str, Any]:
        """How a run ended: state, fault or None, recording or None, ticks run and left out."""
        fault = self._supervisor.fault
        return {
            "robot": self.parts.name,
            "simulation": False,
            "final_state": self._supervisor.state.value,
            "fault": self._fault or (fault.value if fault else None),
            "recording": str(self._recorder.path) if isinstance(self._recorder, McapRecorder) else None,
            "recording_error": self._recorder.error if isinstance(self._recorder, McapRecorder) else None,
            "ticks": self.loops.ticks,
            "overruns": self.loops.overruns,
        }

    def stop(self) -> None:
        """End `run` after the tick in progress."""
        self._quit = True
        self.loops.stop()

    @property
    def _supervisor(self) -> Supervisor:
        return self.parts.heart.supervisor

    def _supervise(self, t_s: float) -> None:
        self.manager.alive(t_s)
        failed = isinstance(self._recorder, McapRecorder) and self._recorder.error is not None
        totals = LoopTotals(self.loops.ticks, self.loops.overruns, not self.parts.connected, failed)
        heart = self.parts.heart
        heart.supervisor_tick(t_s, totals)
        self.parts.supervised(heart.supervisor.state in LIVE)
        outcome = heart.take_outcome()
        for transition in outcome.transitions:
            (log.error if transition.fault else log.info)("%s", transition.text)
            self.manager.status(transition.text)
        for notice in outcome.notices:
            log.warning("%s", notice.text)

    def _settle_process(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        if self.options.realtime:
            granted = enter_realtime()
            self.loops.wake_early_s = WAKE_EARLY_S if granted.scheduler else 0.0
            for line in granted.lines:
                log.info("%s", line)
        else:
            freeze_garbage()

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        self._fault = f"the link ended: {type(error).__name__}: {error}"
        log.error("%s", self._fault)
        self.stop()

    async def _record(self, path: Path | None) -> str:
        """Start a recording at `path` with a fresh core, so that it can be replayed; None ends the present one.

        Writers start and end in a thread: a slow disk must not hold up a tick.
        """
        async with self._changing_recorder:
            self._refuse_while_live(path)
            recorder = await asyncio.to_thread(self._new_recorder, path) if path is not None else NullRecorder()
            try:
                self._refuse_while_live(path)  # it may have been armed meanwhile
            except SafetyError:
                await asyncio.to_thread(recorder.close)
                raise
            old, self._recorder = self._recorder, recorder
            if path is not None:
                self._epoch_start = self._supervisor.epoch
                self.parts.begin(recorder, self._epoch_start)
            else:
                self.parts.heart.record_to(recorder)
            await asyncio.to_thread(old.close)
        return f"recording to {path}" if path is not None else "recording stopped"

    def _refuse_while_live(self, path: Path | None) -> None:
        if path is not None and self._supervisor.state in LIVE:
            raise SafetyError("record: a replayable recording starts with a fresh estimator: disarm first")

    def _new_recorder(self, path: Path) -> McapRecorder:
        metadata = {
            "version": __version__,
            "robot": self.parts.name,
            "robot_toml": self._toml,
            "physics_hash": self.parts.physics_hash,
            "epoch_start": str(self._epoch_start),
            "start_wall_ns": str(self.clock.wall_ns()),
        }
        if self.options.calibration is not None:
            metadata["calibration"] = self.options.calibration
        return McapRecorder(path, self.clock, metadata, lambda line: log.error("%s", line), self.options.limits)

    async def _shut_down(self, background: list[asyncio.Task[None]]) -> None:
        self.manager.stopping()
        now_s = self.clock.now_s()
        if self._supervisor.state in LIVE:
            self.parts.heart.request(now_s, Event.STOP if self._fault else Event.DISARM)
            await wait_s(FLUSH_S)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        self.parts.close()
        await self._server.close()
        self._recorder.close()

    def _exit_code(self) -> int:
        if self._fault is not None:
            log.error("%s ended on a fault: %s", self.parts.name, self._fault)
            return RobotFault.exit_code
        if self._supervisor.state is State.FAULT:
            return RobotFault.exit_code
        return 0
