"""Bridges, current outputs and encoders of a virtual motor board, wired as on the Nano RP2040 Connect."""

import struct

import registers

BRIDGE_INPUTS = {16: 0, 17: 1, 20: 2, 21: 3}
CURRENT_PINS = {26: 0, 27: 1}
ENCODER_PHASES = {(18, 19): 0, (5, 7): 1}
MA_FULL_SCALE = 3300
COUNTS = 4
CURRENT = 12

_duties = [0, 0, 0, 0]
_writes = 0


def _commit() -> None:
    global _writes
    _writes = _writes + 1 & 0xFFFFFFFF or 1
    registers.write(registers.MOTOR_OUT_AT, "<I4HI", _writes, *_duties, _writes)


class PWM:
    """One bridge input; the plant sees all four at once."""

    def __init__(self, pin, *, freq=0, duty_u16=0) -> None:
        self._input = BRIDGE_INPUTS[pin.id]
        self.duty_u16(duty_u16)

    def duty_u16(self, value: int) -> None:
        if value != _duties[self._input] or not _writes:
            _duties[self._input] = value
            _commit()


class ADC:
    """A bridge's current output."""

    def __init__(self, pin) -> None:
        self._at = CURRENT + 2 * CURRENT_PINS[pin.id]

    def read_u16(self) -> int:
        milliampere = struct.unpack_from("<H", registers.motor_in.load(), self._at)[0]
        return min(milliampere * 65535 // MA_FULL_SCALE, 65535)


class Counter:
    """What a state machine has counted of one encoder since it was started."""

    def __init__(self, phase_a: int, phase_b: int) -> None:
        self._at = COUNTS + 4 * ENCODER_PHASES[(phase_a, phase_b)]
        self._zero = self._position()

    def zero(self) -> None:
        self._zero = self._position()

    def count(self) -> int:
        return self._position() - self._zero

    def _position(self) -> int:
        return struct.unpack_from("<i", registers.motor_in.load(), self._at)[0]
