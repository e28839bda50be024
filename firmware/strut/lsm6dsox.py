"""ST LSM6DSOX at register level (names and numbers from its data sheet, DS12814)."""

import asyncio

from strut.sensor import DEGREE, G, Sensor, SensorError

ADDRESS = 0x6A
WHO_AM_I = 0x0F
IDENTITY = 0x6C
CTRL1_XL = 0x10
CTRL2_G = 0x11
CTRL3_C = 0x12
STATUS = 0x1E  # then 0x20: temperature, gyro, accelerometer in one burst
INTERNAL_FREQ_FINE = 0x63
SW_RESET = 0x01
BLOCK_UPDATE = 0x40
AUTO_INCREMENT = 0x04
RATE_104_HZ = 4 << 4
ACCEL_READY = 0x01
GYRO_READY = 0x02

# Range -> (register bits, sensitivity). The gyro's are the data sheet's mdps per count, not range / 32768.
ACCEL = {2: (0, 0.061), 4: (2, 0.122), 8: (3, 0.244), 16: (1, 0.488)}  # milli-g
GYRO = {125: (1, 4.375), 250: (0, 8.75), 500: (2, 17.5), 1000: (4, 35.0), 2000: (6, 70.0)}  # mdps


class LSM6DSOX(Sensor):
    """Samples at the sensor's own 104 Hz, which INTERNAL_FREQ_FINE corrects by 0.15 % a step."""

    name = "lsm6dsox"
    temp_scale = 1 / 256
    temp_offset = 25.0

    async def setup(self, accel_range_g: int, gyro_range_dps: int) -> None:
        if accel_range_g not in ACCEL or gyro_range_dps not in GYRO:
            raise SensorError("no range of %d g, %d dps" % (accel_range_g, gyro_range_dps))
        identity = self.bus.read(ADDRESS, WHO_AM_I)
        if identity != IDENTITY:
            raise SensorError("WHO_AM_I is 0x%02x, not 0x%02x" % (identity, IDENTITY))
        self.bus.write(ADDRESS, CTRL3_C, SW_RESET)
        for _ in range(20):
            if not self.bus.read(ADDRESS, CTRL3_C) & SW_RESET:
                break
            await asyncio.sleep_ms(1)
        else:
            raise SensorError("reset does not end")
        accel_bits, accel_mg = ACCEL[accel_range_g]
        gyro_bits, gyro_mdps = GYRO[gyro_range_dps]
        self.bus.write(ADDRESS, CTRL3_C, BLOCK_UPDATE | AUTO_INCREMENT)
        self.bus.write(ADDRESS, CTRL1_XL, RATE_104_HZ | accel_bits << 2)
        self.bus.write(ADDRESS, CTRL2_G, RATE_104_HZ | gyro_bits << 1)
        fine = self.bus.read(ADDRESS, INTERNAL_FREQ_FINE)
        self.rate_hz = 104.0 * (1 + 0.0015 * (fine - 256 if fine > 127 else fine))
        self.accel_scale = accel_mg * 1e-3 * G
        self.gyro_scale = gyro_mdps * 1e-3 * DEGREE
        self._burst = bytearray(16)

    def read(self, out: bytearray) -> bool:
        burst = self._burst
        self.bus.read_into(ADDRESS, STATUS, burst)
        if burst[0] & (ACCEL_READY | GYRO_READY) != ACCEL_READY | GYRO_READY:
            return False
        out[0:6] = burst[10:16]
        out[6:12] = burst[4:10]
        out[12:14] = burst[2:4]
        return True
