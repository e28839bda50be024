"""Samples the IMU on data-ready at its own rate; sets it up again when it fails; never ends."""

import asyncio

from common import ticks
from common.i2c_bus import BusError, I2CBus
from common.ring import SampleRing

from strut.sensor import RAW_SIZE, Sensor, SensorError

SILENT_PERIODS = 30  # no new sample for this many periods: set the sensor up again
RETRY_MS = 500
EARLY_US = 700  # look for the next sample this long before it is due
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

    def beat(self) -> None:
        """Sampling, or bounded recovery, goes on."""

    def set_ranges(self, accel_range_g: int, gyro_range_dps: int) -> None:
        """New ranges; the sensor is set up with them before its next sample."""
        if (accel_range_g, gyro_range_dps) != (self.accel_range_g, self.gyro_range_dps):
            self.accel_range_g = accel_range_g
            self.gyro_range_dps = gyro_range_dps
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
        raw = bytearray(RAW_SIZE)
        period_us = int(1e6 / self.sensor.rate_hz)
        last = ticks.now()
        wait_us = 0
        looks = 0
        errors = 0
        while not self._ranges_changed:
            await asyncio.sleep_ms(max(1, wait_us // 1000))
            wait_us = 0
            looks += 1
            try:
                fresh = self.sensor.read(raw)
                errors = 0
            except BusError:
                errors += 1
                if errors >= MAX_BUS_ERRORS:
                    raise
                continue
            now = ticks.now()
            if fresh:
                self.beat()
                self.samples += 1
                self.ring.put(now, raw)
                self.sampled()
                # Found at the first look it may have waited for us: look earlier next time.
                wait_us = period_us - EARLY_US - (500 if looks == 1 else 0) - ticks.diff(ticks.now(), now)
                looks = 0
                last = now
            elif ticks.diff(now, last) > SILENT_PERIODS * period_us:
                return

    def _report(self, fault: str) -> None:
        self.fault = fault
        self.changed()
