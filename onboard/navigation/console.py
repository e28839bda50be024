"""Answers the control socket for a rolling strut robot: arm, disarm, stop, reset, go X Y, model, status, record, quit."""

from __future__ import annotations

import asyncio
import math
import os
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onboard.clock import Clock, process_cpu_s
from onboard.errors import SafetyError, UsageError
from onboard.models.manifest import load_model_file
from onboard.planning.planar import planar_pose
from onboard.runtime.loop import LoopGroup
from onboard.runtime.parts import Record
from onboard.safety.table import Event

if TYPE_CHECKING:
    from onboard.navigation.parts import NavigationParts

FARTHEST_U = 1e4
PLAIN = {"arm": Event.ARM, "disarm": Event.DISARM, "stop": Event.STOP, "reset": Event.RESET}


class Console:
    """Carries out requests. A refusal is a PrestressError; the control socket turns it into the client's answer."""

    def __init__(
        self, parts: NavigationParts, loops: LoopGroup, clock: Clock, record: Record, quit_daemon: Callable[[], None]
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
        if what == "model":
            return self._model(request)
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
        """To `goal` [x, y] in u, or without one to the course's."""
        given = request.get("goal", self._parts.mission.goal.tolist())
        numbers = isinstance(given, list) and len(given) == 2 and all(isinstance(v, int | float) for v in given)
        if not numbers or not all(abs(v) <= FARTHEST_U for v in given):  # false for what is not a number, too
            raise UsageError(f"go: goal is a list of two numbers, x and y in u, at most {FARTHEST_U:g}")
        planner = self._parts.planner
        if planner is None:
            raise SafetyError("go: there is no planner")
        goal = np.array(given, dtype=np.float64)
        self._parts.terrain.check_goal(goal)  # one that cannot be is refused before the old one is given up
        transition = self._parts.heart.request(self._clock.now_s(), Event.GO, goal)
        planner.set_goal(goal)
        return {"line": f"going to ({goal[0]:g}, {goal[1]:g}) u", "state": transition.target.value}

    async def _model(self, request: dict[str, Any]) -> dict[str, Any]:
        """Another model between two plans; one that does not fit is refused, here or by the planner, and the old one stays."""
        path, planner, data = request.get("path"), self._parts.planner, self._parts.mission.data
        if not isinstance(path, str) or not path or planner is None:
            raise UsageError("model needs the path of a manifest")
        if not self._parts.mission.manifest:
            raise UsageError(f"controller {data.kind!r} plans without a model")
        # Reading and hashing would hold the control loop up.
        file = await asyncio.to_thread(load_model_file, Path(path), data.robot, data.physics_hash)
        number = planner.set_model(path)
        about = f"{file.manifest.name} ({file.manifest.onnx_sha256[:12]})"
        return {"line": f"model {about}: being loaded and tried", "installation": number, "model": about}

    def status(self) -> dict[str, Any]:
        """Everything a person or a script asks first; lengths in u unless the key says otherwise. lines: the same for people."""
        status = self._fields()
        return status | {"lines": lines(status)}

    def _fields(self) -> dict[str, Any]:
        parts, core, now_s = self._parts, self._parts.heart, self._clock.now_s()
        supervisor, planner, state = core.supervisor, self._parts.planner, core.state
        pose = None
        if state.caps_u is not None and state.pose_s is not None:
            x, y, axis = planar_pose(state.caps_u)
            centre = [round(float(v), 3) for v in (x, y, state.caps_u[:, 2].mean())]
            age_ms = round(1e3 * (now_s - state.pose_s), 1)
            pose = {"centre_u": centre, "axis_deg": round(math.degrees(axis), 1), "age_ms": age_ms}
        distance_u = core.distance_u()
        return {
            "robot": parts.name,
            "t_s": now_s,
            "state": supervisor.state.value,
            "fault": supervisor.fault.value if supervisor.fault else None,
            "troubles": [fault.value for fault in supervisor.troubles()],
            "epoch": supervisor.epoch,
            "goal": None if core.goal is None else core.goal.tolist(),
            "distance_u": None if distance_u is None else round(distance_u, 3),
            "arrived": core.arrived,
            "rescues": dict(core.rescue.counts),
            "pose": pose,
            "rest_u": None if state.rest_u is None else [round(float(v), 3) for v in state.rest_u],
            "poses": {"received": parts.poses.received, "refused": dict(parts.poses.refused)},
            "planner": None
            if planner is None
            else {
                "pid": planner.pid,
                "warm": planner.warm,
                "restarts": planner.restarts,
                "plan_ms": round(1e3 * planner.plan_s, 1),
                "problem": planner.problem,
                "model": planner.model,
                "model_number": planner.model_number,
                "model_problem": planner.model_problem,
                "model_swapping": planner.swapping,
                "controller": parts.mission.data.kind,
                **core.driver.counts,
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
            "problems": parts.motors.problems(),
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
    pose, planner, goal = status["pose"], status["planner"], status["goal"]
    rows = {"state": status["state"] + (f" ({status['fault']})" if status["fault"] else "")}
    rows["robot"] = "not seen yet"
    if pose is not None:
        x, y, z = pose["centre_u"]
        rows["robot"] = f"({x:.2f}, {y:.2f}, {z:.2f}) u, axis {pose['axis_deg']:.0f} deg, seen {pose['age_ms']:.0f} ms ago"
    rows["goal"] = "none"
    if goal is not None:
        away = "arrived" if status["arrived"] else f"{status['distance_u'] or 0.0:.2f} u away"
        rows["goal"] = f"({goal[0]:g}, {goal[1]:g}) u, {away}"
    if planner is not None:
        counts = "{plans} plans, {gaits} gaits, {late} late, {restarts} restarts, last took {plan_ms:.0f} ms".format(**planner)
        rows["planner"] = f"{planner['controller']}, {counts}" + (f"; {planner['problem']}" if planner["problem"] else "")
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
