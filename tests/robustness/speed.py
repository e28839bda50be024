"""How fast this computer is just now, on both cores at once, apart from anything that is tested."""

from __future__ import annotations

import statistics
import subprocess
import sys

LOOP = """
import time
best = 9.0
for _ in range(7):
    start = time.perf_counter()
    sum(i * i for i in range(400_000))
    best = min(best, time.perf_counter() - start)
print(best)
"""
# seen: from 0.025 s on the chain starves now and then, at 0.033 s strut after strut goes stale; at 1.5 cores the loop takes
# about 0.02 s
WHOLE_ARM_S = 0.022


def loop_s() -> float:
    """Seconds of a fixed loop in two processes at once: the slower one's best of seven, median of three goes."""
    found = []
    for _ in range(3):
        both = [subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        found.append(max(float(process.communicate(timeout=60.0)[0]) for process in both))
    return statistics.median(found)
