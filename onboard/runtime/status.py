"""What the daemon says of itself: one plain dict for the console, the live table and scripts."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from onboard.clock import Clock, process_cpu_s
from onboard.link.session import Session
from onboard.messages import EstimateFlag, PoseEstimate, SensorFlag
from onboard.runtime.core import Core
from onboard.runtime.loop import LoopGroup


class StatusReporter:
    """Builds status dicts; processor share is the mean since the last call."""

    def __init__(self, core: Callable[[], Core], loops: LoopGroup, session: Session, clock: Clock) -> None:
        self._now, self._loops, self._session, self._clock = core, loops, session, clock
        self._cpu_s, self._at_s, self._cpu_pct = process_cpu_s(), clock.now_s(), 0.0

    @property
    def _core(self) -> Core:
        return self._now()

    def status(self) -> dict[str, Any]:
        """Everything a person or a script asks first; numbers in SI units unless the key says otherwise."""
        core, now_s = self._core, self._clock.now_s()
        return {
            "robot": core.spec.name,
            "t_s": now_s,
            "state": core.supervisor.state.value,
            "fault": core.supervisor.fault.value if core.supervisor.fault else None,
            "troubles": [fault.value for fault in core.supervisor.troubles()],
            "epoch": core.supervisor.epoch,
            "goal": core.goal.name if core.goal else None,
            "goal_error_mm": self._goal_error_mm(),
            "estimate": _estimate(core.estimate, now_s),
            "struts": self._struts(),
            "boards": self._boards(now_s),
            "loops": [_loop(stats) for stats in self._loops.stats()],
            "link": {
                "broker": str(self._session.endpoint),
                "connected": self._session.connected,
                "connects": self._session.connects,
                "dropped": self._session.dropped,
                "strangers": sorted(self._session.strangers),
                "refused": dict(self._session.refused),
            },
            "process": self._process(now_s),
        }

    def _goal_error_mm(self) -> float | None:
        core = self._core
        if core.goal is None or core.estimate is None:
            return None
        return float(1000.0 * np.linalg.norm(core.estimate.tip_m - core.goal.tip_m))

    def _struts(self) -> dict[str, Any]:
        core = self._core
        every = [core.decoder.status(strut) for strut in range(len(core.spec.struts))]
        flags = core.estimate.strut_flags if core.estimate is not None else np.full(len(every), int(SensorFlag.MISSING))
        return {
            "online": sum(one.online for one in every),
            "synchronised": sum(one.synchronised for one in every),
            "samples": sum(one.samples for one in every),
            "lost": sum(one.lost for one in every),
            "refused": dict(sum((Counter(one.refused) for one in every), Counter())),
            "flagged": {one.strut: SensorFlag(int(flag)).name for one, flag in zip(every, flags, strict=True) if flag},
            "problems": {one.strut: one.problem for one in every if one.problem},
        }

    def _boards(self, now_s: float) -> dict[str, Any]:
        return {
            name: {
                "age_ms": round(1000.0 * (now_s - report.t_s), 1),
                "ready": report.ready,
                "armed": report.armed,
                "latched": report.latched,
                "stop_input": report.stop_input,
                "fault": report.fault,
                "measured_pa": [round(float(value), 1) for value in report.measured],
                "refused": report.refused,
            }
            for name, report in self._core.reports().items()
        }

    def _process(self, now_s: float) -> dict[str, Any]:
        cpu_s = process_cpu_s()
        if now_s - self._at_s >= 0.5:
            self._cpu_pct = 100.0 * (cpu_s - self._cpu_s) / (now_s - self._at_s)
            self._cpu_s, self._at_s = cpu_s, now_s
        # ru_maxrss is in KiB on Linux.
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        return {"pid": os.getpid(), "cpu_pct": round(self._cpu_pct, 1), "rss_mb": memory_mb}


def _estimate(estimate: PoseEstimate | None, now_s: float) -> dict[str, Any] | None:
    if estimate is None:
        return None
    tilt = np.degrees(np.arccos(np.clip(estimate.rotation[-1, 2, 2], -1.0, 1.0)))
    return {
        "age_ms": round(1000.0 * (now_s - estimate.t_s + estimate.age_s), 2),
        "tip_m": [round(float(value), 5) for value in estimate.tip_m],
        "tilt_deg": round(float(tilt), 2),
        "tip_sigma_mm": round(1000.0 * estimate.tip_sigma_m, 2),
        "flags": EstimateFlag(estimate.flags).name or "",
        "cable_length_m": [round(float(value), 5) for value in estimate.cable_length_m],
    }


def _loop(stats: Any) -> dict[str, Any]:
    return {
        "name": stats.name,
        "rate_hz": stats.rate_hz,
        "ticks": stats.ticks,
        "overruns": stats.overruns,
        "late_p50_us": round(stats.late_p50_us, 1),
        "late_p99_us": round(stats.late_p99_us, 1),
        "late_max_us": round(stats.late_max_us, 1),
        "work_p99_us": round(stats.work_p99_us, 1),
    }
