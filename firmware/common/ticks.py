"""Board time: microseconds modulo 2**30, as every MicroPython port with 31-bit small integers counts them."""

import time  # noqa: TID251 (the board's own clock)

PERIOD = 1 << 30
MASK = PERIOD - 1


def now() -> int:
    """The board's clock [us], 0 .. 2**30 - 1."""
    return time.ticks_us() & MASK  # type: ignore[operator]  # opaque in the stubs, an integer on every board


def diff(later: int, earlier: int) -> int:
    """Signed difference [us]; right while the two lie within 8.9 minutes of each other."""
    return ((later - earlier + (PERIOD >> 1)) & MASK) - (PERIOD >> 1)
