"""The daemon of one robot: wires link, core, loops, console and recorder, and takes them down in the right order."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onboard import __version__
from onboard.clock import WallClock, wait_s
from onboard.config import parse_toml, read_text
from onboard.control.postures import PostureStore
from onboard.errors import PrestressError, RobotFault, SafetyError
from onboard.link.endpoint import Endpoint
from onboard.link.sample_source import SampleSource
from onboard.link.serial_boards import SerialBoards
from onboard.link.session import Session
from onboard.robot import RobotSpec, build_spec
from onboard.runtime.control_socket import ControlSocket, socket_path
from onboard.runtime.core import Core, LoopTotals
from onboard.runtime.handler import Console
from onboard.runtime.loop import LoopGroup
from onboard.runtime.no_boards import NoBoards
from onboard.runtime.notify import ServiceManager
from onboard.runtime.realtime import WAKE_EARLY_S, enter_realtime, freeze_garbage
from onboard.runtime.status import StatusReporter
from onboard.runtime.warmup import warm_up
from onboard.safety.table import Event, State
from onboard.telemetry.recorder import McapRecorder, NullRecorder

log = logging.getLogger("prestress")

SWITCH_INTERVAL_S = 0.0005  # how long the recorder's thread may hold the interpreter against a tick
FLUSH_S = 0.2  # for the last disarm to reach the boards
LIVE = (State.ARMING, State.ACTIVE, State.TEACHING, State.DEGRADED)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: broker, board id -> serial port, where to record (or not), postures' folder, realtime priority."""

    robot: Path
    broker: Endpoint
    ports: Mapping[str, str] = field(default_factory=dict)
    record: Path | None = None
    postures: Path | None = None
    realtime: bool = True
    duration_s: float | None = None
    fed: tuple[str, ...] = ()  # struts that a simulation feeds


class Daemon:
    """One robot's daemon. `run()` returns the exit status."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._toml = read_text(options.robot)  # kept for recordings: the file may be edited while the robot runs
        self.spec: RobotSpec = build_spec(str(options.robot), parse_toml(str(options.robot), self._toml))
        self.clock = WallClock()
        self._recorder: McapRecorder | NullRecorder = NullRecorder()
        # A number that grows from run to run: commands of an earlier daemon are never valid again.
        self._epoch_start = (self.clock.wall_ns() // 1_000_000_000) & 0xFFFFFFFF
        self._sink = SerialBoards(self.spec, self.clock, options.ports) if self.spec.actuators else NoBoards()
        if options.record is not None:
            self._recorder = self._new_recorder(options.record)
        warm_up(self.spec)
        self.core = Core(self.spec, self._sink, self._recorder, self._epoch_start)
        self.loops = LoopGroup(self.clock)
        self.manager = ServiceManager()
        self.session = Session(self.spec, options.broker, self.clock, self._packet, _Pace(self))
        self._source = SampleSource(self.spec, options.fed)
        self._births: dict[int, bytes] = {}  # each strut's newest, for a core that starts later than the boards
        self._quit = False
        self._fault: str | None = None

    async def run(self) -> int:
        """Run until a signal, a quit request, the duration's end or a fault of the daemon itself."""
        rates = self.spec.rates
        self.loops.add("estimator", rates.estimator_hz, self._estimate)
        if self.spec.actuators:
            self.loops.add("control", rates.control_hz, self._control)
        self.loops.add("supervisor", rates.supervisor_hz, self._supervise)
        reporter = StatusReporter(lambda: self.core, self.loops, self.session, self.clock)
        store = PostureStore(self.spec, self.options.postures)
        console = Console(lambda: self.core, store, reporter, self.clock, self._record, self.stop)
        server = ControlSocket(socket_path(self.spec.name), console.answer)
        await server.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the last when a terminal or its network goes
            loop.add_signal_handler(number, self.stop)
        if self.options.duration_s is not None:
            loop.call_later(self.options.duration_s, self.stop)
        background = [loop.create_task(self.session.run())]
        if isinstance(self._sink, SerialBoards):
            background.append(loop.create_task(self._sink.run()))
        for task in background:
            task.add_done_callback(self._background_ended)
        self._settle_process()
        log.info("%s is ready: %s", self.spec.name, self.core.supervisor.state.value)
        self.manager.ready(self.core.supervisor.state.value)
        try:
            if not self._quit:
                await self.loops.run()
        except PrestressError as error:
            self._fault = str(error)
        except Exception as error:
            self._fault = f"internal error: {type(error).__name__}: {error}"
            log.exception("internal error in a control loop; boards go to their safe state")
        finally:
            await self._shut_down(server, background)
        return self._exit_code()

    def stop(self) -> None:
        """End `run` after the tick in progress."""
        self._quit = True
        self.loops.stop()

    def _packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        if not self._source.admits(strut, kind, payload):
            return
        if kind == "state":
            self._births[strut] = payload
        self.core.packet(strut, kind, payload, received_s)

    def _estimate(self, t_s: float) -> None:
        self.core.estimator_tick(t_s)

    def _control(self, t_s: float) -> None:
        self.core.control_tick(t_s)

    def _supervise(self, t_s: float) -> None:
        self.manager.alive(t_s)
        failed = isinstance(self._recorder, McapRecorder) and self._recorder.error is not None
        totals = LoopTotals(self.loops.ticks, self.loops.overruns, not self.session.connected, failed)
        self.core.supervisor_tick(t_s, totals)
        self.session.armed = self.core.supervisor.state in LIVE
        outcome = self.core.take_outcome()
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

    def _record(self, path: Path | None) -> str:
        """Start a recording at `path` with a fresh core, so that it can be replayed; None ends the present one."""
        if path is not None and self.core.supervisor.state in LIVE:
            raise SafetyError("record: a replayable recording starts with a fresh estimator: disarm first")
        recorder = self._new_recorder(path) if path is not None else NullRecorder()
        old, self._recorder = self._recorder, recorder
        if path is not None:
            self._epoch_start = self.core.supervisor.epoch
            self.core = Core(self.spec, self._sink, recorder, self._epoch_start)
            for strut, birth in sorted(self._births.items()):
                self.core.packet(strut, "state", birth, self.clock.now_s())
        else:
            self.core.record_to(recorder)
        old.close()
        return f"recording to {path}" if path is not None else "recording stopped"

    def _new_recorder(self, path: Path) -> McapRecorder:
        metadata = {
            "version": __version__,
            "robot": self.spec.name,
            "robot_toml": self._toml,
            "physics_hash": self.spec.physics_hash,
            "epoch_start": str(self._epoch_start),
            "start_wall_ns": str(self.clock.wall_ns()),
        }
        return McapRecorder(path, self.clock, metadata, lambda line: log.error("%s", line))

    async def _shut_down(self, server: ControlSocket, background: list[asyncio.Task[None]]) -> None:
        self.manager.stopping()
        now_s = self.clock.now_s()
        if self.core.supervisor.state in LIVE:
            self.core.request(now_s, Event.STOP if self._fault else Event.DISARM)
            await wait_s(FLUSH_S)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await server.close()
        self._recorder.close()

    def _exit_code(self) -> int:
        if self._fault is not None:
            log.error("%s ended on a fault: %s", self.spec.name, self._fault)
            return RobotFault.exit_code
        if self.core.supervisor.state is State.FAULT:
            return RobotFault.exit_code
        return 0


class _Pace:
    """The session asks the present core's decoder what is lacking of each board."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def sync_interval_s(self, strut: int) -> float:
        return self._daemon.core.decoder.sync_interval_s(strut)

    def birth_wanted(self, strut: int) -> bool:
        return self._daemon.core.decoder.birth_wanted(strut)
