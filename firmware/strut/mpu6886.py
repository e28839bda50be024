"""TDK InvenSense MPU6886 at register level (the M5StickC Plus's IMU)."""

import asyncio

from strut.sensor import DEGREE, G, Sensor, SensorError

ADDRESS = 0x68
WHO_AM_I = 0x75
IDENTITY = 0x19
SMPLRT_DIV = 0x19
CONFIG = 0x1A
GYRO_CONFIG = 0x1B
ACCEL_CONFIG = 0x1C
INT_STATUS = 0x3A  # then 0x3B: accelerometer, temperature, gyro, big endian, in one burst
PWR_MGMT_1 = 0x6B
DATA_READY = 0x01
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
        self._burst = bytearray(15)

    def read(self, out: bytearray) -> bool:
        burst = self._burst
        self.bus.read_into(ADDRESS, INT_STATUS, burst)
        if not burst[0] & DATA_READY:
            return False
        for index in range(6):
            source = 1 + index if index < 3 else 2 + index  # the temperature lies between
            out[2 * index] = burst[2 * source]
            out[2 * index + 1] = burst[2 * source - 1]
        out[12] = burst[8]
        out[13] = burst[7]
        return True
