"""Answers the console: what a client on the control socket may ask, and what it gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from onboard.clock import Clock
from onboard.control.postures import PostureStore, check_name
from onboard.errors import UsageError
from onboard.messages import Posture
from onboard.runtime.core import Core
from onboard.runtime.frame import frame
from onboard.runtime.status import StatusReporter
from onboard.safety.table import Event

# "hand" makes the robot compliant, so that a hand may lead it.
PLAIN = {"arm": Event.ARM, "disarm": Event.DISARM, "stop": Event.STOP, "reset": Event.RESET, "hand": Event.TEACH}


class Console:
    """Carries out requests: arm, disarm, stop, reset, hand, teach NAME, go NAME, postures, delete NAME, status, frame (what a
    live view draws), record PATH, record_stop, quit. A refusal is a PrestressError; the control socket turns it into the
    client's answer.
    """

    def __init__(
        self,
        core: Callable[[], Core],
        postures: PostureStore,
        reporter: StatusReporter,
        clock: Clock,
        record: Callable[[Path | None], Awaitable[str]],
        quit_daemon: Callable[[], None],
    ) -> None:
        self._core, self._postures, self._reporter, self._clock = core, postures, reporter, clock
        self._record, self._quit = record, quit_daemon

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """The reply's fields, at once but for recordings; raises PrestressError with the reason when the request is refused."""
        what = request["do"]
        if what in PLAIN:
            transition = self._core().request(self._clock.now_s(), PLAIN[what])
            return {"line": transition.text, "state": transition.target.value, "epoch": transition.epoch}
        if what == "status":
            return {"status": self._reporter.status()}
        if what == "frame":
            return frame(self._core(), self._clock.now_s())
        if what == "teach":
            return self._teach(_text(request, "name"))
        if what == "go":
            posture = self._postures.get(_text(request, "name"))
            transition = self._core().request(self._clock.now_s(), Event.GO, posture)
            return {"line": f"going to {posture.name}", "state": transition.target.value}
        if what == "postures":
            return {"postures": [_summary(posture) for posture in self._postures.all()]}
        if what == "delete":
            self._postures.delete(_text(request, "name"))
            return {"line": f"deleted posture {request['name']}"}
        if what == "record":
            return self._recorded(Path(_text(request, "path")))
        if what == "record_stop":
            return self._recorded(None)
        if what == "quit":
            self._quit()
            return {"line": "shutting down"}
        raise UsageError(f"unknown request {what!r}")

    async def _recorded(self, path: Path | None) -> dict[str, Any]:
        return {"line": await self._record(path)}

    def _teach(self, name: str) -> dict[str, Any]:
        check_name(name)
        posture = self._core().capture(name, self._clock.wall_ns())
        self._postures.put(posture)
        return {"line": f"recorded posture {name}", **_summary(posture)}


def _summary(posture: Posture) -> dict[str, Any]:
    return {"name": posture.name, "tip_m": [round(float(v), 5) for v in posture.tip_m], "taught_wall_ns": posture.taught_wall_ns}


def _text(request: dict[str, Any], key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{request['do']} needs a {key}")
    return value
