"""Two runs at once: the second is refused in plain words, and the first one's daemon, boards and folder are left alone."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sim.rig
from onboard.errors import LinkError, PrestressError, SafetyError
from onboard.runtime.control_socket import ControlSocket, ask, refuse_a_second
from tests.hil.support import robot


class Somebody:
    """A daemon of the rig that is there already, maybe with real hardware, and well; `asked` is what it was asked."""

    def __init__(self, path: Path) -> None:
        self.asked: list[str] = []
        self._server = ControlSocket(path, self._answer)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._do(self._server.start())

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request["do"])
        return {"status": {"state": "disarmed", "process": {"pid": os.getpid()}}}

    def _do(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(5.0)

    def close(self) -> None:
        self._do(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def somebody(tmp_path: Path) -> Iterator[Somebody]:
    one = Somebody(tmp_path / "prestress" / "module_rig.sock")
    yield one
    one.close()


def test_a_simulated_run_beside_a_daemon_starts_nothing_and_asks_it_nothing(tmp_path: Path, somebody: Somebody) -> None:
    one = robot("module_rig", tmp_path)
    with pytest.raises(SafetyError, match=f"runs already \\(process {os.getpid()}\\)"), one:
        pass
    assert not list(tmp_path.glob("boards*"))
    assert somebody.asked == []


@pytest.mark.long
def test_a_daemon_that_comes_in_between_is_never_taken_for_the_runs_own(
    tmp_path: Path, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim.rig, "refuse_a_second", lambda path: None)
    tmp_path.chmod(0o711)
    with pytest.raises(PrestressError, match="runs already"), robot("module_rig", tmp_path):
        pytest.fail("the other daemon was taken for the run's own")
    assert set(somebody.asked) <= {"status"}
    assert not (tmp_path / "recording.mcap").exists()


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    first, second = robot("module_rig", tmp_path), robot("module_rig", tmp_path)
    first._claim_folder()
    with pytest.raises(PrestressError, match="another run is using it"), second:
        pass
    first.close()
    second._claim_folder()
    second.close()


def test_who_claims_the_socket_keeps_it_before_and_while_it_serves(tmp_path: Path) -> None:
    path = tmp_path / "rig.sock"
    first, second = ControlSocket(path, lambda request: {}), ControlSocket(path, lambda request: {})
    first.claim()
    with pytest.raises(SafetyError, match=f"runs already \\(process {os.getpid()}\\)"):
        second.claim()
    refuse_a_second(path)  # it does not answer yet: only the claim can tell
    asyncio.run(first.close())
    second.claim()
    with pytest.raises(LinkError, match="no daemon"):
        ask(path, {"do": "status"})
    asyncio.run(second.close())
