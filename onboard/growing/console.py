"""Answers the control socket for a growing robot: arm, disarm, stop, reset, go X Y, status, record, quit."""

from __future__ import annotations

import os
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onboard.clock import Clock, process_cpu_s
from onboard.errors import UsageError
from onboard.runtime.loop import LoopGroup
from onboard.runtime.parts import Record
from onboard.safety.table import Event

if TYPE_CHECKING:
    from onboard.growing.parts import GrowthParts

FARTHEST_M = 100.0
PLAIN = {"arm": Event.ARM, "disarm": Event.DISARM, "stop": Event.STOP, "reset": Event.RESET}


class Console:
    """Carries out requests. A refusal is a PrestressError; the control socket turns it into the client's answer."""

    def __init__(
        self, parts: GrowthParts, loops: LoopGroup, clock: Clock, record: Record, quit_daemon: Callable[[], None]
    ) -> None:
        self._parts, self._loops, self._clock, self._record, self._quit = parts, loops, clock, record, quit_daemon
        self._cpu_s, self._at_s, self._cpu_pct = process_cpu_s(), clock.now_s(), 0.0

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """The reply's fields; raises PrestressError with the reason when the request is refused."""
        what = request["do"]
        if what in PLAIN:
            transition = self._parts.heart.request(self._clock.now_s(), PLAIN[what])
            return {"line": transition.text, "state": transition.target.value, "epoch": transition.epoch}
        if what == "go":
            return self._go(request)
        if what == "status":
            return {"status": self.status()}
        if what == "record":
            path = request.get("path")
            if not isinstance(path, str) or not path:
                raise UsageError("record needs a path")
            return self._recorded(Path(path))
        if what == "record_stop":
            return self._recorded(None)
        if what == "quit":
            self._quit()
            return {"line": "shutting down"}
        raise UsageError(f"unknown request {what!r}")

    async def _recorded(self, path: Path | None) -> dict[str, Any]:
        return {"line": await self._record(path)}

    def _go(self, request: dict[str, Any]) -> dict[str, Any]:
        """To `goal` [x, y] in m, or without one to the task's."""
        given = request.get("goal", self._parts.task.goal.tolist())
        numbers = isinstance(given, list) and len(given) == 2 and all(isinstance(v, int | float) for v in given)
        if not numbers or not all(abs(v) <= FARTHEST_M for v in given):  # false for what is not a number, too
            raise UsageError(f"go: goal is a list of two numbers, x and y in m, at most {FARTHEST_M:g}")
        goal = np.array(given, dtype=np.float64)
        self._parts.way_to(goal)  # one that cannot be is refused before the old one is given up
        transition = self._parts.heart.request(self._clock.now_s(), Event.GO)
        self._parts.aim(goal)
        return {"line": f"growing to ({1e3 * goal[0]:.0f}, {1e3 * goal[1]:.0f}) mm", "state": transition.target.value}

    def status(self) -> dict[str, Any]:
        """Everything a person or a script asks first. lines: the same for people."""
        status = self._fields()
        return status | {"lines": lines(status)}

    def _fields(self) -> dict[str, Any]:
        parts, core, now_s = self._parts, self._parts.heart, self._clock.now_s()
        supervisor, planner, line = core.supervisor, parts.planner, core.line
        distance_m = core.distance_m()
        return {
            "robot": parts.name,
            "t_s": now_s,
            "state": supervisor.state.value,
            "fault": supervisor.fault.value if supervisor.fault else None,
            "troubles": [fault.value for fault in supervisor.troubles()],
            "epoch": supervisor.epoch,
            "goal_m": core.player.goal.tolist(),
            "growing": core.growing,
            "distance_m": None if distance_m is None else round(distance_m, 4),
            "arrived": core.player.arrived,
            "tip_m": None if line is None else [round(float(v), 4) for v in line.points_m[-1]],
            "picture_age_ms": None if line is None else round(1e3 * (now_s - line.t_s), 1),
            "issued": [round(float(v), 5) for v in core.governor.issued],
            "valves_open": core.governor.free,
            "poses": {"received": parts.poses.received, "refused": dict(parts.poses.refused)},
            "planner": None
            if planner is None
            else {
                "pid": planner.pid,
                "warm": planner.warm,
                "restarts": planner.restarts,
                "plan_ms": round(1e3 * planner.plan_s, 1),
                "problem": planner.problem,
                "plans": core.plans,
                "plans_per_s": round(core.plans_per_s, 2),
                "late": core.late,
            },
            "boards": {
                name: {
                    "age_ms": round(1e3 * (now_s - report.t_s), 1),
                    "ready": report.ready,
                    "armed": report.armed,
                    "latched": report.latched,
                    "fault": report.fault,
                    "refused": report.refused,
                }
                for name, report in core.reports().items()
            },
            "links": {link.board: link.problem for link in parts.boards.links()},
            "governor": {key: getattr(core.governor.counts, key) for key in core.governor.counts.__slots__},
            "loops": [
                {
                    "name": one.name,
                    "rate_hz": one.rate_hz,
                    "ticks": one.ticks,
                    "overruns": one.overruns,
                    "late_p50_us": round(one.late_p50_us, 1),
                    "late_p99_us": round(one.late_p99_us, 1),
                    "late_max_us": round(one.late_max_us, 1),
                    "work_p99_us": round(one.work_p99_us, 1),
                }
                for one in self._loops.stats()
            ],
            "process": self._process(now_s),
        }

    def _process(self, now_s: float) -> dict[str, Any]:
        cpu_s = process_cpu_s()
        if now_s - self._at_s >= 0.5:
            self._cpu_pct = 100.0 * (cpu_s - self._cpu_s) / (now_s - self._at_s)
            self._cpu_s, self._at_s = cpu_s, now_s
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        return {"pid": os.getpid(), "cpu_pct": round(self._cpu_pct, 1), "rss_mb": round(memory_mb, 1)}


def lines(status: dict[str, Any]) -> dict[str, str]:
    """A status as rows for a terminal."""
    planner, tip, goal = status["planner"], status["tip_m"], status["goal_m"]
    rows = {"state": status["state"] + (f" ({status['fault']})" if status["fault"] else "")}
    rows["tip"] = "not seen yet"
    if tip is not None:
        rows["tip"] = f"({1e3 * tip[0]:.0f}, {1e3 * tip[1]:.0f}) mm, seen {status['picture_age_ms']:.0f} ms ago"
    away = "arrived" if status["arrived"] else f"{1e3 * (status['distance_m'] or 0.0):.0f} mm away"
    rows["goal"] = f"({1e3 * goal[0]:.0f}, {1e3 * goal[1]:.0f}) mm, {away}"
    if planner is not None:
        counts = "{plans} plans, {late} late, {restarts} restarts, last took {plan_ms:.0f} ms".format(**planner)
        rows["planner"] = counts + (f"; {planner['problem']}" if planner["problem"] else "")
    boards = status["boards"].items()
    rows["boards"] = ", ".join(f"{name} {_condition(board)}" for name, board in boards) or "none"
    rows["loops"] = ", ".join(
        f"{loop['name']} {loop['rate_hz']:g} Hz late p99 {loop['late_p99_us'] / 1000:.2f} ms" for loop in status["loops"]
    )
    rows["process"] = "{cpu_pct:.0f} % of a core, {rss_mb:.0f} MB".format(**status["process"])
    rows["troubles"] = ", ".join(status["troubles"]) or "none"
    return rows


def _condition(board: dict[str, Any]) -> str:
    return "armed" if board["armed"] else "latched" if board["latched"] else "disarmed"
