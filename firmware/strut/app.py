"""The strut: an IMU sampled at its own rate, batches over MQTT, birth, health, configuration."""

import asyncio
import gc
import json

from boards.board import Board
from common import frames, ticks
from common.i2c_bus import BusError, I2CBus
from common.identity import Identity, section
from common.link import Link
from common.ring import SampleRing
from common.upkeep import LEAVES, Upkeep
from common.watchdog import Watchdog

from strut.sampler import Sampler
from strut.usb_feed import UsbFeed

RING = 32  # samples, about 0.3 s: older ones are of no use to control
MAX_BATCH = 8
HEALTH_MS = 1000
LINK_LIMIT_MS = 20_000  # the link's longest bounded step is a WiFi join
SAMPLING_LIMIT_MS = 3000


class StrutLink(Link):
    """The link of a strut: adds the sensor to the birth, takes configuration."""

    app: "Strut"

    def birth(self) -> dict[str, object]:
        table = super().birth()
        table.update(self.app.describe())
        return table

    def on_message(self, leaf: str, payload: bytes, retained: bool, received: int) -> None:
        if leaf == "cfg" and payload:
            self.app.configure(payload)
        elif leaf == "hello":
            if not retained:
                self.announce()
        elif leaf in LEAVES:
            self.app.upkeep.take(leaf, payload, retained, received)

    def beat(self) -> None:
        self.app.watchdog.beat("link")


class StrutSampler(Sampler):
    """Tells the strut what happens."""

    app: "Strut"

    def changed(self) -> None:
        self.app.link.announce()

    def sampled(self) -> None:
        self.app.send()

    def missing(self) -> int:
        batch = self.app.batch
        return batch - len(self.ring) % batch

    def beat(self) -> None:
        self.app.watchdog.beat("sampling")


class StrutFeed(UsbFeed):
    """The strut's answers to a simulation on its USB line."""

    app: "Strut"

    def birth(self) -> dict[str, object]:
        app = self.app
        table = app.link.birth()
        broker = section(app.identity.settings, "broker")
        table["prefix"] = app.identity.prefix
        table["broker"] = "%s:%s" % (broker.get("host"), broker.get("port", 1883))
        table["link"] = app.link.said
        return table

    def refusal(self) -> str:
        if self.app.upkeep.armed():
            return "armed"
        return "" if self.app.link.settled else "offline"

    def use(self, bus: object) -> None:
        self.app.use_bus(bus if isinstance(bus, I2CBus) else None)


class Strut:
    """One board, one sensor, one link. A board that does more than a strut overrides `new_link` and `new_watchdog`."""

    def __init__(self, identity: Identity, board: Board) -> None:
        self.identity = identity
        self.board = board
        self.watchdog = self.new_watchdog({"link": LINK_LIMIT_MS, "sampling": SAMPLING_LIMIT_MS})
        self.bus = board.open_bus()
        self.ring = SampleRing(RING)
        self.sampler = StrutSampler(self.bus, board.open_sensor(self.bus), self.ring)
        self.sampler.app = self
        self.link = self.new_link(["cfg", "sync/req", "hello"] + LEAVES)
        self.link.app = self
        self.upkeep = self.new_upkeep()
        self.feed = StrutFeed(self.sampler.sensor.name, identity.boot_id)
        self.feed.app = self
        self.batch = 2
        self.generation = 0
        self._configured: object = None  # over the link, since boot: the first one is taken even while the robot is armed
        self.uptime_s = 0
        start = section(identity.settings, "imu")
        if start:
            start["generation"] = 1  # provisioned settings; a configuration over the link replaces them
            self.apply(start)
        self._errors_told = 0
        self._frame = bytearray(frames.IMU_HEADER_SIZE + frames.IMU_SAMPLE_SIZE * MAX_BATCH)

    def new_link(self, leaves: list[str]) -> StrutLink:
        """The link, subscribed to `leaves`."""
        return StrutLink(self.identity, leaves, self.board.NODELAY, self.board.POWER_SAVE_OFF)

    def new_upkeep(self) -> Upkeep:
        """What knows whether the robot is armed, and looks after updates."""
        return Upkeep(self.link)

    def new_watchdog(self, limits_ms: dict[str, int]) -> Watchdog:
        """The watchdog over the parts in `limits_ms`."""
        return Watchdog(limits_ms)

    def describe(self) -> dict[str, object]:
        """The strut's part of the birth message."""
        sensor = self.sampler.sensor
        return {
            "sensor": sensor.name,
            "bus": "usb" if self.feed.fed else "i2c",
            "sensor_fault": self.sampler.fault,
            "rate_hz": sensor.rate_hz,
            "batch": self.batch,
            "accel_scale": sensor.accel_scale,
            "gyro_scale": sensor.gyro_scale,
            "temp_scale": sensor.temp_scale,
            "temp_offset": sensor.temp_offset,
            "config_generation": self.generation,
        }

    def use_bus(self, bus: I2CBus | None) -> None:
        """Sample from another bus, None for the board's own; what was not sent of the old one is given up."""
        self.ring.drop(len(self.ring))
        self.sampler.use(self.bus if bus is None else bus)
        self._errors_told = self.sampler.bus.errors

    def apply(self, table: object) -> int:
        """Take a configuration; returns its generation; ValueError says what is wrong, nothing is changed then."""
        if not isinstance(table, dict):
            raise ValueError("not a JSON object")
        for key in table:
            if key not in ("generation", "batch", "accel_range_g", "gyro_range_dps"):
                raise ValueError("unknown key %s" % key)
        generation = _choice(table, "generation", range(1, 65536), 0)
        batch = _choice(table, "batch", range(1, MAX_BATCH + 1), 2)
        accel = _choice(table, "accel_range_g", (2, 4, 8, 16), 4)
        gyro = _choice(table, "gyro_range_dps", (125, 250, 500, 1000, 2000), 500)
        self.generation = generation
        self.batch = batch
        self.sampler.set_ranges(accel, gyro)
        return generation

    def configure(self, payload: bytes) -> None:
        """Check a configuration, take it, say so."""
        generation = 0
        problem = ""
        try:
            table = json.loads(payload)
            if self.upkeep.armed() and self._configured not in (None, table):
                raise ValueError("refused while the robot is armed")
            generation = self.apply(table)
            self._configured = table
        except ValueError as error:
            problem = str(error) or "not JSON"
        answer = {
            "boot_id": self.identity.boot_id,
            "generation": generation,
            "ok": not problem,
            "error": problem,
        }
        self.link.publish("cfg/ack", json.dumps(answer).encode(), False, 1)
        if not problem:
            self.link.announce()

    def send(self) -> None:
        """Send full batches while the link takes them; a backlog goes out in larger frames."""
        ring = self.ring
        while len(ring) >= self.batch and self.link.ready():
            count = self._fill(min(len(ring), max(self.batch, MAX_BATCH if len(ring) >= 2 * self.batch else 1)))
            flags = frames.OVERFLOW if ring.overflow else 0
            if self.sampler.bus.errors != self._errors_told:
                flags |= frames.BUS_ERROR
            if self.sampler.faulted:
                flags |= frames.SENSOR_FAULT
            frames.imu_header_into(
                self._frame,
                count,
                flags,
                self.generation,
                self.identity.boot_id,
                ring.sequence,
                ring.ticks_at(0),
            )
            size = frames.IMU_HEADER_SIZE + count * frames.IMU_SAMPLE_SIZE
            if not self.link.publish("imu", self._frame[:size]):
                return
            ring.drop(count)
            ring.overflow = False
            self.sampler.faulted = False
            self._errors_told = self.sampler.bus.errors

    def _fill(self, limit: int) -> int:
        """Put up to `limit` samples into the frame, fewer before a gap that 16 bits cannot tell; returns how many."""
        at = frames.IMU_HEADER_SIZE
        previous = self.ring.ticks_at(0)
        for index in range(limit):
            now = self.ring.ticks_at(index)
            gap = ticks.diff(now, previous)
            if gap > 0xFFFF:
                return index
            self._frame[at] = gap & 0xFF
            self._frame[at + 1] = gap >> 8
            self.ring.copy_raw(index, self._frame, at + 2)
            at += frames.IMU_SAMPLE_SIZE
            previous = now
        return limit

    def health(self) -> dict[str, object]:
        """Counters since boot."""
        try:
            battery = self.board.battery_mv(self.bus)
        except BusError:
            battery = None
        return {
            "boot_id": self.identity.boot_id,
            "uptime_s": self.uptime_s,
            "free_bytes": gc.mem_free(),
            "samples": self.sampler.samples,
            "dropped": self.ring.dropped,
            "bus_errors": self.sampler.bus.errors,
            "recoveries": self.sampler.bus.recoveries,
            "reconnects": max(0, self.link.sessions - 1),
            "sensor_fault": self.sampler.fault,
            "rssi_dbm": self.link.wifi.rssi(),
            "battery_mv": battery,
        }

    async def tend(self) -> None:
        """For ever: watchdog and health."""
        while True:
            await asyncio.sleep_ms(HEALTH_MS)
            self.uptime_s += HEALTH_MS // 1000
            gc.collect()
            self.watchdog.feed()
            self.link.publish("health", json.dumps(self.health()).encode())

    async def run(self) -> None:
        """For ever: link, sampling and care side by side; an error in one ends all, and the board starts again."""
        try:
            self.board.power_up(self.bus)
        except BusError:
            self.bus.recover()
        await asyncio.gather(self.link.run(), self.sampler.run(), self.feed.run(), self.upkeep.run(), self.tend())


def _choice(table: dict[str, object], key: str, allowed: "range | tuple[int, ...]", default: int) -> int:
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        raise ValueError("%s must be one of %s" % (key, allowed))
    return value


async def main(identity: Identity, board: Board) -> None:
    """Run the strut; ends only with an error."""
    await Strut(identity, board).run()
