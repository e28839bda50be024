"""Shares a batch among threads: the compiled entry points release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_HELPERS = ThreadPoolExecutor(max(THREADS - 1, 1), thread_name_prefix="vine")
TURNS = 6  # a thread: enough to even out robots of different cost, few enough that calls cost nothing


def share(kernel: Callable[..., Any], batch: int, *arguments: Any) -> None:
    """Calls kernel(begin, end, *arguments) over the whole batch, a few robots a turn; the result is the same in any order.

    The calling thread works too: the others are woken once a call, and one that wakes too late is not waited for.
    """
    chunk = max(1, batch // (TURNS * THREADS))
    if batch <= chunk or THREADS == 1:
        kernel(0, batch, *arguments)
        return
    turns = iter(range(0, batch, chunk))  # taking the next one is atomic under the interpreter's lock

    def work() -> None:
        for begin in turns:
            kernel(begin, min(begin + chunk, batch), *arguments)

    helpers = [_HELPERS.submit(work) for _ in range(THREADS - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()
