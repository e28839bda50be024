"""The valve board: commands in and telemetry out over a serial line, outputs held by the actuator owner."""

import asyncio
import gc
import json

import machine
from boards.board import Board
from common import actuator, frames, store, ticks
from common.actuator import ActuatorConfig, ActuatorOwner
from common.i2c_bus import BusError
from common.identity import Identity
from common.serial_port import SerialPort
from common.watchdog import Watchdog

from valve.converters import SETPOINT_FULL_SCALE, UNIT_PA, ValveConverters

CONFIG = "/config.json"
HOLD = "/hold"  # main.py waits for a flasher when it finds this file
KIND = 1  # of board, in telemetry
TICK_MS = 10
TICKS_PER_TELEMETRY = 2
TICKS_PER_FEED = 10
TICKS_PER_HEALTH = 100
CONTROL_LIMIT_MS = 500
MAX_CHANNELS = 8


class ValveBoard:
    """One board. The control task owns outputs and watchdog; the receive task only changes the owner's targets."""

    def __init__(self, identity: Identity, board: Board) -> None:
        self.identity = identity
        channels = identity.settings.get("channels", MAX_CHANNELS)
        if not isinstance(channels, int) or not 1 <= channels <= MAX_CHANNELS:
            raise ValueError("channels must be 1 .. %d" % MAX_CHANNELS)
        self.channels = channels
        self.config_unreadable = False
        cause = actuator.NO_CAUSE
        if identity.reset_cause == "watchdog":
            cause = actuator.WATCHDOG
        elif identity.crash:
            cause = actuator.CRASH
        self.start_cause = cause
        self.owner = ActuatorOwner(channels, identity.boot_id, self._load(), cause)
        self.bus = board.open_bus()
        self.converters = ValveConverters(self.bus, channels)
        self.stop_pin = machine.Pin(board.STOP_PIN, machine.Pin.IN, machine.Pin.PULL_UP)
        self.port = SerialPort()
        self.watchdog = Watchdog({"control": CONTROL_LIMIT_MS})
        self.measured = [0] * channels
        self.hardware_faults = 0
        self.sequence = 0
        self.uptime_s = 0
        self.loop_max_ms = 0

    def _load(self) -> ActuatorConfig | None:
        try:
            stored = store.load(CONFIG)
            return None if stored is None else actuator.parse_config(stored, self.channels, SETPOINT_FULL_SCALE)
        except ValueError:
            self.config_unreadable = True
            return None

    def birth(self) -> bytes:
        """Who this board is and how it started."""
        table = self.identity.birth()
        config = self.owner.config
        table.update(
            {
                "channels": self.channels,
                "unit_pa": UNIT_PA,
                "full_scale": SETPOINT_FULL_SCALE,
                "config_generation": 0 if config is None else config.generation,
                "latched": actuator.CAUSES[self.start_cause],
            }
        )
        return json.dumps(table).encode()

    def health(self) -> bytes:
        """Counters since boot."""
        owner = self.owner
        refused = owner.counters()
        if self.port.frames.crc_errors:
            refused["crc"] = self.port.frames.crc_errors
        table = {
            "boot_id": self.identity.boot_id,
            "uptime_s": self.uptime_s,
            "free_bytes": gc.mem_free(),
            "state": actuator.STATES[owner.state],
            "cause": actuator.CAUSES[owner.cause],
            "refused": refused,
            "not_following": owner.not_following,
            "dropped": self.port.dropped,
            "crc_errors": self.port.frames.crc_errors,
            "oversized": self.port.frames.oversized,
            "bus_errors": self.bus.errors,
            "recoveries": self.bus.recoveries,
            "loop_max_ms": self.loop_max_ms,
        }
        return json.dumps(table).encode()

    def telemetry(self, now: int) -> bytearray:
        """State, applied set-points and measured pressures."""
        owner = self.owner
        channels = [(frames.CH_SETPOINT, i, int(owner.outputs[i] + 0.5)) for i in range(self.channels)]
        channels += [(frames.CH_PRESSURE, i, self.measured[i]) for i in range(self.channels)]
        faults = owner.faults() | self.hardware_faults
        if self.config_unreadable:
            faults |= actuator.F_CONFIG_UNREADABLE
        config = owner.config
        self.sequence += 1
        return frames.encode_telemetry(
            KIND,
            owner.state,
            owner.cause,
            0 if config is None else config.generation,
            faults,
            owner.boot_id,
            owner.epoch,
            self.sequence,
            now,
            owner.last_sequence,
            owner.refused_total,
            owner.last_refusal,
            channels,
        )

    def configure(self, payload: bytes) -> None:
        """Check a configuration, keep it, take it, say so."""
        generation = 0
        problem = ""
        try:
            table = json.loads(payload)
            config = actuator.parse_config(table, self.channels, SETPOINT_FULL_SCALE)
            generation = config.generation
            self.owner.configure(config)
            store.save(CONFIG, table)
            self.config_unreadable = False
        except (ValueError, OSError) as error:
            problem = str(error) or "not a JSON object"
        answer = {
            "boot_id": self.identity.boot_id,
            "generation": generation,
            "ok": not problem,
            "error": problem,
        }
        self.port.send(frames.CONFIG_ACK, json.dumps(answer).encode())

    def make_way(self) -> None:
        """Restart into the wait for a flasher; never while a host commands the outputs."""
        if self.owner.state == actuator.ACTIVE:
            self.owner.refuse(frames.R_STATE)
            return
        with open(HOLD, "w"):
            pass
        machine.reset()

    def take(self, kind: int, payload: bytes, now: int) -> None:
        """One frame from the host, received at ticks `now`."""
        if kind == frames.SYNC_REQUEST:
            try:
                stamp = frames.decode_sync_request(payload)
            except frames.Refused as refusal:
                self.owner.refuse(refusal.reason)
                return
            answer = frames.encode_sync_response(stamp, self.identity.boot_id, now, ticks.now())
            self.port.send(frames.SYNC_RESPONSE, answer)
        elif kind == frames.CONFIG:
            self.configure(payload)
        elif kind == frames.HELLO:
            self.port.send(frames.BIRTH, self.birth())
        elif kind == frames.MAINTENANCE:
            self.make_way()
        elif kind in (frames.COMMAND, frames.ARM, frames.DISARM, frames.STOP):
            self.owner.handle(kind, payload, now)
            if kind == frames.STOP:
                self.control(now)  # now, not at the next tick
            if kind != frames.COMMAND:
                self.port.send(frames.TELEMETRY, self.telemetry(ticks.now()))
        else:
            self.owner.refuse(frames.R_TYPE)

    async def receive(self) -> None:
        """For ever: frames from the line; greets whoever has just opened it."""
        greeted = False
        while True:
            received = await self.port.receive()
            now = ticks.now()
            if self.port.connected and not greeted:
                self.port.send(frames.BIRTH, self.birth())
            greeted = self.port.connected
            for kind, payload in received:
                self.take(kind, payload, now)

    def control(self, now: int) -> None:
        """One tick: expiry and slew, outputs."""
        owner = self.owner
        owner.tick(now, bool(self.stop_pin.value()))
        try:
            self.converters.write(owner.outputs)
            self.hardware_faults &= ~actuator.F_OUTPUT
        except BusError:
            self.hardware_faults |= actuator.F_OUTPUT
            owner.latch(actuator.OUTPUT_FAULT)
            self.converters.forget()
            self.bus.recover()

    def measure(self, elapsed_us: int) -> None:
        """Read all pressures and compare them with the outputs."""
        try:
            self.converters.read(self.measured)
            self.hardware_faults &= ~actuator.F_MEASUREMENT
            self.owner.follow(self.measured, elapsed_us)
        except BusError:
            self.hardware_faults |= actuator.F_MEASUREMENT

    async def run(self) -> None:
        """For ever: one control tick every TICK_MS; telemetry and health at whole multiples of it."""
        count = 0
        before = due = ticks.now()
        while True:
            now = ticks.now()
            self.loop_max_ms = max(self.loop_max_ms, ticks.diff(now, before) // 1000)
            before = now
            self.control(now)
            self.watchdog.beat("control")
            self.port.flush()
            count += 1
            if count % TICKS_PER_TELEMETRY == 0:
                self.measure(TICK_MS * TICKS_PER_TELEMETRY * 1000)
                self.port.send(frames.TELEMETRY, self.telemetry(ticks.now()))
            if count % TICKS_PER_FEED == 0:
                self.watchdog.feed()
            if count % TICKS_PER_HEALTH == 0:
                self.uptime_s += TICK_MS * TICKS_PER_HEALTH // 1000
                self.port.send(frames.HEALTH, self.health())
                self.loop_max_ms = 0
                gc.collect()
            due = (due + TICK_MS * 1000) & ticks.MASK
            wait_us = ticks.diff(due, ticks.now())
            if wait_us < 0:  # late: skip ahead, never catch up
                due = ticks.now()
            await asyncio.sleep_ms(max(0, wait_us // 1000))


async def main(identity: Identity, board: Board) -> None:
    """Run the board; ends only with an error, which the next boot reports latched."""
    valves = ValveBoard(identity, board)
    valves.control(ticks.now())  # safe set-points before anybody can talk to us
    await asyncio.gather(valves.run(), valves.receive())
