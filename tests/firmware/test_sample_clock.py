"""The sample clock against sensors with off rates, late arrivals and pauses, without any board."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FIRMWARE = Path(__file__).parents[2] / "firmware"
MASK = (1 << 30) - 1
NOMINAL_US = 1e6 / 104


def load_clock() -> Any:
    """The class, with the board's tick arithmetic beside it; the firmware stays out of this interpreter's path."""
    ticks: Any = types.ModuleType("common.ticks")
    ticks.MASK = MASK
    ticks.diff = lambda later, earlier: ((later - earlier + (1 << 29)) & MASK) - (1 << 29)
    common: Any = types.ModuleType("common")
    common.ticks = ticks
    spec = importlib.util.spec_from_file_location("sample_clock", FIRMWARE / "strut" / "sample_clock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "common", common)
        patch.setitem(sys.modules, "common.ticks", ticks)
        spec.loader.exec_module(module)
    return module.SampleClock(NOMINAL_US)


def play(taken_us: np.ndarray, rng: np.random.Generator, busy_us: float) -> tuple[np.ndarray, Any]:
    """Look as the sampler does, two samples at a time; stamps of all samples [us], and the clock. Starts near the wrap."""
    offset = (1 << 30) - 2_000_000
    clock = load_clock()
    stamps: list[float] = []
    now, before, looks = float(taken_us[0]) - 1000, 0.0, 0
    while len(stamps) < len(taken_us) - 4:
        count = min(int(np.searchsorted(taken_us, now, side="right")) - len(stamps), 8)
        if count:
            newest = clock.newest(count, (int(now) + offset) & MASK, (int(before) + offset) & MASK)
            back = ((newest - int(now) - offset + (1 << 29)) & MASK) - (1 << 29)
            stamps += [now + back - (count - 1 - index) * clock.spacing_us for index in range(count)]
            looks += 1
            wait = clock.due(2, (int(now) + offset) & MASK) - (800 if looks % 4 == 0 else -300)
        else:
            wait = 0
        before = now
        now += max(1, wait // 1000) * 1000 + rng.uniform(0, 1000) + (rng.exponential(busy_us) if rng.random() < 0.1 else 0.0)
    return np.array(stamps), clock


@pytest.mark.parametrize("rate_error", [-0.02, -0.005, 0.0, 0.0015, 0.02])
@pytest.mark.parametrize("busy_ms", [0.0, 15.0])
def test_stamps_stay_within_a_millisecond_of_the_truth(rate_error: float, busy_ms: float) -> None:
    taken = 10_000 + np.arange(6000) * NOMINAL_US * (1 + rate_error)
    stamps, clock = play(taken, np.random.default_rng(1), busy_ms * 1000)
    error = (stamps - taken[: len(stamps)])[1000:]
    assert np.all(np.diff(stamps) > 0)
    assert abs(np.median(error)) < 300
    assert np.percentile(np.abs(error), 99) < 1000
    assert clock.period_us == pytest.approx(NOMINAL_US * (1 + rate_error), rel=1e-3)


def test_stamps_grow_even_when_a_paused_sensor_brings_everything_at_once() -> None:
    rng = np.random.default_rng(2)
    taken = 10_000 + np.arange(3000) * NOMINAL_US
    arrived = taken.copy()
    for start in range(200, 2900, 150):
        length = int(rng.integers(2, 20))
        arrived[start : start + length] = taken[start + length]  # held back, then all of them
    stamps, _ = play(arrived, rng, 2000.0)
    assert np.all(np.diff(stamps) > 0)
    late = np.abs(stamps - taken[: len(stamps)])
    assert np.median(late) < 1000


def test_a_stamp_is_never_later_than_the_look() -> None:
    clock = load_clock()
    now = 5000
    for step in (9615, 9615, 4000, 30000, 9615, 100, 9615):
        before, now = now, now + step
        assert clock.newest(1, now, before) <= now
