"""Run a MicroPython program on a virtual board instead of the firmware's main.py: jailed, with the firmware to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sim.boards.jail import UNPRIVILEGED_ID, BoardConfig, own, prepare, write_boot
from sim.boards.launcher import POWER_ON, interpreter_folder

PROCESS = Path(__file__).parents[2] / "sim" / "boards" / "process.py"


class ScriptBoard:
    """A board whose main.py is `source`. start() it, write its registers, then output()."""

    def __init__(self, directory: Path, source: str, config: BoardConfig | None = None) -> None:
        self.jail = directory / "jail"
        config = config or BoardConfig("script")
        self.registers = prepare(self.jail, config)
        write_boot(self.jail, config, POWER_ON)
        (self.jail / "main.py").write_text(source)
        own(self.jail)

    def start(self, unprivileged: bool = True) -> None:
        uid = UNPRIVILEGED_ID if os.geteuid() == 0 and unprivileged else 0
        settings = {
            "jail": str(self.jail),
            "packages": interpreter_folder(),
            "heap": "512K",
            "parent": os.getpid(),
            "uid": uid,
            "gid": uid,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROCESS), json.dumps(settings | {"uid": uid, "gid": uid})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            env={},
        )

    def output(self, text: str = "", timeout_s: float = 30.0) -> str:
        """Wait for the end; what it printed. AssertionError with that text when it failed."""
        out, _ = self.process.communicate(text, timeout=timeout_s)
        assert self.process.returncode == 0, out
        return out


def run_script(directory: Path, source: str, text: str = "", config: BoardConfig | None = None) -> str:
    """Start, wait, and return what the program printed."""
    board = ScriptBoard(directory, source, config)
    board.start()
    return board.output(text)
