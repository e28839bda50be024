"""TDK InvenSense MPU6886 at register level (the M5StickC Plus's IMU)."""

import asyncio

from strut.sensor import DEGREE, MAX_READ, RAW_SIZE, G, Sensor, SensorError

ADDRESS = 0x68
WHO_AM_I = 0x75
IDENTITY = 0x19
SMPLRT_DIV = 0x19
CONFIG = 0x1A
GYRO_CONFIG = 0x1B
ACCEL_CONFIG = 0x1C
FIFO_EN = 0x23
USER_CTRL = 0x6A
FIFO_COUNT = 0x72  # bytes waiting, big endian
FIFO_DATA = 0x74  # accelerometer, temperature, gyro, big endian, 14 bytes a sample
PWR_MGMT_1 = 0x6B
FIFO_SENSORS = 0x18
FIFO_ON_AND_EMPTY = 0x44
FIFO_SIZE = 512
DIVIDER = 11  # 1 kHz / 12 = 83.3 Hz; 80 Hz cannot be made

RANGES_G = (2, 4, 8, 16)
RANGES_DPS = (250, 500, 1000, 2000)


class MPU6886(Sensor):
    """Samples at 1000 / 12 Hz of the sensor's clock."""

    name = "mpu6886"
    rate_hz = 1000.0 / (1 + DIVIDER)
    temp_scale = 1 / 326.8
    temp_offset = 25.0

    async def setup(self, accel_range_g: int, gyro_range_dps: int) -> None:
        if accel_range_g not in RANGES_G or gyro_range_dps not in RANGES_DPS:
            raise SensorError("no range of %d g, %d dps" % (accel_range_g, gyro_range_dps))
        identity = self.bus.read(ADDRESS, WHO_AM_I)
        if identity != IDENTITY:
            raise SensorError("WHO_AM_I is 0x%02x, not 0x%02x" % (identity, IDENTITY))
        for value in (0x00, 0x80, 0x01):  # wake, reset, run on the gyro's clock
            self.bus.write(ADDRESS, PWR_MGMT_1, value)
            await asyncio.sleep_ms(10)
        self.bus.write(ADDRESS, ACCEL_CONFIG, RANGES_G.index(accel_range_g) << 3)
        self.bus.write(ADDRESS, GYRO_CONFIG, RANGES_DPS.index(gyro_range_dps) << 3)
        self.bus.write(ADDRESS, CONFIG, 0x01)
        self.bus.write(ADDRESS, SMPLRT_DIV, DIVIDER)
        await asyncio.sleep_ms(100)
        self.accel_scale = accel_range_g * G / 32768
        self.gyro_scale = gyro_range_dps * DEGREE / 32768
        self.bus.write(ADDRESS, FIFO_EN, FIFO_SENSORS)
        self.bus.write(ADDRESS, USER_CTRL, FIFO_ON_AND_EMPTY)
        self._count = bytearray(2)

    def read(self, out: bytearray) -> int:
        self.bus.read_into(ADDRESS, FIFO_COUNT, self._count)
        waiting = self._count[0] << 8 | self._count[1]
        if waiting > FIFO_SIZE - RAW_SIZE:  # old samples are being overwritten: nobody knows where one starts
            self.overflowed = True
            self.bus.write(ADDRESS, USER_CTRL, FIFO_ON_AND_EMPTY)
            return 0
        count = min(waiting // RAW_SIZE, MAX_READ)
        if not count:
            return 0
        data = bytearray(count * RAW_SIZE)
        self.bus.read_into(ADDRESS, FIFO_DATA, data)
        for at in range(0, count * RAW_SIZE, RAW_SIZE):
            _swap(data, at, 3, out, at)
            _swap(data, at + 8, 3, out, at + 6)
            _swap(data, at + 6, 1, out, at + 12)
        return count


def _swap(source: bytearray, start: int, words: int, out: bytearray, to: int) -> None:
    """Copy big endian words as little endian ones."""
    for index in range(0, 2 * words, 2):
        out[to + index] = source[start + index + 1]
        out[to + index + 1] = source[start + index]
