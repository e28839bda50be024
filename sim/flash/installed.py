"""A virtual board's flash as `prestress flash` leaves it: compiled files in one folder, settings with the update key."""

from __future__ import annotations

import json

from onboard.flash.image import Image
from sim.boards.jail import own
from sim.boards.launcher import VirtualBoard

PROCESSOR = "x64"  # virtual boards run compiled files on the computer's own


def install(board: VirtualBoard, image: Image, public: bytes | None) -> None:
    """Put `image` into folder a of a board that is off; public: the key whose updates it takes, None for none."""
    for path in board.jail.rglob("*.py"):
        if "sim" not in path.relative_to(board.jail).parts:
            path.unlink()
    for name, data in image.root.items():
        (board.jail / name).write_bytes(data)
    for name, data in image.modules.items():
        path = board.jail / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (board.jail / "slot").write_text("a")
    settings = json.loads((board.jail / "identity.json").read_text())
    if public is not None:
        settings["update"] = {"key": public.hex()}
    (board.jail / "identity.json").write_text(json.dumps(settings))
    own(board.jail)
