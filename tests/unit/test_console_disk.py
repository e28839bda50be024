"""What the console does on the disk happens beside the loops: a slow card costs patience, not ticks."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onboard.clock import WallClock
from onboard.errors import UsageError
from onboard.messages import Posture, frozen
from onboard.runtime.handler import Console

HERE = Posture("here", frozen(np.ones(3)), frozen(np.ones(2)), frozen(np.zeros(3)), 0)


class SlowCard:
    """A store on a disk that answers only when `goes_on` is set; `at_once`: the most requests that were at it together."""

    def __init__(self) -> None:
        self.goes_on, self.begun = threading.Event(), threading.Event()
        self._inside = self.at_once = 0

    def _wait(self, result: Any) -> Any:
        self._inside += 1
        self.at_once = max(self.at_once, self._inside)
        self.begun.set()
        assert self.goes_on.wait(10.0)
        self._inside -= 1
        return result

    def put(self, posture: Posture) -> None:
        self._wait(None)

    def get(self, name: str) -> Posture:
        return self._wait(HERE)

    def all(self) -> list[Posture]:
        return self._wait([HERE])

    def delete(self, name: str) -> None:
        self._wait(None)


def console(store: Any, asked: list[str]) -> Console:
    def request(t_s: float, event: Any, posture: Posture) -> Any:
        asked.append(posture.name)
        return SimpleNamespace(target=SimpleNamespace(value="active"))

    core: Any = SimpleNamespace(capture=lambda name, wall_ns: HERE, request=request)
    return Console(lambda: core, store, SimpleNamespace(), WallClock(), lambda path: asyncio.sleep(0, ""), lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("request_", [{"do": "teach", "name": "a"}, {"do": "go", "name": "a"}, {"do": "postures"}])
def test_loops_go_on_while_the_disk_is_slow(request_: dict[str, Any]) -> None:
    async def scene() -> None:
        card, asked = SlowCard(), []
        answer = asyncio.ensure_future(console(card, asked).answer(request_))
        try:
            await asyncio.to_thread(card.begun.wait, 5.0)  # never begins if the answer holds the event loop
            assert card.begun.is_set() and not answer.done() and asked == []
        finally:
            card.goes_on.set()
        assert await answer
        assert asked == (["here"] if request_["do"] == "go" else [])

    asyncio.run(scene())


def test_requests_take_turns_at_the_disk() -> None:
    async def scene() -> None:
        card = SlowCard()
        one = console(card, [])
        answers = [asyncio.ensure_future(one.answer({"do": "teach", "name": name})) for name in "abc"]
        await asyncio.sleep(0.05)
        card.goes_on.set()
        await asyncio.gather(*answers)
        assert card.at_once == 1

    asyncio.run(scene())


def test_a_bad_name_is_refused_before_the_disk_is_asked() -> None:
    card = SlowCard()
    with pytest.raises(UsageError):
        asyncio.run(console(card, []).answer({"do": "teach", "name": "../x"}))  # type: ignore[arg-type]
    assert not card.begun.is_set()
