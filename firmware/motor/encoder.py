"""A quadrature encoder counted by a PIO state machine: two counts a line, no interrupt, no edge lost while Python is busy."""

# The assembler gives the names of the instructions when it runs the function below.
# mypy: disable-error-code="name-defined,import-not-found,untyped-decorator,no-untyped-def,no-untyped-call"

import machine
import rp2

HZ = 10_000_000  # far above any edge of a motor, slow enough to pass glitches of less than 100 ns


@rp2.asm_pio()
def _decode():
    # x is the position. `in` pin 0 is phase A, the jump pin phase B. Both edges of A count, so an edge that trembles counts
    # up and down again and nothing drifts. There is no increment: the complement is decremented.
    label("low")  # noqa: F821
    wait(1, pin, 0)  # noqa: F821
    jmp(pin, "rise_back")  # noqa: F821
    mov(x, invert(x))  # noqa: F821
    jmp(x_dec, "rise_forward")  # noqa: F821
    label("rise_forward")  # noqa: F821
    mov(x, invert(x))  # noqa: F821
    label("high")  # noqa: F821
    wait(0, pin, 0)  # noqa: F821
    jmp(pin, "fall_forward")  # noqa: F821
    jmp(x_dec, "low")  # noqa: F821
    jmp("low")  # noqa: F821
    label("rise_back")  # noqa: F821
    jmp(x_dec, "high")  # noqa: F821
    jmp("high")  # noqa: F821
    label("fall_forward")  # noqa: F821
    mov(x, invert(x))  # noqa: F821
    jmp(x_dec, "fall_done")  # noqa: F821
    label("fall_done")  # noqa: F821
    mov(x, invert(x))  # noqa: F821
    jmp("low")  # noqa: F821


class Encoder:
    """`count()` is the position since power-on in counts, signed; phase A leads when it grows."""

    def __init__(self, number: int, phase_a: int, phase_b: int) -> None:
        a = machine.Pin(phase_a, machine.Pin.IN, machine.Pin.PULL_UP)
        b = machine.Pin(phase_b, machine.Pin.IN, machine.Pin.PULL_UP)
        self._machine = rp2.StateMachine(number, _decode, freq=HZ, in_base=a, jmp_pin=b)
        self._machine.exec("set(x, 0)")
        self._machine.active(1)

    def count(self) -> int:
        """Counts since the start."""
        self._machine.exec("mov(isr, x)")
        self._machine.exec("push()")
        value = int(self._machine.get())
        return value - 0x100000000 if value & 0x80000000 else value
