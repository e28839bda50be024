"""When samples were taken: the sensor's regular beat, locked to what looking into its FIFO tells.

A FIFO says which samples came, not when. But a sample that is there was taken before the look, and one that is not yet
there will be taken after it. Samples are a period apart, so these bounds pin the beat down; a busy processor that looks
late only makes them wider. The period is learned too: a cheap sensor's oscillator is off by up to a few percent.
"""

from common import ticks

LATER_SHARE = 16  # not there yet when expected: the beat moves by 1/16 of the difference; it may only be held up
PAUSE_PERIODS = 50  # missing for so long: the sensor has paused, the beat starts anew
PERIOD_SHARE = 512
PERIOD_LIMIT = 0.03  # of the nominal period
BOUND_US = 2000.0  # what one look may teach at most


class SampleClock:
    """Stamps the newest of the samples that one look has found; those before it lie `spacing_us` apart.

    Stamps always grow. `period_us` is the learned period; the spacing is smaller only when a sensor that had paused
    brings more samples than the time since the last stamp explains.
    """

    def __init__(self, period_us: float) -> None:
        self._nominal_us = period_us
        self.period_us = period_us
        self._beat = 0
        self._fraction_us = 0.0
        self._running = False
        self._stamped = 0
        self.spacing_us = int(period_us)

    def newest(self, count: int, now: int, before: int) -> int:
        """Ticks at which the newest of `count` new samples was taken: it is there at `now`, it was not at `before`."""
        if not self._running:
            self._running = True
            self._beat = self._stamped = now
            self.spacing_us = int(self.period_us)
            return now
        step = self._fraction_us + count * self.period_us
        early = step - ticks.diff(now, self._beat)  # expected after it was seen
        late = ticks.diff(before, self._beat) - step  # expected before it was missing
        if late > PAUSE_PERIODS * self.period_us:
            step = float(ticks.diff(now, self._beat))
        elif early > 0:
            step -= early  # a sample that is there has been taken: no doubt about that
            self._learn(-early)
        elif late > 0:
            step += min(late, BOUND_US) / LATER_SHARE
            self._learn(late)
        whole = int(step)
        self._fraction_us = step - whole
        self._beat = (self._beat + whole) & ticks.MASK
        newest = now if ticks.diff(self._beat, now) > 0 else self._beat  # a stamp never lies in the future
        room_us = ticks.diff(newest, self._stamped)
        if room_us < count:
            room_us = count
            newest = (self._stamped + count) & ticks.MASK
        self._stamped = newest
        self.spacing_us = min(int(self.period_us), room_us // count)
        return newest

    def due(self, count: int, now: int) -> int:
        """Microseconds from `now` until the `count`-th next sample is taken; negative when it should be there."""
        return ticks.diff(self._beat, now) + int(count * self.period_us)

    def _learn(self, error_us: float) -> None:
        bounded = min(max(error_us, -BOUND_US), BOUND_US)
        period = self.period_us + bounded / PERIOD_SHARE
        low = self._nominal_us * (1 - PERIOD_LIMIT)
        high = self._nominal_us * (1 + PERIOD_LIMIT)
        self.period_us = min(max(period, low), high)
