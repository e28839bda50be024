"""Register maps of the parts on a board's I2C bus: they honour identity, reset, range, rate and FIFO."""

import struct

import registers

COUNTER = 4
ACCEL = 8
GYRO = 14
TEMPERATURE = 20
FAULTS = 22
BUS_EVENTS = 24
BATTERY = 26
RATE_STEPS = 28

FAULT_WRONG_ID = 1
FAULT_NO_ANSWER = 2


class Imu:
    """Common to both sensors: registers, what waits in the FIFO, and the report of what is configured."""

    def __init__(self, size: int) -> None:
        self.regs = bytearray(size)
        self._next = None
        self._reads = 0
        self._told = 0
        self.overrun = False
        self._missed = 0
        self.reset()

    def waiting(self, record: bytearray) -> int:
        """Samples in the FIFO. Those that the ring has overwritten are lost, as in the chip."""
        counter = struct.unpack_from("<I", record, COUNTER)[0]
        if self._next is None or not self.running():
            self._next = counter + 1
        count = counter + 1 - self._next & 0xFFFFFFFF
        if count > registers.RING - 2:
            if count < 0x80000000:
                self._missed += count - (registers.RING - 2)
                self.overrun = True
            self._next = counter - (registers.RING - 3) & 0xFFFFFFFF
            count = registers.RING - 2
        return count

    def take(self, count: int):
        """Offsets in the loaded ring of the next samples, oldest first."""
        registers.load_ring()
        found = []
        for _ in range(count):
            at = registers.slot(self._next)
            if at >= 0:
                found.append(at)
            else:
                self._missed += 1
            self._next = self._next + 1 & 0xFFFFFFFF
        self._reads += len(found)
        if self._reads - self._told >= 16:
            self.report()
        return found

    def empty(self) -> None:
        """Forget what waits."""
        self._next = None

    def report(self) -> None:
        """Tell the plant range, rate and counts."""
        self._told = self._reads
        accel, gyro, rate = self.configured()
        registers.write(
            registers.IMU_CONFIG_AT,
            "<HHHHfII",
            int(self.running()),
            accel,
            gyro,
            0,
            rate,
            self._reads & 0xFFFFFFFF,
            self._missed & 0xFFFFFFFF,
        )


class Lsm6dsox(Imu):
    """ST LSM6DSOX: a FIFO of tagged words (gyro, then accelerometer), temperature 0x20, all little endian."""

    def __init__(self) -> None:
        super().__init__(0x80)
        self._resetting = False

    def reset(self) -> None:
        self.regs = bytearray(0x80)
        self.regs[0x0F] = 0x6C
        self.regs[0x12] = 0x04

    def running(self) -> bool:
        """Both sensors on, both batched, FIFO in continuous mode."""
        regs = self.regs
        rates = regs[0x10] >> 4 and regs[0x11] >> 4 and regs[0x09] & 0x0F and regs[0x09] >> 4
        return bool(rates) and regs[0x0A] & 7 == 6

    def configured(self):
        accel = (2, 16, 4, 8)[self.regs[0x10] >> 2 & 3]
        gyro = 125 if self.regs[0x11] & 2 else (250, 500, 1000, 2000)[self.regs[0x11] >> 2 & 3]
        odr = self.regs[0x10] >> 4
        rate = (0.0, 12.5, 26.0, 52.0, 104.0, 208.0, 416.0)[odr] if odr < 7 else 0.0
        return accel, gyro, rate

    def read(self, register: int, out: bytearray, record: bytearray) -> None:
        regs = self.regs
        if register == 0x3A:
            words = 2 * self.waiting(record)
            regs[0x3A] = words & 0xFF
            regs[0x3B] = words >> 8 | (0x40 if self.overrun else 0)
            self.overrun = False
        elif register == 0x78:
            self._words(out)
            return
        elif register == 0x20:
            regs[0x20:0x22] = record[TEMPERATURE : TEMPERATURE + 2]
        elif register == 0x0F:
            regs[0x0F] = 0x6B if record[FAULTS] & FAULT_WRONG_ID else 0x6C
        elif register == 0x63:
            regs[0x63] = record[RATE_STEPS]
        out[:] = regs[register : register + len(out)]
        if register == 0x12 and self._resetting:  # the bit clears itself a little later
            self._resetting = False
            self.reset()

    def _words(self, out: bytearray) -> None:
        ring = registers._ring
        to = 0
        for at in self.take(len(out) // 14):
            out[to] = 1 << 3
            out[to + 1 : to + 7] = ring[at + 10 : at + 16]
            out[to + 7] = 2 << 3
            out[to + 8 : to + 14] = ring[at + 4 : at + 10]
            to += 14

    def write(self, register: int, value: int) -> None:
        if register == 0x12 and value & 1:
            self._resetting = True
        elif register == 0x0A and value & 7 == 0:
            self.empty()
        self.regs[register] = value
        self.report()


class Mpu6886(Imu):
    """TDK MPU6886: a FIFO of accelerometer, temperature, gyro, big endian; asleep after reset."""

    def __init__(self) -> None:
        super().__init__(0x80)

    def reset(self) -> None:
        self.regs = bytearray(0x80)
        self.regs[0x75] = 0x19
        self.regs[0x6B] = 0x40

    def running(self) -> bool:
        regs = self.regs
        return not regs[0x6B] & 0x40 and regs[0x23] & 0x18 == 0x18 and regs[0x6A] & 0x40 != 0

    def configured(self):
        accel = 2 << (self.regs[0x1C] >> 3 & 3)
        gyro = 250 << (self.regs[0x1B] >> 3 & 3)
        return accel, gyro, 1000.0 / (1 + self.regs[0x19])

    def read(self, register: int, out: bytearray, record: bytearray) -> None:
        regs = self.regs
        if register == 0x72:
            size = 512 if self.overrun else 14 * self.waiting(record)
            regs[0x72] = size >> 8
            regs[0x73] = size & 0xFF
        elif register == 0x74:
            to = 0
            for at in self.take(len(out) // 14):
                sample = struct.unpack_from("<7h", registers._ring, at + 4)
                struct.pack_into(">3hh3h", out, to, *sample[0:3], sample[6], *sample[3:6])
                to += 14
            return
        elif register == 0x75:
            regs[0x75] = 0x68 if record[FAULTS] & FAULT_WRONG_ID else 0x19
        out[:] = regs[register : register + len(out)]

    def write(self, register: int, value: int) -> None:
        if register == 0x6B and value & 0x80:
            self.reset()
        else:
            self.regs[register] = value
            if register == 0x6A and value & 0x04:
                self.empty()
                self.overrun = False
        self.report()


class Axp192:
    """Power chip: plain registers, the battery voltage in 1.1 mV steps at 0x78."""

    def __init__(self) -> None:
        self.regs = bytearray(0x100)

    def read(self, register: int, out: bytearray, record: bytearray) -> None:
        if register == 0x78:
            steps = struct.unpack_from("<H", record, BATTERY)[0] * 10 // 11
            self.regs[0x78] = steps >> 4
            self.regs[0x79] = steps & 0x0F
        out[:] = self.regs[register : register + len(out)]

    def write(self, register: int, value: int) -> None:
        self.regs[register] = value


class Mcp4728:
    """Four set-point converters; the plant sees the codes of all chips side by side."""

    codes = [0] * 16
    writes = 0

    def __init__(self, chip: int) -> None:
        self._first = 4 * chip

    def send(self, data: bytes) -> None:
        """Fast write: two bytes a channel."""
        for index in range(len(data) // 2):
            Mcp4728.codes[self._first + index] = (data[2 * index] & 0x0F) << 8 | data[2 * index + 1]
        Mcp4728.writes += 1
        registers.write(registers.VALVE_OUT_AT, "<I16H", Mcp4728.writes & 0xFFFFFFFF, *Mcp4728.codes)


class Ads7828:
    """Eight pressure inputs, chosen by the command byte."""

    def read(self, command: int, out: bytearray, record: bytearray) -> None:
        select = command >> 4 & 7
        channel = (select & 3) << 1 | select >> 2
        if channel == 0:
            registers.valve_in.load()
        code = struct.unpack_from("<H", registers.valve_in.data, 4 + 2 * channel)[0]
        out[0] = code >> 8
        out[1] = code & 0xFF
