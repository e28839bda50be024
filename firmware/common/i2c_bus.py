"""An I2C bus that cannot hang the board: bounded transfers, counted errors, recovery of a stuck data line."""

import time  # noqa: TID251 (the board's own clock)

import machine

HALF_CLOCK_US = 5  # 100 kHz, slow enough for every part


class BusError(Exception):
    """A transfer failed; `recover()` and try again."""


class I2CBus:
    """One bus with its pins. Transfers raise BusError and count it in `errors`."""

    def __init__(self, bus_id: int, scl: int, sda: int, frequency_hz: int, timeout_us: int = 5000) -> None:
        self._bus_id = bus_id
        self._scl = scl
        self._sda = sda
        self._frequency_hz = frequency_hz
        self._timeout_us = timeout_us
        self.errors = 0
        self.recoveries = 0
        self._bus = self._open()

    def read_into(self, address: int, register: int, out: bytearray) -> None:
        """Fill `out` from consecutive registers."""
        try:
            self._bus.readfrom_mem_into(address, register, out)
        except OSError as error:
            self._failed(address, error)

    def read(self, address: int, register: int) -> int:
        """One register."""
        out = bytearray(1)
        self.read_into(address, register, out)
        return out[0]

    def write(self, address: int, register: int, value: int) -> None:
        """One register."""
        try:
            self._bus.writeto_mem(address, register, bytes([value]))
        except OSError as error:
            self._failed(address, error)

    def send(self, address: int, data: bytes | bytearray) -> None:
        """A plain write without a register address."""
        try:
            self._bus.writeto(address, data)
        except OSError as error:
            self._failed(address, error)

    def recover(self) -> bool:
        """Free a data line that a slave holds low: up to nine clocks, a stop condition, a new bus (I2C-bus
        specification, 3.1.16). True when the line is free afterwards."""
        scl = machine.Pin(self._scl, machine.Pin.OPEN_DRAIN, value=1)
        sda = machine.Pin(self._sda, machine.Pin.OPEN_DRAIN, value=1)
        for _ in range(9):
            if sda.value():
                break
            scl.value(0)
            time.sleep_us(HALF_CLOCK_US)
            scl.value(1)
            time.sleep_us(HALF_CLOCK_US)
        sda.value(0)
        time.sleep_us(HALF_CLOCK_US)
        sda.value(1)
        time.sleep_us(HALF_CLOCK_US)
        free = bool(sda.value())
        self._bus = self._open()
        self.recoveries += 1
        return free

    def _open(self) -> machine.I2C:
        return machine.I2C(
            self._bus_id,
            scl=machine.Pin(self._scl),
            sda=machine.Pin(self._sda),
            freq=self._frequency_hz,
            timeout=self._timeout_us,
        )

    def _failed(self, address: int, error: OSError) -> None:
        self.errors += 1
        raise BusError("I2C 0x%02x: %s" % (address, error)) from None
