"""A strut tower as the daemon runs it: struts over MQTT, actuator boards over serial lines, the core between them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onboard.clock import Clock
from onboard.control.postures import PostureStore
from onboard.link.endpoint import Endpoint
from onboard.link.sample_source import SampleSource
from onboard.link.serial_boards import SerialBoards
from onboard.link.session import Session
from onboard.ports import Recorder
from onboard.robot import RobotSpec
from onboard.runtime.control_socket import Handler
from onboard.runtime.core import Core
from onboard.runtime.handler import Console
from onboard.runtime.loop import LoopGroup
from onboard.runtime.no_boards import NoBoards
from onboard.runtime.parts import Record
from onboard.runtime.status import StatusReporter
from onboard.runtime.warmup import warm_up


@dataclass(frozen=True, slots=True)
class TowerOptions:
    """Broker, board id -> serial port, postures' folder, struts that a simulation feeds."""

    broker: Endpoint
    ports: Mapping[str, str] = field(default_factory=dict)
    postures: Path | None = None
    fed: tuple[str, ...] = ()


class TowerParts:
    """Link, core and console of one tower; `begin` makes its core."""

    heart: Core

    def __init__(self, spec: RobotSpec, options: TowerOptions, clock: Clock) -> None:
        self.spec, self._options, self._clock = spec, options, clock
        self._sink = SerialBoards(spec, clock, options.ports) if spec.actuators else NoBoards()
        self.session = Session(spec, options.broker, clock, self._packet, _Pace(self))
        self._source = SampleSource(spec, options.fed)
        self._births: dict[int, bytes] = {}  # each strut's newest, for a core that starts later than the boards

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def physics_hash(self) -> str:
        return self.spec.physics_hash

    @property
    def supervisor_hz(self) -> float:
        return self.spec.rates.supervisor_hz

    @property
    def connected(self) -> bool:
        return self.session.connected

    def warm_up(self) -> None:
        warm_up(self.spec)

    def begin(self, recorder: Recorder, epoch_start: int) -> None:
        self.heart = Core(self.spec, self._sink, recorder, epoch_start)
        for strut, birth in sorted(self._births.items()):
            self.heart.packet(strut, "state", birth, self._clock.now_s())

    def add_loops(self, loops: LoopGroup) -> None:
        rates = self.spec.rates
        loops.add("estimator", rates.estimator_hz, self._estimate)
        if self.spec.actuators:
            loops.add("control", rates.control_hz, self._control)

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        tasks = [self.session.run()]
        if isinstance(self._sink, SerialBoards):
            tasks.append(self._sink.run())
        return tasks

    def console(self, loops: LoopGroup, record: Record, quit_daemon: Callable[[], None]) -> Handler:
        reporter = StatusReporter(lambda: self.heart, loops, self.session, self._clock)
        store = PostureStore(self.spec, self._options.postures)
        return Console(lambda: self.heart, store, reporter, self._clock, record, quit_daemon).answer

    def supervised(self, live: bool) -> None:
        self.session.armed = live

    def close(self) -> None:
        """The link's tasks close their lines themselves."""

    def _packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        if not self._source.admits(strut, kind, payload):
            return
        if kind == "state":
            self._births[strut] = payload
        self.heart.packet(strut, kind, payload, received_s)

    def _estimate(self, t_s: float) -> None:
        self.heart.estimator_tick(t_s)

    def _control(self, t_s: float) -> None:
        self.heart.control_tick(t_s)


class _Pace:
    """The session asks the present core's decoder what is lacking of each board."""

    def __init__(self, parts: TowerParts) -> None:
        self._parts = parts

    def sync_interval_s(self, strut: int) -> float:
        return self._parts.heart.decoder.sync_interval_s(strut)

    def birth_wanted(self, strut: int) -> bool:
        return self._parts.heart.decoder.birth_wanted(strut)
