"""When samples were taken: the sensor's regular beat, locked to what looking into its FIFO tells.

A FIFO says which samples came, not when. But a sample that is there was taken before the look, and one that is not yet
there will be taken after it. Samples are a period apart, so these bounds pin the beat down; a busy processor that looks
late only makes them wider. The period is learned too: a cheap sensor's oscillator is off by up to a few percent.
"""

from common import ticks

EARLIER_SHARE = 4  # seen before the expected time: the beat moves by 1/4 of the difference
LATER_SHARE = 16  # not there yet at the expected time: by 1/16, since the FIFO itself may be late
PERIOD_SHARE = 512
PERIOD_LIMIT = 0.03  # of the nominal period
BOUND_US = 2000.0  # what one look may teach at most


class SampleClock:
    """Stamps the newest of the samples that one look has found. `period_us` is the learned period."""

    def __init__(self, period_us: float) -> None:
        self._nominal_us = period_us
        self.period_us = period_us
        self._beat = 0
        self._fraction_us = 0.0
        self._running = False

    def newest(self, count: int, now: int, before: int) -> int:
        """Ticks at which the newest of `count` new samples was taken: it is there at `now`, it was not at `before`."""
        if not self._running:
            self._running = True
            self._beat = now
            return now
        step = self._fraction_us + count * self.period_us
        early = step - ticks.diff(now, self._beat)  # expected after it was seen
        late = ticks.diff(before, self._beat) - step  # expected before it was missing
        if late > 2 * self.period_us:  # the sensor has paused: start anew
            step = float(ticks.diff(now, self._beat))
        elif early > 0:
            step -= early / EARLIER_SHARE
            self._learn(-early)
        elif late > 0:
            step += late / LATER_SHARE
            self._learn(late)
        whole = int(step)
        self._fraction_us = step - whole
        self._beat = (self._beat + whole) & ticks.MASK
        return now if ticks.diff(self._beat, now) > 0 else self._beat  # a stamp never lies in the future

    def due(self, count: int, now: int) -> int:
        """Microseconds from `now` until the `count`-th next sample is taken; negative when it should be there."""
        return ticks.diff(self._beat, now) + int(count * self.period_us)

    def _learn(self, error_us: float) -> None:
        bounded = min(max(error_us, -BOUND_US), BOUND_US)
        period = self.period_us + bounded / PERIOD_SHARE
        low = self._nominal_us * (1 - PERIOD_LIMIT)
        high = self._nominal_us * (1 + PERIOD_LIMIT)
        self.period_us = min(max(period, low), high)
