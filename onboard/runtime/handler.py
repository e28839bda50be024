"""Answers the console: what a client on the control socket may ask, and what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from onboard.clock import Clock
from onboard.control.postures import PostureStore, check_name
from onboard.errors import UsageError
from onboard.messages import Posture
from onboard.runtime.core import Core
from onboard.runtime.frame import frame
from onboard.runtime.status import StatusReporter
from onboard.safety.table import Event

P = ParamSpec("P")
T = TypeVar("T")

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
        self._disk = asyncio.Lock()

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """The reply's fields, at once but for what needs the disk. Raises PrestressError, with the reason, for a refusal."""
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
            return self._go(_text(request, "name"))
        if what == "postures":
            return self._list()
        if what == "delete":
            return self._delete(_text(request, "name"))
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

    async def _teach(self, name: str) -> dict[str, Any]:
        check_name(name)
        posture = self._core().capture(name, self._clock.wall_ns())
        await self._on_disk(self._postures.put, posture)
        return {"line": f"recorded posture {name}", **_summary(posture)}

    async def _go(self, name: str) -> dict[str, Any]:
        posture = await self._on_disk(self._postures.get, name)
        transition = self._core().request(self._clock.now_s(), Event.GO, posture)
        return {"line": f"going to {posture.name}", "state": transition.target.value}

    async def _list(self) -> dict[str, Any]:
        return {"postures": [_summary(posture) for posture in await self._on_disk(self._postures.all)]}

    async def _delete(self, name: str) -> dict[str, Any]:
        await self._on_disk(self._postures.delete, name)
        return {"line": f"deleted posture {name}"}

    async def _on_disk(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread, one at a time: while a slow disk writes, loops go on and boards hear from us."""
        async with self._disk:
            return await asyncio.to_thread(work, *args, **kwargs)


def _summary(posture: Posture) -> dict[str, Any]:
    return {"name": posture.name, "tip_m": [round(float(v), 5) for v in posture.tip_m], "taught_wall_ns": posture.taught_wall_ns}


def _text(request: dict[str, Any], key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{request['do']} needs a {key}")
    return value
