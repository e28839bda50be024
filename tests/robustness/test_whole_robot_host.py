"""The armed manipulator when its computer is the trouble: a jump of the clock, a full disk, no processor time."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.safety.faults import Fault
from onboard.telemetry.reader import open_recording
from tests.hil.support import wait_for
from tests.robustness.whole_robot import FaultyRobot, bring_to_active, state, stop_and_go, told, until_well, watch


@pytest.mark.parametrize(
    "seconds", [-3600.0, pytest.param(60.0, marks=pytest.mark.long), pytest.param(1e9, marks=pytest.mark.long)]
)
def test_a_wall_clock_that_jumps_changes_no_time_out(active: FaultyRobot, seconds: float) -> None:
    stale = active.status()["struts"]["refused"].get("stale", 0)
    active.jump(seconds)
    assert watch(active, 1.5) < 0.05
    active.jump(0.0)
    assert watch(active, 0.5) < 0.05
    assert active.status()["struts"]["refused"].get("stale", 0) <= stale + 20
    assert "ERROR" not in active.said()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 MB, of which 200 must stay free, mounted for the test."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system takes root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.long
def test_a_disk_that_fills_up_ends_the_recording_with_one_line_and_control_goes_on(active: FaultyRobot, small_disk: Path) -> None:
    active.ask("disarm")
    active.ask("record", path=str(small_disk / "full.mcap"))
    bring_to_active(active)
    with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(1_000_000))
    told(active, Fault.RECORDER_FAILED, limit_s=8.0)
    assert watch(active, 1.0) < 0.05
    assert active.said().count("recording stopped") == 1
    assert "less than 200 MB of the disk are free" in active.said()
    recording = open_recording(small_disk / "full.mcap")
    assert sum(1 for _ in recording) > 1000 and recording.truncated is None


def test_a_starved_daemon_holds_and_recovers(active: FaultyRobot) -> None:
    assert active.daemon is not None
    stop_and_go(active.daemon.pid, 0.06, 0.04, 2.5)
    told(active, Fault.LOOP_OVERLOAD)
    if state(active) == "degraded":
        until_well(active)
    wait_for(lambda: state(active) in ("active", "safe"), 5.0, "held, and back")
