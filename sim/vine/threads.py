"""Shares a batch among threads: the compiled entry points release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_POOL = ThreadPoolExecutor(THREADS, thread_name_prefix="vine")


def share(kernel: Callable[..., Any], batch: int, *arguments: Any, chunk: int = 0) -> None:
    """Calls kernel(begin, end, *arguments) over the whole batch, a few robots a turn; the result is the same in any order.

    `chunk` robots a turn (default: a share that evens out robots of different cost).
    """
    chunk = chunk or max(1, batch // (8 * THREADS))
    if batch <= chunk or THREADS == 1:
        kernel(0, batch, *arguments)
        return
    turns = [_POOL.submit(kernel, k, min(k + chunk, batch), *arguments) for k in range(0, batch, chunk)]
    for turn in turns:
        turn.result()
