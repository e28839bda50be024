"""Virtual boards as processes: a fleet comes and goes together, and nothing outlives its launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet
from tests.firmware.conftest import wait_until

LAUNCHER = """
import sys, time
from pathlib import Path
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
board = VirtualBoard(BoardConfig("valve0", app="valve"), Path(sys.argv[1]))
board.start()
print(board.pid, flush=True)
time.sleep(60)
"""


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_a_fleet_starts_and_stops_together(tmp_path: Path) -> None:
    configs = [BoardConfig("valve0", app="valve"), BoardConfig("strut00"), BoardConfig("strut01", board="m5stickc_plus")]
    with BoardFleet(configs, tmp_path) as fleet:
        fleet.start()
        pids = [board.pid for board in fleet.boards.values()]
        assert all(alive(pid) for pid in pids)
        assert len({board.config.chip_id for board in fleet.boards.values()}) == 3
        wait_until(lambda: fleet["valve0"].valves.output_writes() > 0, what="the valve board writes its outputs")
        fleet["strut01"].stop()
        assert not fleet["strut01"].running
        assert fleet["strut01"].exit_status == -signal.SIGKILL
        fleet.start()
        assert fleet["strut01"].running
        pids.append(fleet["strut01"].pid)
    assert not any(alive(pid) for pid in pids)


def test_two_boards_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two boards are called 'strut00'"):
        BoardFleet([BoardConfig("strut00"), BoardConfig("strut00")], tmp_path)


@pytest.mark.parametrize("change", [{"app": "motor!"}, {"board": "uno"}])
def test_unknown_kinds_of_board_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not"):
        BoardConfig("x", **change)  # type: ignore[arg-type]


def test_boards_die_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert launcher.stdout is not None
    pid = int(launcher.stdout.readline())
    registers = tmp_path / "valve0" / "sim" / "registers.bin"
    wait_until(lambda: registers.read_bytes()[256] > 0, what="the board runs")
    assert alive(pid)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    wait_until(lambda: not alive(pid), 5.0, "the board's end")
