"""One motor's H-bridge: sign and magnitude on two PWM inputs, short-circuit brake at rest, current from the driver's output."""

import machine

PWM_HZ = 20_000  # above hearing
FULL = 65535
MA_FULL_SCALE = 3300  # driver's output: 1 V per ampere into the converter's 3.3 V


class Bridge:
    """`drive(duty)` in -1 .. 1, positive winds the cable in; zero brakes, so that the spool stays where it is."""

    def __init__(self, in1: int, in2: int, current: int) -> None:
        self._forward = machine.PWM(machine.Pin(in1), freq=PWM_HZ, duty_u16=FULL)
        self._back = machine.PWM(machine.Pin(in2), freq=PWM_HZ, duty_u16=FULL)
        self._current = machine.ADC(machine.Pin(current))

    def drive(self, duty: float) -> None:
        """Slow decay: one input stays high, the other is low for the share of the time that the motor is driven."""
        low = FULL - int(min(abs(duty), 1.0) * FULL + 0.5)
        if duty >= 0.0:
            self._forward.duty_u16(FULL)
            self._back.duty_u16(low)
        else:
            self._back.duty_u16(FULL)
            self._forward.duty_u16(low)

    def current_ma(self) -> int:
        """Current through the bridge, without sign."""
        return self._current.read_u16() * MA_FULL_SCALE // 65535
