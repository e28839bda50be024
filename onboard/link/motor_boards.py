"""All motor boards of a robot behind one sink, over MQTT: speeds out, rest lengths and IMU batches in, clocks and boots kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import aiomqtt
import numpy as np

from onboard.clock import Clock, wait_s
from onboard.errors import NotANumberError, WireError
from onboard.link.board_json import decode_birth, decode_config_ack, decode_health
from onboard.link.decode import Decoder
from onboard.link.endpoint import Endpoint
from onboard.link.motor_spec import MotorRobot
from onboard.link.motor_stream import MotorStream
from onboard.link.session import Session
from onboard.link.topics import MOTOR_INCOMING, Topics
from onboard.link.wire import decode_telemetry
from onboard.messages import BoardReport, Floats, ImuBatch, Setpoints

CONFIGURE_PACE_S = 0.05
PENDING = 64  # orders that wait for a connection; older ones are worth nothing

OnBatch = Callable[[ImuBatch], None]
Tap = Callable[[str, str, str, bytes, float], None]


class MotorDecoder(Decoder):
    """The IMU half of a motor board's stream."""

    app = "motor"


class MotorSession(Session):
    """A session that also sends: orders in their order, of commands the newest a board only, all at once when it is due."""

    def __init__(
        self, robot: MotorRobot, endpoint: Endpoint, clock: Clock, on_packet: Callable[..., None], pace: Decoder
    ) -> None:
        super().__init__(robot, endpoint, clock, on_packet, pace)
        self._topics = Topics(robot.link.prefix, MOTOR_INCOMING)
        self._orders: list[tuple[str, bytes]] = []
        self._commands: dict[str, bytes] = {}
        self._waiting = asyncio.Event()

    def order(self, board: str, leaf: str, payload: bytes) -> None:
        """Publish soon; a stop drops what waits before it. Without a connection nothing is kept: it would be stale."""
        if not self.connected:
            return
        topic = self._topics.of(board, leaf)
        if leaf == "cmd":
            self._commands[topic] = payload
        elif leaf == "stop":
            self._commands.pop(self._topics.of(board, "cmd"), None)
            self._orders.insert(0, (topic, payload))
        else:
            self._orders.append((topic, payload))
        del self._orders[PENDING:]
        self._waiting.set()

    async def _talk(self, client: aiomqtt.Client) -> None:
        self._orders.clear()
        self._commands.clear()
        sending = asyncio.create_task(self._send(client))
        talking = asyncio.create_task(super()._talk(client))
        try:
            done, _ = await asyncio.wait([sending, talking], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            sending.cancel()
            talking.cancel()
            await asyncio.gather(sending, talking, return_exceptions=True)

    async def _send(self, client: aiomqtt.Client) -> None:
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while self._orders or self._commands:
                if self._orders:
                    topic, payload = self._orders.pop(0)
                else:
                    topic = next(iter(self._commands))
                    payload = self._commands.pop(topic)
                await client.publish(topic, payload)


class MotorBoards:
    """ports.ActuatorSink for shares of full speed (n,) in [-1, 1], positive ones shorten. Nothing blocks.

    on_batch gets every IMU batch (`strut` is the board's index). tap(board, "in" or "out", leaf, payload, t_s) sees all packets
    of the robot's boards. refused: whole commands that were not sent, by reason. A command goes to no board unless it is finite,
    in range, of the right shape and young; the boards go off by themselves when none follows in time.
    """

    def __init__(
        self, robot: MotorRobot, endpoint: Endpoint, clock: Clock, on_batch: OnBatch | None = None, tap: Tap | None = None
    ) -> None:
        self.refused: Counter[str] = Counter()
        self.decoder = MotorDecoder(robot)
        self._robot, self._clock, self._on_batch, self._tap = robot, clock, on_batch, tap
        self._streams = [MotorStream(robot, i, self.decoder.time(i)) for i in range(len(robot.struts))]
        self.session = MotorSession(robot, endpoint, clock, self.packet, self.decoder)
        self._epoch: int | None = None

    # --- life -------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the session up and boards configured until cancelled."""
        tasks = [asyncio.create_task(self.session.run()), asyncio.create_task(self._configure())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _configure(self) -> None:
        while True:
            for stream in self._streams:
                payload = stream.configuration(self._clock.now_s()) if self.session.connected else None
                if payload is not None:
                    self._order(stream, "motor/cfg", payload)
            await wait_s(CONFIGURE_PACE_S)

    # --- the sink ---------------------------------------------------------------------------------------------------------

    def arm(self, epoch: int) -> None:
        """Ask every ready board to arm under `epoch`; which did so, their reports say."""
        self._epoch, self.session.armed = epoch, True
        for stream in self._streams:
            for leaf, payload in stream.arm(epoch, self._clock.now_s()):
                self._order(stream, leaf, payload)

    def disarm(self) -> None:
        """Ask every board to disarm; no command is sent before the next arm."""
        self._epoch, self.session.armed = None, False
        for stream in self._streams:
            for leaf, payload in stream.disarm(self._clock.now_s()):
                self._order(stream, leaf, payload)

    def stop(self) -> None:
        """Every motor off and every board latched, ahead of whatever waits; no command is sent before the next arm."""
        self._epoch, self.session.armed = None, False
        for stream in self._streams:
            self._order(stream, "stop", stream.stop())

    def send(self, setpoints: Setpoints) -> None:
        """One command per board; see the class about what is refused."""
        reason = self._unfit(setpoints)
        if reason:
            self.refused[reason] += 1
            return
        assert self._epoch is not None
        for stream in self._streams:
            payload = stream.command(self._epoch, setpoints.t_s, setpoints.value[stream.entry.motors])
            if payload is not None:
                self._order(stream, "cmd", payload)

    def _unfit(self, setpoints: Setpoints) -> str:
        value, age_s = setpoints.value, self._clock.now_s() - setpoints.t_s
        if self._epoch is None:
            return "not_armed"
        if value.shape != (self._robot.count,):
            return "wrong_shape"
        if not np.isfinite(value).all() or not np.isfinite(age_s):
            return "not_finite"
        if np.any(np.abs(value) > 1.0 + 1e-9):
            return "out_of_range"
        if not -0.005 <= age_s <= self._robot.motors.command_ttl_ms / 1000.0:
            return "expired"
        return ""

    # --- what is known ----------------------------------------------------------------------------------------------------

    def reports(self) -> list[BoardReport]:
        """The newest report of every board that has ever reported; measured (n,) are rest lengths [u] of its motors."""
        return [stream.report for stream in self._streams if stream.report is not None]

    def rest_u(self) -> Floats:
        """Newest rest lengths (motors,) [u]; NaN for those of a board that was never heard."""
        return self._gather([stream.rest_u for stream in self._streams])

    def speed_rad_s(self) -> Floats:
        """Newest spool speeds (motors,) [rad/s], positive ones shorten."""
        return self._gather([stream.speed_rad_s for stream in self._streams])

    def current_a(self) -> Floats:
        """Newest motor currents (motors,) [A]."""
        return self._gather([stream.current_a for stream in self._streams])

    def heard_s(self) -> Floats:
        """Host time [s] of the newest telemetry about every motor (motors,), minus infinity where there is none."""
        return self._gather([np.full(len(stream.entry.motors), stream.heard_s) for stream in self._streams])

    def _gather(self, parts: list[Floats]) -> Floats:
        out = np.empty(self._robot.count)
        for stream, part in zip(self._streams, parts, strict=True):
            out[stream.entry.motors] = part
        return out

    @property
    def connected(self) -> bool:
        """Whether the session at the broker stands."""
        return self.session.connected

    @property
    def ready(self) -> bool:
        """Every board may be armed."""
        return self.session.connected and all(stream.ready for stream in self._streams)

    @property
    def armed(self) -> bool:
        """Whether boards are told that actuators may move: they then refuse updates."""
        return self.session.armed

    @armed.setter
    def armed(self, value: bool) -> None:
        self.session.armed = value

    def problems(self) -> dict[str, str]:
        """What a person must see to, by board; without those that have no problem."""
        found = {stream.entry.id: stream.problem for stream in self._streams if stream.problem}
        return {**self.decoder.problems(), **found}

    # --- packets ----------------------------------------------------------------------------------------------------------

    def packet(self, board: int, leaf: str, payload: bytes, received_s: float) -> None:
        """One packet, as the session calls it and a recording replays it. Bad ones are counted, never raised."""
        stream = self._streams[board]
        if self._tap is not None:
            self._tap(stream.entry.id, "in", leaf, payload, received_s)
        try:
            if leaf == "tlm":
                stream.telemetry(decode_telemetry(payload), received_s)
                return
            if leaf == "motor/ack":
                stream.configured(decode_config_ack(payload))
                return
            batch = self.decoder.packet(board, leaf, payload, received_s)
            if leaf == "state":
                stream.born(decode_birth(payload))
            elif leaf == "health":
                stream.refusals(dict(decode_health(payload).refused))
        except (WireError, NotANumberError) as error:
            stream.counts["malformed"] += 1
            stream.problem = str(error)
            return
        if batch is not None and self._on_batch is not None:
            self._on_batch(batch)

    def _order(self, stream: MotorStream, leaf: str, payload: bytes) -> None:
        if self._tap is not None:
            self._tap(stream.entry.id, "out", leaf, payload, self._clock.now_s())
        self.session.order(stream.entry.id, leaf, payload)
