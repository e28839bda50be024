"""Realtime options of the loop process, as far as permitted: priority, locked memory, quiet garbage collector, a core."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
from dataclasses import dataclass

LOOP_PRIORITY = 20
WAKE_EARLY_S = 0.0005  # for loops with realtime priority: costs 2 to 4 % of a core at 80 Hz
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Realtime:
    """What was granted, and a line for a person about each thing that was not."""

    scheduler: bool
    memory_locked: bool
    core: int | None
    lines: tuple[str, ...]


def enter_realtime(priority: int = LOOP_PRIORITY, core: int | None = None) -> Realtime:
    """Ask for SCHED_FIFO at `priority`, locked memory and, if given, the processor `core` for the calling thread.

    Threads and processes started later do not inherit the priority. Whatever is not permitted is said in `lines`; nothing
    is raised, since a robot runs without it too, only less punctually.
    """
    lines: list[str] = []
    scheduler = _schedule(priority, lines)
    locked = _lock_memory(lines)
    pinned = _pin(core, lines)
    freeze_garbage()
    return Realtime(scheduler, locked, pinned, tuple(lines))


def leave_realtime() -> None:
    """Back to the ordinary scheduler and unlocked memory; for benchmarks that measure both."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    ctypes.CDLL(None).munlockall()
    gc.unfreeze()


def enter_batch() -> None:
    """For planner processes: throughput scheduling below every loop, so that planning never delays a tick."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.nice(5)


def freeze_garbage() -> None:
    """Collect once, then keep everything that lives now out of later collections: they stay short."""
    gc.collect()
    gc.freeze()


def _schedule(priority: int, lines: list[str]) -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except PermissionError:
        limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
        lines.append(
            f"realtime priority is not permitted (limit {limit}): loops run a few milliseconds less punctually. To allow it: "
            "'LimitRTPRIO=20' in the service, or '@GROUP - rtprio 20' in /etc/security/limits.d"
        )
        return False
    except OSError as error:
        lines.append(f"realtime priority is not available here ({error.strerror}): loops run less punctually")
        return False
    return True


def _lock_memory(lines: list[str]) -> bool:
    # With a finite limit, locking future memory would make later allocations fail: worse than a page fault.
    if os.geteuid() != 0 and resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY:
        lines.append("locking memory is not permitted: 'LimitMEMLOCK=infinity' in the service, or memlock in limits.d")
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        lines.append(f"locking memory is not available here ({os.strerror(ctypes.get_errno())})")
        return False
    return True


def _pin(core: int | None, lines: list[str]) -> int | None:
    if core is None:
        return None
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        lines.append(f"processor {core} cannot be reserved ({error.strerror})")
        return None
    return core
