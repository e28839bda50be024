"""ST LSM6DSOX at register level (names and numbers from its data sheet, DS12814)."""

import asyncio

from strut.sensor import DEGREE, MAX_READ, RAW_SIZE, G, Sensor, SensorError

ADDRESS = 0x6A
WHO_AM_I = 0x0F
IDENTITY = 0x6C
CTRL1_XL = 0x10
CTRL2_G = 0x11
CTRL3_C = 0x12
INTERNAL_FREQ_FINE = 0x63
FIFO_CTRL3 = 0x09  # batch rates: gyro << 4 | accelerometer
FIFO_CTRL4 = 0x0A
FIFO_STATUS1 = 0x3A  # words waiting, low byte; FIFO_STATUS2: high bits and overrun
FIFO_DATA_TAG = 0x78  # then six data bytes; a longer read goes on with the next word
OUT_TEMP = 0x20
SW_RESET = 0x01
BLOCK_UPDATE = 0x40
AUTO_INCREMENT = 0x04
RATE_104_HZ = 4 << 4
FIFO_CONTINUOUS = 6
FIFO_OVERRUN = 0x40
TAG_GYRO = 1
TAG_ACCEL = 2
WORD = 7
TEMPERATURE_EVERY = 50  # samples: it changes slowly

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
        self.bus.write(ADDRESS, FIFO_CTRL4, 0)  # bypass: empties it
        self.bus.write(ADDRESS, FIFO_CTRL3, RATE_104_HZ | RATE_104_HZ >> 4)
        self.bus.write(ADDRESS, FIFO_CTRL4, FIFO_CONTINUOUS)
        self._status = bytearray(2)
        self._words = bytearray(2 * MAX_READ * WORD)
        self._gyro = bytearray(6)
        self._have_gyro = False
        self._temperature = bytearray(2)
        self._until_temperature = 0

    def read(self, out: bytearray) -> int:
        self.bus.read_into(ADDRESS, FIFO_STATUS1, self._status)
        waiting = self._status[0] | (self._status[1] & 3) << 8
        if self._status[1] & FIFO_OVERRUN:
            self.overflowed = True
        if waiting < 2:
            return 0
        words = min(waiting, 2 * MAX_READ)
        data = self._words if words == 2 * MAX_READ else bytearray(words * WORD)
        self.bus.read_into(ADDRESS, FIFO_DATA_TAG, data)
        if self._until_temperature <= 0:
            self._until_temperature = TEMPERATURE_EVERY
            self.bus.read_into(ADDRESS, OUT_TEMP, self._temperature)
        count = 0
        for at in range(0, words * WORD, WORD):
            tag = data[at] >> 3
            if tag == TAG_GYRO:
                self._gyro[:] = data[at + 1 : at + WORD]
                self._have_gyro = True
            elif tag == TAG_ACCEL and self._have_gyro:  # without its gyro it is the rest of a lost pair
                self._have_gyro = False
                to = count * RAW_SIZE
                out[to : to + 6] = data[at + 1 : at + WORD]
                out[to + 6 : to + 12] = self._gyro
                out[to + 12 : to + 14] = self._temperature
                count += 1
        self._until_temperature -= count
        return count
