"""The power fails at any step of an update over the air: the board boots the old firmware or the new, and takes another."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from onboard.clock import wait_s
from onboard.errors import PrestressError
from onboard.flash.flasher import image_for
from sim.boards.jail import own
from sim.boards.launcher import VirtualBoard
from tests.flash import cut
from tests.flash.air import NEW, OLD, PROCESSOR, Keys, firmware, fleet, says, update

Air = Callable[..., VirtualBoard]
DEFAULT, LONG = 10, 60
LAST = 12  # changes at the end: trial, restart, confirmation


def run_until_cut(board: VirtualBoard, port: int, keys: Keys, source: Path) -> bool:
    """Boot and update until the power fails; False when everything is over first."""

    async def go() -> bool:
        board.start()
        while not cut.happened(board) and "link: online" not in board.log_path.read_text(errors="replace"):
            await wait_s(0.005)
        task = asyncio.create_task(fleet(port, keys, source).run([board.config.id]))
        while not cut.happened(board) and not task.done():
            await wait_s(0.005)
        board.stop()
        task.cancel()
        with suppress(asyncio.CancelledError, PrestressError):
            await task
        return cut.happened(board)

    board.log_path.write_bytes(b"")
    return asyncio.run(go())


def booted(board: VirtualBoard) -> str:
    """Version that the board runs, with a link, after power on without failures."""
    cut.arm(board)
    board.log_path.write_bytes(b"")
    board.start()
    says(board, "link: online")
    return board.log_path.read_text().split(" runs strut ")[-1].split()[0]


def points(total: int, count: int) -> list[int]:
    """Changes at which the power fails: some over all of them, the others at the end, where the firmware changes."""
    early = max(2, count - min(LAST, count // 2))
    late = count - early
    spread = {1 + (total - LAST - 1) * k // (early - 1) for k in range(early)}
    return sorted(spread | {total - LAST + LAST * (k + 1) // late for k in range(late)})


def killed_everywhere(board: VirtualBoard, folder: Path, port: int, keys: Keys, count: int, again: bool) -> dict[str, int]:
    """Cut the power at `count` changes of flash; how often the old and the new firmware were found."""
    source = firmware()
    whole = {OLD: _files(board.jail / "a")}
    whole[NEW] = dict(image_for(source, PROCESSOR).modules)
    cut.fit(board)
    saved = folder / "saved"
    cut.arm(board)
    shutil.copytree(board.jail, saved)
    assert not run_until_cut(board, port, keys, source)
    total = cut.changes(board)
    assert total >= count
    seen = {OLD: 0, NEW: 0}
    for at in points(total, count):
        _restore(board, saved)
        cut.arm(board, at)
        assert run_until_cut(board, port, keys, source), f"change {at} of {total} never came"
        running = cut.folder_of(board.jail)
        version = booted(board)
        seen[version] += 1  # a KeyError would be neither
        assert _files(running) == whole[version], at  # not a mixture of both
        if again:
            _until_kept(board)
            done, failed = update(port, keys, source, [board.config.id])
            assert not failed and done[0].version == NEW, (at, failed)
            assert _files(board.jail / "b") == whole[NEW]
        board.stop()
    return seen


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.mpy")}


def _restore(board: VirtualBoard, saved: Path) -> None:
    """The board's flash as it was saved; its register file stays, it is mapped."""
    for path in board.jail.iterdir():
        if path.name != "sim":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in saved.iterdir():
        if path.name != "sim":
            shutil.copytree(path, board.jail / path.name) if path.is_dir() else shutil.copy2(path, board.jail / path.name)
    own(board.jail)


def _until_kept(board: VirtualBoard) -> None:
    end_s = time.monotonic() + 10.0
    while (board.jail / "trial").exists():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_an_update_over_the_air_cut_at_ten_steps(air: Air, tmp_path: Path, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    shutil.copytree(board.jail / "a", board.jail / "b")  # as after an earlier update: little has to change
    own(board.jail)
    seen = killed_everywhere(board, tmp_path, air_port, keys, DEFAULT, again=False)
    assert sum(seen.values()) == DEFAULT and min(seen.values()) >= 1


@pytest.mark.long
def test_an_update_over_the_air_cut_at_sixty_steps(air: Air, tmp_path: Path, air_port: int, keys: Keys) -> None:
    seen = killed_everywhere(air("strut00", keys.public), tmp_path, air_port, keys, LONG, again=True)
    assert sum(seen.values()) >= LONG - 2 and min(seen.values()) >= 5
