"""Fixed-rate loops keep absolute deadlines, run in a defined order, and skip what they missed."""

import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.clock import SimulatedClock, WallClock
from onboard.runtime.loop import Histogram, LoopGroup


class SlowClock(SimulatedClock):
    """A clock that callbacks push forward, as slow work would."""


def test_tick_times_are_multiples_of_the_period_and_do_not_drift():
    clock, ticks = SimulatedClock(5.0), []
    group = LoopGroup(clock)
    group.add("control", 80.0, ticks.append)
    group.advance(5.0 + 3600.0)
    assert ticks == [5.0 + k / 80.0 for k in range(80 * 3600 + 1)]
    assert clock.now_s() == 3605.0


def test_loops_due_together_run_in_the_order_they_were_added():
    clock, order = SimulatedClock(), []
    group = LoopGroup(clock)
    group.add("estimator", 80.0, lambda t: order.append((t, "estimator")))
    group.add("control", 80.0, lambda t: order.append((t, "control")))
    group.add("supervisor", 40.0, lambda t: order.append((t, "supervisor")))
    group.advance(1.0)
    for k in range(40):
        t = k / 40.0
        assert [name for when, name in order if when == t] == ["estimator", "control", "supervisor"]
    assert order == sorted(order, key=lambda item: item[0])


def test_missed_ticks_are_skipped_and_counted_never_caught_up():
    clock, ticks = SlowClock(), []
    group = LoopGroup(clock)

    def work(t_s: float) -> None:
        ticks.append(t_s)
        if t_s == 1.0:
            clock.advance(0.65)  # six and a half periods of hanging

    loop = group.add("control", 10.0, work)
    group.advance(3.0)
    assert ticks == pytest.approx([0.1 * k for k in range(11)] + [0.1 * k for k in range(16, 31)])
    assert loop.overruns == 5
    assert loop.stats().late_max_us == pytest.approx(0.55e6)
    assert loop.stats().work_max_us == pytest.approx(0.65e6)


def test_a_late_tick_gets_the_newest_scheduled_time_not_a_stale_one():
    clock, lags = SlowClock(), []
    group = LoopGroup(clock)
    group.add("slow", 10.0, lambda t: clock.advance(0.37))
    group.add("control", 100.0, lambda t: lags.append(clock.now_s() - t))
    group.advance(10.0)
    assert max(lags) < 1.0 / 100.0 + 1e-9


def test_callback_errors_end_the_run_and_reach_the_caller():
    async def main() -> None:
        group = LoopGroup(WallClock())
        group.add("control", 200.0, lambda t: 1 / 0)
        await group.run()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


def test_on_the_kernel_timer_ticks_come_on_their_own_until_stopped():
    ticks: list[float] = []

    async def main() -> LoopGroup:
        group = LoopGroup(WallClock())

        def work(t_s: float) -> None:
            ticks.append(t_s)
            if len(ticks) == 40:
                group.stop()

        group.add("control", 200.0, work)
        await group.run()
        return group

    group = asyncio.run(main())
    assert len(ticks) == 40
    steps = [(b - a) * 200.0 for a, b in itertools.pairwise(ticks)]
    assert all(abs(step - round(step)) < 1e-6 and round(step) >= 1 for step in steps)
    assert group.overruns == sum(round(step) - 1 for step in steps)


def test_stopping_within_a_tick_keeps_later_loops_from_running():
    clock, ran = SimulatedClock(), []
    group = LoopGroup(clock)
    group.add("first", 10.0, lambda t: group.stop())
    group.add("second", 10.0, ran.append)
    group.advance(1.0)
    assert ran == []


@pytest.mark.parametrize("rate_hz", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_no_rate_is_refused(rate_hz):
    with pytest.raises(ValueError, match="rate_hz"):
        LoopGroup(SimulatedClock()).add("control", rate_hz, lambda t: None)


def test_names_are_unique_and_clocks_fit_the_way_of_running():
    group = LoopGroup(SimulatedClock())
    group.add("control", 10.0, lambda t: None)
    with pytest.raises(ValueError, match="control"):
        group.add("control", 20.0, lambda t: None)
    with pytest.raises(ValueError, match="advance"):
        asyncio.run(group.run())
    with pytest.raises(ValueError, match="simulated"):
        LoopGroup(WallClock()).advance(1.0)
    with pytest.raises(ValueError, match="nothing to run"):
        LoopGroup(SimulatedClock()).advance(1.0)


@given(st.lists(st.floats(0.0, 30.0), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_histogram_quantiles_are_within_a_bin_of_the_exact_ones(times, share):
    histogram = Histogram()
    for value in times:
        histogram.add(value)
    exact = sorted(times)[max(1, math.ceil(share * len(times))) - 1] * 1e6
    found = histogram.quantile_us(share)
    assert found <= max(times) * 1e6
    assert exact * (1 - 1e-9) <= max(found, 1.0) and found <= max(exact * 1.051, 1.0)


def test_an_empty_histogram_says_zero():
    assert Histogram().quantile_us(0.99) == 0.0


def test_a_loop_that_wakes_early_still_never_ticks_before_its_time() -> None:
    clock = WallClock()
    group, early = LoopGroup(clock), []
    group.wake_early_s = 0.002

    def tick(due_s: float) -> None:
        early.append(due_s - clock.now_s())
        if len(early) == 50:
            group.stop()

    group.add("one", 200.0, tick)
    asyncio.run(group.run())
    assert max(early) <= 0.0
