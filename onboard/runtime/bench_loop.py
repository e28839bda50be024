"""`prestress bench loop`: how punctual the loops are, with and without realtime priority, idle and beside a busy planner."""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

import numpy as np

from onboard.clock import WallClock
from onboard.errors import UsageError
from onboard.runtime.loop import FixedRateLoop, LoopGroup
from onboard.runtime.realtime import WAKE_EARLY_S, enter_batch, enter_realtime, leave_realtime

RATES_HZ = (80, 200)
WARM_UP_S = 0.5
LOADS = ("idle", "loaded")
STATISTICS = ("p50_us", "p99_us", "max_us")
TARGET_P99_MS = {"realtime": 0.2, "normal": 6.0}
Cell = dict[str, float]


def bench_loop(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.add_argument("--seconds", type=float, default=20.0, help="measuring time of each of the eight cells")
    parser.add_argument("--quick", action="store_true", help="4 s a cell")
    parser.add_argument("--seed", type=int, default=0, help="seed of the planner's numbers; timing does not depend on it")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Measure all cells; prints a table, or JSON. Cells that cannot be measured for want of permission are null."""
    seconds = 4.0 if args.quick else float(args.seconds)
    if not 0.5 <= seconds <= 3600.0:
        raise UsageError(f"--seconds is {seconds}: must lie in 0.5 .. 3600")
    result: dict[str, object] = {}
    reasons: tuple[str, ...] = ()
    granted = enter_realtime()
    if granted.scheduler:
        result["realtime"] = _measure(seconds, args.seed, WAKE_EARLY_S)
        leave_realtime()
    else:
        reasons = granted.lines
        leave_realtime()
        result["realtime"] = not_measured()
    result["normal"] = _measure(seconds, args.seed)
    if reasons:
        result["realtime_absent"] = "; ".join(reasons)
    if args.json:
        print(json.dumps(result | {"seed": args.seed, "seconds": seconds, "cores": os.cpu_count()}))
    else:
        _show(result)
    return 0


def not_measured() -> dict[str, dict[str, dict[str, None]]]:
    """The cells of a kind of priority that is not permitted here: the same keys, and null for every number."""
    return {load: {str(rate): dict.fromkeys(STATISTICS) for rate in RATES_HZ} for load in LOADS}


def _measure(seconds: float, seed: int, wake_early_s: float = 0.0) -> dict[str, dict[str, Cell]]:
    cells: dict[str, dict[str, Cell]] = {}
    for load in LOADS:
        with _planner(load == "loaded", seed):
            cells[load] = {str(rate): asyncio.run(lateness(float(rate), seconds, wake_early_s)) for rate in RATES_HZ}
    return cells


async def lateness(rate_hz: float, seconds: float, wake_early_s: float = 0.0) -> Cell:
    """Lateness of a loop whose tick does what a tick does: a little linear algebra on small arrays."""
    group = LoopGroup(WallClock())
    group.wake_early_s = wake_early_s
    matrix, ticks = np.eye(30) * 0.5, 0
    first, last = round(WARM_UP_S * rate_hz), round((WARM_UP_S + seconds) * rate_hz)

    def tick(_t_s: float) -> None:
        nonlocal ticks
        ticks += 1
        np.linalg.solve(matrix, matrix[0])
        if ticks == first:
            loop.late.clear()
        if ticks >= last:
            group.stop()

    loop: FixedRateLoop = group.add("bench", rate_hz, tick)
    await group.run()
    late = loop.late
    return {
        "p50_us": round(late.quantile_us(0.5), 1),
        "p99_us": round(late.quantile_us(0.99), 1),
        "max_us": round(late.max_us, 1),
    }


@contextmanager
def _planner(busy: bool, seed: int) -> Iterator[None]:
    if not busy:
        yield
        return
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=plan_for_ever, args=(seed, ready), daemon=True)
    process.start()
    try:
        ready.wait(30.0)
        yield
    finally:
        process.kill()
        process.join()


def plan_for_ever(seed: int, ready: Event) -> None:
    """A stand-in for a planner's load: dense layers over a batch of samples, without a pause, at batch priority."""
    enter_batch()
    rng = np.random.default_rng(seed)
    layers = [rng.normal(size=(64, 64)).astype(np.float32) / 8.0 for _ in range(4)]
    rows = rng.normal(size=(62 * 128, 64)).astype(np.float32)
    ready.set()
    while True:
        values = rows
        for layer in layers:
            values = np.maximum(values @ layer, 0.0)


def _show(result: dict[str, object]) -> None:
    print("lateness [microseconds]        rate       p50       p99       max")
    for kind in ("realtime", "normal"):
        cells = result[kind]
        if kind == "realtime" and "realtime_absent" in result:
            print(f"{kind}: not measured: {result['realtime_absent']}")
            continue
        assert isinstance(cells, dict)  # `run` fills both
        for load, rates in cells.items():
            for rate, cell in rates.items():
                late = "" if cell["p99_us"] <= 1000.0 * TARGET_P99_MS[kind] else f"  above {TARGET_P99_MS[kind]} ms"
                print(
                    f"{kind:>10} {load:>8} {rate:>12} Hz {cell['p50_us']:9.0f} {cell['p99_us']:9.0f} {cell['max_us']:9.0f}{late}"
                )
