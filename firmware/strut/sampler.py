"""Takes samples from the IMU's FIFO at the sensor's own rate; sets it up again when it fails; never ends."""

import asyncio

from common import ticks
from common.i2c_bus import BusError, I2CBus
from common.ring import SampleRing

from strut.sample_clock import SampleClock
from strut.sensor import MAX_READ, RAW_SIZE, Sensor, SensorError

SILENT_PERIODS = 30  # no new sample for this many periods: set the sensor up again
RETRY_MS = 500
EARLY_US = 800
LATE_US = 300
EARLY_EVERY = 4  # looks
MAX_BUS_ERRORS = 3  # in a row


class Sampler:
    """Fills `ring`. `fault` says what is wrong, empty when samples flow. `changed` is called when `fault` or the scales
    change, `sampled` after every sample, `beat` on every turn, failed or not."""

    def __init__(self, bus: I2CBus, sensor: Sensor, ring: SampleRing) -> None:
        self.bus = bus
        self.sensor = sensor
        self.ring = ring
        self.accel_range_g = 4
        self.gyro_range_dps = 500
        self.fault = "not set up"
        self.samples = 0
        self.faulted = False  # set by a new set-up after a failure, cleared by whoever reports it
        self._ranges_changed = False

    def changed(self) -> None:
        """`fault` or the scales are new."""

    def sampled(self) -> None:
        """A sample is in the ring."""

    def missing(self) -> int:
        """How many samples to wait for before the next look."""
        return 1

    def beat(self) -> None:
        """Sampling, or bounded recovery, goes on."""

    def set_ranges(self, accel_range_g: int, gyro_range_dps: int) -> None:
        """New ranges; the sensor is set up with them before its next sample."""
        if (accel_range_g, gyro_range_dps) != (self.accel_range_g, self.gyro_range_dps):
            self.accel_range_g = accel_range_g
            self.gyro_range_dps = gyro_range_dps
            self._ranges_changed = True

    def use(self, bus: I2CBus) -> None:
        """Sample from this bus from now on; the sensor on it is set up first."""
        self.bus = self.sensor.bus = bus
        self._ranges_changed = True

    async def run(self) -> None:
        """For ever: set up, sample until something fails, recover."""
        while True:
            self.beat()
            try:
                self._ranges_changed = False
                await self.sensor.setup(self.accel_range_g, self.gyro_range_dps)
                self._report("")
                await self._sample()
                if self._ranges_changed:
                    continue
                self._report("no samples")
            except SensorError as error:
                self._report(str(error))
            except BusError as error:
                self._report(str(error))
                if not self.bus.recover():
                    self._report("data line is held low")
            self.faulted = True
            self.beat()
            await asyncio.sleep_ms(RETRY_MS)

    async def _sample(self) -> None:
        raw = bytearray(RAW_SIZE * MAX_READ)
        one = memoryview(raw)
        clock = SampleClock(1e6 / self.sensor.rate_hz)
        before = last = ticks.now()
        wait_us = 0
        looks = 0
        errors = 0
        while not self._ranges_changed:
            await asyncio.sleep_ms(max(1, wait_us // 1000))
            wait_us = 0
            if self._ranges_changed:
                return
            try:
                count = self.sensor.read(raw)
                errors = 0
            except BusError:
                errors += 1
                if errors >= MAX_BUS_ERRORS:
                    raise
                continue
            now = ticks.now()
            if count:
                self.beat()
                self.samples += count
                newest = clock.newest(count, now, before)
                for index in range(count):
                    age_us = (count - 1 - index) * clock.spacing_us
                    self.ring.put((newest - age_us) & ticks.MASK, one[index * RAW_SIZE : (index + 1) * RAW_SIZE])
                if self.sensor.overflowed:
                    self.sensor.overflowed = False
                    self.ring.lost()
                self.sampled()
                looks += 1
                # Now and then look before it is due: what is not there yet teaches the clock as well.
                early_us = EARLY_US if looks % EARLY_EVERY == 0 else -LATE_US
                wait_us = clock.due(self.missing(), ticks.now()) - early_us
                last = now
            elif ticks.diff(now, last) > SILENT_PERIODS * clock.period_us:
                return
            before = now

    def _report(self, fault: str) -> None:
        self.fault = fault
        self.changed()
