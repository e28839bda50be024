"""The sensor's registers as a file in memory that a simulation fills over USB: the driver runs on it as on the real chip."""

import struct

from common.i2c_bus import BusError, I2CBus

from strut.sensor import RAW_SIZE

DEPTH = 30  # samples that wait for the driver, no more than the smaller chip's FIFO holds
FAULT_WRONG_ID = 1
FAULT_NO_ANSWER = 2


class RegisterFile:
    """128 registers and a FIFO. `push` takes samples in the drivers' own order: ax ay az gx gy gz temperature, little endian.

    taken: samples that the driver has read; missed: those that it left for too long.
    """

    address = 0
    identity = (0, 0)  # register, value

    def __init__(self) -> None:
        self._fifo = bytearray(RAW_SIZE * DEPTH)
        self._head = 0
        self.waiting = 0
        self.overrun = False
        self.taken = 0
        self.missed = 0
        self.wrong_id = False
        self.temperature = bytearray(2)
        self.regs = bytearray(128)
        self.reset()

    def reset(self) -> None:
        """As after the chip's own reset."""
        self.regs = bytearray(128)
        self.empty()

    def empty(self) -> None:
        """Forget what waits."""
        self.waiting = 0
        self.overrun = False

    def running(self) -> bool:
        """Whether the driver has switched sampling into the FIFO on."""
        raise NotImplementedError

    def push(self, sample: memoryview) -> None:
        """One sample of 14 bytes; the oldest goes when there is no room."""
        self.temperature[:] = sample[12:14]
        if not self.running():
            return
        if self.waiting == DEPTH:
            self._head = (self._head + 1) % DEPTH
            self.waiting -= 1
            self.missed += 1
            self.overrun = True
        at = (self._head + self.waiting) % DEPTH * RAW_SIZE
        self._fifo[at : at + RAW_SIZE] = sample
        self.waiting += 1

    def pop(self) -> memoryview:
        """The oldest sample; there must be one."""
        at = self._head * RAW_SIZE
        self._head = (self._head + 1) % DEPTH
        self.waiting -= 1
        self.taken += 1
        return memoryview(self._fifo)[at : at + RAW_SIZE]

    def read(self, register: int, out: bytearray) -> None:
        """Consecutive registers."""
        if register == self.identity[0]:
            self.regs[register] = self.identity[1] ^ (1 if self.wrong_id else 0)
        out[:] = self.regs[register : register + len(out)]

    def write(self, register: int, value: int) -> None:
        """One register."""
        self.regs[register] = value


class Lsm6dsoxFile(RegisterFile):
    """ST LSM6DSOX: tagged words, gyro before accelerometer; INTERNAL_FREQ_FINE tells `rate_steps`."""

    address = 0x6A
    identity = (0x0F, 0x6C)

    def __init__(self, rate_steps: int) -> None:
        self._rate_steps = rate_steps & 0xFF
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self.regs[0x12] = 0x04
        self.regs[0x63] = self._rate_steps

    def running(self) -> bool:
        regs = self.regs
        return bool(regs[0x10] >> 4 and regs[0x11] >> 4 and regs[0x09]) and regs[0x0A] & 7 == 6

    def read(self, register: int, out: bytearray) -> None:
        regs = self.regs
        if register == 0x78:
            for to in range(0, len(out) - 13, 14):
                if not self.waiting:
                    return
                sample = self.pop()
                out[to] = 1 << 3
                out[to + 1 : to + 7] = sample[6:12]
                out[to + 7] = 2 << 3
                out[to + 8 : to + 14] = sample[0:6]
            return
        if register == 0x3A:
            words = 2 * self.waiting
            regs[0x3A] = words & 0xFF
            regs[0x3B] = words >> 8 | (0x40 if self.overrun else 0)
            self.overrun = False
        elif register == 0x20:
            regs[0x20:0x22] = self.temperature
        super().read(register, out)

    def write(self, register: int, value: int) -> None:
        if register == 0x12 and value & 1:
            self.reset()  # at once: the driver's first look finds the bit cleared
            return
        if register == 0x0A and value & 7 == 0:
            self.empty()
        super().write(register, value)


class Mpu6886File(RegisterFile):
    """TDK MPU6886: accelerometer, temperature, gyro, big endian; asleep after reset. It cannot tell its own rate."""

    address = 0x68
    identity = (0x75, 0x19)

    def reset(self) -> None:
        super().reset()
        self.regs[0x6B] = 0x40

    def running(self) -> bool:
        regs = self.regs
        return not regs[0x6B] & 0x40 and regs[0x23] & 0x18 == 0x18 and regs[0x6A] & 0x40 != 0

    def read(self, register: int, out: bytearray) -> None:
        if register == 0x74:
            for to in range(0, len(out) - 13, RAW_SIZE):
                if not self.waiting:
                    return
                sample = struct.unpack("<7h", self.pop())
                struct.pack_into(">3hh3h", out, to, *sample[0:3], sample[6], *sample[3:6])
            return
        if register == 0x72:
            size = 512 if self.overrun else RAW_SIZE * self.waiting
            self.regs[0x72] = size >> 8
            self.regs[0x73] = size & 0xFF
        super().read(register, out)

    def write(self, register: int, value: int) -> None:
        if register == 0x6B and value & 0x80:
            self.reset()
            return
        if register == 0x6A and value & 0x04:
            self.empty()
        super().write(register, value)


class UsbBus(I2CBus):
    """A bus with nothing on it but the register file of one sensor; no wire, so nothing to recover."""

    def __init__(self, sensor: str, rate_steps: int) -> None:
        self.errors = 0
        self.recoveries = 0
        self._silent = False
        self.file: RegisterFile = Lsm6dsoxFile(rate_steps) if sensor == "lsm6dsox" else Mpu6886File()

    def set_faults(self, bits: int) -> None:
        """FAULT_ bits that hold from now on."""
        self._silent = bool(bits & FAULT_NO_ANSWER)
        self.file.wrong_id = bool(bits & FAULT_WRONG_ID)

    def read_into(self, address: int, register: int, out: bytearray) -> None:
        self._find(address).read(register, out)

    def write(self, address: int, register: int, value: int) -> None:
        self._find(address).write(register, value)

    def send(self, address: int, data: bytes | bytearray) -> None:
        self._find(address)

    def recover(self) -> bool:
        self.recoveries += 1
        return True

    def _find(self, address: int) -> RegisterFile:
        if self._silent or address != self.file.address:
            self.errors += 1
            raise BusError("USB 0x%02x: no answer" % address)
        return self.file
