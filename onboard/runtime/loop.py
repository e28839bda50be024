"""Fixed-rate loops: absolute deadlines on one kernel timer, a defined order, overruns counted and skipped, never caught up."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from onboard.clock import Clock, KernelTimer, SimulatedClock

Tick = Callable[[float], None]
_RATIO = 1.05  # width of a lateness bin: quantiles are exact to 5 %
_FIRST_US = 1.0
_BINS = 360  # reaches 40 s


class Histogram:
    """Times in logarithmic bins of 5 %: constant memory however long a loop runs. The greatest is kept exactly."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._counts = [0] * _BINS
        self.count = 0
        self.max_us = 0.0

    def add(self, seconds: float) -> None:
        """Count one time [s]; negative ones count as zero."""
        us = max(seconds * 1e6, 0.0)
        index = 0 if us <= _FIRST_US else min(_BINS - 1, 1 + int(math.log(us / _FIRST_US) / math.log(_RATIO)))
        self._counts[index] += 1
        self.count += 1
        self.max_us = max(self.max_us, us)

    def quantile_us(self, share: float) -> float:
        """The time that `share` (0..1) of all counted times do not exceed, rounded up to a bin's edge [microseconds]."""
        rank, seen = max(1, math.ceil(share * self.count)), 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= rank:
                return min(self.max_us, _FIRST_US * _RATIO**index)
        return 0.0


@dataclass(frozen=True, slots=True)
class LoopStats:
    """What a loop did. Lateness: from the scheduled tick to the callback's start; work: the callback's own time."""

    name: str
    rate_hz: float
    ticks: int
    overruns: int
    late_p50_us: float
    late_p99_us: float
    late_max_us: float
    work_p50_us: float
    work_p99_us: float
    work_max_us: float


class FixedRateLoop:
    """One callback at one rate. Tick k is due at start + k / rate; the callback gets that scheduled time, not the actual one.

    Make loops with `LoopGroup.add`; a group runs them.
    """

    def __init__(self, name: str, rate_hz: float, clock: Clock, tick: Tick) -> None:
        if not (math.isfinite(rate_hz) and rate_hz > 0.0):
            raise ValueError(f"loop {name}: rate_hz is {rate_hz}, must be a finite number > 0")
        self.name, self.rate_hz, self._clock, self._tick = name, rate_hz, clock, tick
        self._start_s, self._index = 0.0, 0
        self.ticks, self.overruns = 0, 0
        self.late, self.work = Histogram(), Histogram()

    def begin(self, start_s: float) -> None:
        """Tick 0 is due at `start_s`."""
        self._start_s, self._index = start_s, 0

    @property
    def due_s(self) -> float:
        """Scheduled time of the next tick; computed from the start, so that no rounding adds up."""
        return self._start_s + self._index / self.rate_hz

    def run_due(self) -> None:
        """Run the tick that is due. If whole periods have gone by, only the newest due tick runs; the others are counted."""
        due_s, begun_s = self.due_s, self._clock.now_s()
        self.late.add(begun_s - due_s)
        missed = max(0, math.floor((begun_s - due_s) * self.rate_hz))
        if missed:
            self._index += missed
            self.overruns += missed
            due_s = self.due_s
        self._index += 1
        self.ticks += 1
        self._tick(due_s)
        self.work.add(self._clock.now_s() - begun_s)

    def stats(self) -> LoopStats:
        """Counters and quantiles since the start."""
        late, work = self.late, self.work
        return LoopStats(
            self.name,
            self.rate_hz,
            self.ticks,
            self.overruns,
            late.quantile_us(0.5),
            late.quantile_us(0.99),
            late.max_us,
            work.quantile_us(0.5),
            work.quantile_us(0.99),
            work.max_us,
        )


class LoopGroup:
    """Several fixed-rate loops in one process. Ticks due at the same time run in the order in which loops were added.

    With the machine's clock, `await run()`; with a SimulatedClock, `advance(t_s)`: the same ticks at the same scheduled times.
    An exception of a callback ends `run` (or `advance`) and reaches the caller: who runs the loops decides what is safe.
    wake_early_s: wake this much before a tick is due and wait in a loop: an idle processor takes a while to wake up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wake_early_s = 0.0
        self._loops: list[FixedRateLoop] = []
        self._done: asyncio.Future[None] | None = None
        self._begun = self._stopping = False

    def add(self, name: str, rate_hz: float, tick: Tick) -> FixedRateLoop:
        """Add a loop; the order of adding is the order of running. Raises ValueError for a name that is taken."""
        if any(loop.name == name for loop in self._loops):
            raise ValueError(f"a loop named {name!r} exists already")
        loop = FixedRateLoop(name, rate_hz, self._clock, tick)
        self._loops.append(loop)
        return loop

    @property
    def overruns(self) -> int:
        """Skipped ticks of all loops."""
        return sum(loop.overruns for loop in self._loops)

    @property
    def ticks(self) -> int:
        """Ticks run by all loops."""
        return sum(loop.ticks for loop in self._loops)

    def stats(self) -> list[LoopStats]:
        """Counters and quantiles of every loop, in order."""
        return [loop.stats() for loop in self._loops]

    def begin(self, start_s: float) -> None:
        """All loops have tick 0 at `start_s`; raises ValueError if there are none."""
        if not self._loops:
            raise ValueError("a group without loops has nothing to run")
        for loop in self._loops:
            loop.begin(start_s)
        self._begun, self._stopping = True, False

    async def run(self) -> None:
        """Run until `stop`, on the machine's clock; the first ticks are due at once."""
        if isinstance(self._clock, SimulatedClock):
            raise ValueError("a simulated clock does not run by itself: use advance")
        self.begin(self._clock.now_s())
        running, timer = asyncio.get_running_loop(), KernelTimer()
        self._done = running.create_future()
        try:
            running.add_reader(timer.fd, self._wake, timer)
            timer.arm(self._next_s() - self.wake_early_s)
            await self._done
        finally:
            running.remove_reader(timer.fd)
            timer.close()
            self._done = None

    def stop(self) -> None:
        """End `run` after the tick in progress; harmless when nothing runs."""
        self._stopping = True
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def advance(self, t_s: float) -> None:
        """Run all ticks due up to and including `t_s` on the simulated clock, which stands at `t_s` afterwards."""
        clock = self._clock
        if not isinstance(clock, SimulatedClock):
            raise ValueError("only a simulated clock can be advanced")
        if not self._begun:
            self.begin(clock.now_s())
        while not self._stopping and (due_s := self._next_s()) <= t_s:
            clock.set(max(due_s, clock.now_s()))
            self._run_due(due_s)
        clock.set(max(t_s, clock.now_s()))

    def _next_s(self) -> float:
        return min(loop.due_s for loop in self._loops)

    def _run_due(self, now_s: float) -> None:
        for loop in self._loops:
            if not self._stopping and loop.due_s <= now_s:
                loop.run_due()

    def _wake(self, timer: KernelTimer) -> None:
        timer.acknowledge()
        if self._done is None or self._done.done():
            return
        next_s = self._next_s()
        now_s = self._clock.now_s()
        if next_s - self.wake_early_s <= now_s:
            while now_s < next_s:
                now_s = self._clock.now_s()
        try:
            self._run_due(now_s)
        except Exception as error:  # noqa: BLE001 - handed on to whoever awaits run()
            self._done.set_exception(error)
            return
        if not self._done.done():
            timer.arm(self._next_s() - self.wake_early_s)
