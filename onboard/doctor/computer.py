"""What `prestress doctor` checks of the computer itself: interpreter, packages, processor, memory, disk, clock, punctuality."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onboard.doctor.check import Check, advice, bad, good
from onboard.runtime.bench_loop import TARGET_P99_MS, lateness
from onboard.runtime.realtime import WAKE_EARLY_S, enter_realtime, leave_realtime

OLDEST_PYTHON = (3, 11)
# distribution: module
PACKAGES = {
    "aiomqtt": "aiomqtt",
    "amqtt": "amqtt",
    "mcap": "mcap",
    "msgspec": "msgspec",
    "numba": "numba",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "pyserial": "serial",
    "rich": "rich",
    "vqf": "vqf",
}
CORES = 2
MEMORY_MB = 400.0
DISK_GB = 1.0
RATE_HZ = 80.0
_TIMEX_BYTES = 512  # struct timex has 208 on 64-bit Linux; more is harmless
_CLOCK_UNSYNCHRONISED = 5


def interpreter() -> Check:
    """Python new enough."""
    text = sys.version.split()[0]
    if sys.version_info < OLDEST_PYTHON:
        return bad("interpreter", f"Python {text}: needs {'.'.join(map(str, OLDEST_PYTHON))} or newer")
    return good("interpreter", f"Python {text} at {sys.executable}")


def packages() -> Check:
    """Every package the daemon stands on is there and loads."""
    missing, found = [], []
    for name, module in PACKAGES.items():
        try:
            import_module(module)
            found.append(f"{name} {version(name)}")
        except (ImportError, PackageNotFoundError) as error:
            missing.append(f"{name} ({error})")
    if missing:
        return bad("packages", f"not usable: {'; '.join(missing)}. Install anew: make setup, or pip install prestress")
    return good("packages", ", ".join(found))


def cores() -> Check:
    """Processors this process may use."""
    count = len(os.sched_getaffinity(0))
    if count < CORES:
        return advice("cores", f"{count}: a simulated robot wants {CORES}; a real one runs, planning will be late")
    return good("cores", f"{count} usable")


def governor(folder: Path = Path("/sys/devices/system/cpu")) -> Check:
    """A processor that slows down between ticks wakes late."""
    kinds = {path.read_text().strip() for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    if kinds - {"performance"}:
        return advice(
            "processor clock", f"governor {', '.join(sorted(kinds))}: ticks wake late; cpupower frequency-set -g performance"
        )
    return good("processor clock", "governor performance" if kinds else "not scaled by this kernel")


def memory(file: Path = Path("/proc/meminfo")) -> Check:
    """Memory for the daemon."""
    lines = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    free_mb = int(lines["MemAvailable"].split()[0]) / 1024.0
    if free_mb < MEMORY_MB:
        return bad("memory", f"{free_mb:.0f} MB available: the daemon needs up to {MEMORY_MB:.0f} MB")
    return good("memory", f"{free_mb:.0f} MB available")


def disk(folder: Path) -> Check:
    """Room for recordings."""
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < DISK_GB:
        return advice("disk", f"{free_gb:.2f} GB free in {folder}: an hour of recording takes about half of {DISK_GB:.0f} GB")
    return good("disk", f"{free_gb:.1f} GB free in {folder}")


def clock() -> Check:
    """The wall clock only labels recordings and dates certificates: a wrong one is a nuisance, not a danger."""
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state == _CLOCK_UNSYNCHRONISED:
        return advice("clock", "not synchronised: labels of recordings and dates of certificates may be off; enable NTP")
    return good("clock", "synchronised" if state >= 0 else "its state cannot be read here")


def punctuality(seconds: float) -> list[Check]:
    """Realtime permission, and the lateness of an 80 Hz loop as it would run."""
    granted = enter_realtime()
    try:
        cell = asyncio.run(lateness(RATE_HZ, seconds, WAKE_EARLY_S if granted.scheduler else 0.0))
    finally:
        leave_realtime()
    permission = (
        good("realtime priority", "permitted") if granted.scheduler else advice("realtime priority", "; ".join(granted.lines))
    )
    limit_ms = TARGET_P99_MS["realtime" if granted.scheduler else "normal"]
    p99_ms, worst_ms = cell["p99_us"] / 1000.0, cell["max_us"] / 1000.0
    text = f"99 % of ticks at {RATE_HZ:.0f} Hz within {p99_ms:.2f} ms over {seconds:g} s, worst {worst_ms:.2f} ms"
    if p99_ms > limit_ms:
        late = (
            f"{text}: more than {limit_ms:g} ms. Close what keeps the processor busy; see realtime priority and processor clock"
        )
        return [permission, advice("loop lateness", late)]
    return [permission, good("loop lateness", text)]
