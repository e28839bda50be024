"""The one-module rig runs from its file alone: firmware on the real interpreter, broker, daemon, MuJoCo, in real time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import LinkError, SafetyError
from onboard.runtime.replay import recorded_spec, replay
from onboard.telemetry.reader import open_recording
from sim.rig import SimulatedRobot
from sim.trace import EstimateLog, TruthLog
from tests.hil.support import log, ready, robot, wait_for


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedRobot]:
    with robot("module_rig", tmp_path_factory.mktemp("rig")) as one:
        wait_for(lambda: ready(one), 30.0, "the rig comes up")
        yield one


def test_the_tip_is_known_while_a_hand_pushes(rig: SimulatedRobot) -> None:
    truth, plant = TruthLog(), rig.plant
    assert plant is not None
    start = time.monotonic()
    for azimuth in (0.0, 2.1, 4.2):
        plant.ask("lead_to", tilt_rad=float(np.radians(15.0)), azimuth_rad=azimuth)
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            truth.take(plant.poll(0.1))
    plant.ask("let_go")
    time.sleep(1.0)
    time.sleep(1.0)
    length_m = rig.spec.structure.rest_height_m
    error_pct = EstimateLog.read(rig.recording).tip_rmse_pct(truth, start, start + 6.0, length_m)
    moved = np.linalg.norm(truth.tip_m - truth.tip_m[0], axis=1).max()
    assert moved > 0.005, "the hand did not move the tip"
    assert error_pct < 3.0


def test_no_sample_is_lost_and_nothing_is_late(rig: SimulatedRobot) -> None:
    status = rig.status()
    assert status["struts"]["samples"] > 1000
    assert status["struts"]["lost"] == 0
    assert status["estimate"]["age_ms"] < 150.0


def test_a_robot_without_actuators_cannot_be_armed(rig: SimulatedRobot) -> None:
    with pytest.raises(SafetyError, match="no actuators"):
        rig.ask("arm")


def test_a_second_daemon_is_refused(rig: SimulatedRobot, tmp_path: Path) -> None:
    process = rig._spawn(["-m", "onboard.cli.main", "run", str(rig.path), "--hardware"], "second.log")
    assert process.wait(30) != 0
    assert "runs already" in rig.last_line("second.log")


def test_a_board_that_loses_power_is_left_out_and_comes_back(rig: SimulatedRobot) -> None:
    assert rig.fleet is not None
    board = rig.fleet["strut02"]
    board.stop()
    wait_for(lambda: "strut_missing" in rig.status()["troubles"], 3.0, "the missing strut is noticed")
    assert rig.status()["estimate"] is not None
    board.start()
    wait_for(lambda: ready(rig), 20.0, "the strut is back")
    assert "strut02" in log(rig)


def test_the_daemon_ends_in_order_and_its_recording_replays_bit_for_bit(rig: SimulatedRobot) -> None:
    assert rig.stop_daemon(signal.SIGINT) == 0
    recording = open_recording(rig.recording)
    result = replay(recording, recorded_spec(recording))
    assert result.first_difference is None
    assert result.compared["/estimate"] > 500
    assert result.truncated is None


def skipped(rig: SimulatedRobot) -> int:
    """Ticks that the daemon's loops have left out so far."""
    return sum(loop["overruns"] for loop in rig.status()["loops"])


def test_a_recording_starts_beside_the_loops(rig: SimulatedRobot) -> None:
    rig.start_daemon(record=False)
    wait_for(lambda: ready(rig), 20.0, "the rig is back")
    before = skipped(rig)
    rig.ask("record", path=str(rig.folder / "second.mcap"))
    assert skipped(rig) - before < 60, "the loops stood still while the writer started"
    assert ready(rig) or rig.status()["struts"]["online"] == len(rig.spec.struts)


def test_a_writer_that_hangs_holds_up_neither_loops_nor_status(rig: SimulatedRobot) -> None:
    assert rig.daemon is not None
    children = Path(f"/proc/{rig.daemon.pid}/task/{rig.daemon.pid}/children").read_text().split()
    others = [path.read_text().split() for path in Path(f"/proc/{rig.daemon.pid}/task").glob("*/children")]
    (writer,) = {int(pid) for pids in (children, *others) for pid in pids}
    os.kill(writer, signal.SIGSTOP)
    try:
        ended = threading.Thread(target=lambda: rig.ask("record_stop"))
        ended.start()
        first = rig.status()["loops"][0]["ticks"]
        wait_for(lambda: rig.status()["loops"][0]["ticks"] > first + 40, 5.0, "loops go on")
        assert ended.is_alive(), "the recording ended without its writer"
    finally:
        os.kill(writer, signal.SIGCONT)
        ended.join(20.0)
    assert open_recording(rig.folder / "second.mcap").truncated is None
    rig.stop_daemon()


def test_a_run_whose_broker_never_answered_is_not_called_good(tmp_path: Path) -> None:
    words = ["run", "module_rig", "--broker", "mqtt://127.0.0.1:1", "--duration", "0.5", "--out", str(tmp_path / "run")]
    tmp_path.chmod(0o711)
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "onboard.cli.main", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120.0, check=False)
    assert done.returncode == LinkError.exit_code, done.stderr
    assert "mqtt://127.0.0.1:1 was never reached" in done.stderr


def test_a_daemon_without_simulation_ends_with_one_json_object(tmp_path: Path) -> None:
    words = ["run", "module_rig", "--hardware", "--broker", "mqtt://127.0.0.1:1", "--duration", "0.3", "--json"]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "onboard.cli.main", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120.0, check=False)
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == result["exit_status"] == 0
    assert result["final_state"] == "disarmed" and result["fault"] is None and result["ticks"] > 5
