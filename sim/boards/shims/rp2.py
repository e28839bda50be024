"""`rp2` of a virtual board: a state machine that counts an encoder. The program itself is tested beside the firmware."""

import motors


def asm_pio(**_):
    return lambda program: program


class StateMachine:
    """Does what firmware/motor/encoder.py asks of it: clear, count, hand the count over."""

    def __init__(self, id, program, *, freq, in_base, jmp_pin) -> None:
        self._counter = motors.Counter(in_base.id, jmp_pin.id)
        self._isr = 0
        self._queue = []

    def active(self, value=None) -> None:
        pass

    def exec(self, instruction: str) -> None:
        if instruction == "set(x, 0)":
            self._counter.zero()
        elif instruction == "mov(isr, x)":
            self._isr = self._counter.count() & 0xFFFFFFFF
        elif instruction == "push()":
            self._queue.append(self._isr)
        else:
            raise ValueError(instruction)

    def get(self) -> int:
        return self._queue.pop(0)
