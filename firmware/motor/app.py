"""The motor board: a strut with motors. Commands come over its link, the control task owns bridges and deadline."""

import asyncio
import json

import machine
import micropython
from boards.board import Board
from common import actuator, frames, ticks
from common.actuator import ActuatorOwner
from common.identity import Identity
from common.upkeep import Upkeep
from common.watchdog import Watchdog
from strut.app import Strut, StrutLink

from motor.bridge import Bridge
from motor.config import FULL_SCALE, MotorConfig
from motor.encoder import Encoder
from motor.regulator import Regulator

KIND = 2  # of board, in telemetry
TICK_MS = 10
TICKS_PER_TELEMETRY = 2
TICKS_PER_FEED = 20
CONTROL_LIMIT_MS = 300
WATCHDOG_MS = 3000  # a hung processor leaves the bridges as they are for this long
ORDERS = {"cmd": frames.COMMAND, "arm": frames.ARM, "disarm": frames.DISARM, "stop": frames.STOP}


class MotorLink(StrutLink):
    """Adds commands and the motors' configuration; none of them is of this moment when it was kept by the broker."""

    app: "MotorBoard"

    def on_message(self, leaf: str, payload: bytes, retained: bool, received: int) -> None:
        if leaf == "motor/cfg":
            if not retained:
                self.app.configure_motors(payload)
        elif leaf in ORDERS:
            if not retained:
                self.app.order(ORDERS[leaf], payload, received)
        else:
            super().on_message(leaf, payload, retained, received)


class MotorUpkeep(Upkeep):
    """A board whose own motors may turn is armed, whoever says what."""

    app: "MotorBoard"

    def armed(self) -> bool:
        return self.app.owner.state == actuator.ACTIVE or super().armed()


class MotorBoard(Strut):
    """The control task alone writes the bridges; messages change the owner's targets."""

    def __init__(self, identity: Identity, board: Board) -> None:
        if not board.MOTORS:
            raise ValueError("a %s has no pins for motors" % identity.board)
        self.bridges = [Bridge(pins.in1, pins.in2, pins.current) for pins in board.MOTORS]  # braked from here on
        self.encoders = [Encoder(i, pins.phase_a, pins.phase_b) for i, pins in enumerate(board.MOTORS)]
        self.regulators = [Regulator() for _ in board.MOTORS]
        self.motors = len(board.MOTORS)
        self.start_cause = actuator.NO_CAUSE
        if identity.reset_cause == "watchdog":
            self.start_cause = actuator.WATCHDOG
        elif identity.crash:
            self.start_cause = actuator.CRASH
        self.owner = ActuatorOwner(self.motors, identity.boot_id, None, self.start_cause)
        self.stop_pin = machine.Pin(board.STOP_PIN, machine.Pin.IN, machine.Pin.PULL_UP)
        self.settings: MotorConfig | None = None
        self.telemetry_sequence = 0
        self.loop_max_ms = 0
        self.interruptible = True
        board.at_end = self.brake  # type: ignore[method-assign]
        super().__init__(identity, board)

    def new_link(self, leaves: list[str]) -> StrutLink:
        return MotorLink(self.identity, leaves + ["motor/cfg"] + list(ORDERS), self.board.NODELAY, self.board.POWER_SAVE_OFF)

    def new_upkeep(self) -> Upkeep:
        upkeep = MotorUpkeep(self.link)
        upkeep.app = self
        return upkeep

    def new_watchdog(self, limits_ms: dict[str, int]) -> Watchdog:
        limits_ms["control"] = CONTROL_LIMIT_MS
        return Watchdog(limits_ms, WATCHDOG_MS)

    def describe(self) -> dict[str, object]:
        table = super().describe()
        table.update({"channels": self.motors, "full_scale": FULL_SCALE, "latched": actuator.CAUSES[self.start_cause]})
        return table

    def health(self) -> dict[str, object]:
        table = super().health()
        owner = self.owner
        table.update(
            {
                "state": actuator.STATES[owner.state],
                "cause": actuator.CAUSES[owner.cause],
                "refused": owner.counters(),
                "loop_max_ms": self.loop_max_ms,
            }
        )
        self.loop_max_ms = 0
        return table

    def configure_motors(self, payload: bytes) -> None:
        """Check the motors' configuration, take it, say so. It is not kept: its travel belongs to this boot."""
        generation = 0
        problem = ""
        try:
            settings = MotorConfig(json.loads(payload), self.motors, self.identity.boot_id)
            generation = settings.owner.generation
            self.owner.configure(settings.owner)
            self.settings = settings
        except ValueError as error:
            problem = str(error) or "not JSON"
        answer = {"boot_id": self.identity.boot_id, "generation": generation, "ok": not problem, "error": problem}
        self.link.publish("motor/ack", json.dumps(answer).encode(), False, 1)

    def order(self, kind: int, payload: bytes, now: int) -> None:
        """A command, arm, disarm or stop received at ticks `now`."""
        accepted = self.owner.handle(kind, payload, now)
        if kind == frames.ARM and accepted:
            for regulator in self.regulators:
                regulator.forgive()
        elif kind == frames.STOP:
            self.brake()  # now, not at the next tick
        if kind != frames.COMMAND:
            self.report(ticks.now())

    def brake(self) -> None:
        """All motors off; the spools hold."""
        for bridge in self.bridges:
            bridge.drive(0.0)

    def control(self, now: int, elapsed_us: int) -> None:
        """One tick: readings, expiry and slew, bridges; a motor that stalls or draws too much latches the board."""
        for index, regulator in enumerate(self.regulators):
            regulator.measure(self.encoders[index].count(), self.bridges[index].current_ma(), elapsed_us)
        owner = self.owner
        owner.tick(now, bool(self.stop_pin.value()))
        settings = self.settings
        if owner.state == actuator.ACTIVE and settings is not None:
            for index, regulator in enumerate(self.regulators):
                self.bridges[index].drive(regulator.duty(settings, index, owner.outputs[index], elapsed_us))
                if regulator.overcurrent:
                    owner.latch(actuator.OVERCURRENT)
                elif regulator.stalled:
                    owner.latch(actuator.STALL)
        if (owner.state != actuator.ACTIVE) != self.interruptible:  # no flasher gets in between while motors may turn
            self.interruptible = owner.state != actuator.ACTIVE
            micropython.kbd_intr(3 if self.interruptible else -1)
        if owner.state != actuator.ACTIVE:
            self.brake()
            for regulator in self.regulators:
                regulator.rest()

    def faults(self) -> int:
        """The fault bits of telemetry."""
        bits = self.owner.faults()
        for regulator in self.regulators:
            if regulator.stalled:
                bits |= actuator.F_STALL
            if regulator.overcurrent:
                bits |= actuator.F_OVERCURRENT
        return bits

    def report(self, now: int) -> None:
        """Publish telemetry, now or not at all."""
        owner = self.owner
        channels = []
        for index, regulator in enumerate(self.regulators):
            output = owner.outputs[index]
            channels.append((frames.CH_SETPOINT, index, int(output + (0.5 if output >= 0 else -0.5))))
            channels.append((frames.CH_ENCODER, index, min(max(regulator.count, -32768), 32767)))
            channels.append((frames.CH_SPEED, index, min(max(int(regulator.speed), -32768), 32767)))
            channels.append((frames.CH_CURRENT, index, min(regulator.current_ma, 32767)))
        self.telemetry_sequence += 1
        payload = frames.encode_telemetry(
            KIND,
            owner.state,
            owner.cause,
            0 if owner.config is None else owner.config.generation,
            self.faults(),
            owner.boot_id,
            owner.epoch,
            self.telemetry_sequence,
            now,
            owner.last_sequence,
            owner.refused_total,
            owner.last_refusal,
            channels,
        )
        self.link.publish("tlm", payload)

    async def drive(self) -> None:
        """For ever: one control tick every TICK_MS; late ones are skipped, never caught up."""
        count = 0
        before = due = ticks.now()
        while True:
            now = ticks.now()
            elapsed_us = ticks.diff(now, before)
            self.loop_max_ms = max(self.loop_max_ms, elapsed_us // 1000)
            before = now
            self.control(now, elapsed_us)
            self.watchdog.beat("control")
            count += 1
            if count % TICKS_PER_TELEMETRY == 0 and self.link.ready():
                self.report(ticks.now())
            if count % TICKS_PER_FEED == 0:
                self.watchdog.feed()
            due = (due + TICK_MS * 1000) & ticks.MASK
            wait_us = ticks.diff(due, ticks.now())
            if wait_us < 0:
                due = ticks.now()
            await asyncio.sleep_ms(max(0, wait_us // 1000))

    async def run(self) -> None:
        """For ever: the strut's tasks and the motors' side by side."""
        await asyncio.gather(super().run(), self.drive())


async def main(identity: Identity, board: Board) -> None:
    """Run the board; ends only with an error, which the next boot reports latched."""
    await MotorBoard(identity, board).run()
