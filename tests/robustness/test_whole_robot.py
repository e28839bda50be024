"""The armed manipulator, whole, in real time: whatever breaks, all valves go to the safe pressure by themselves and latch."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

from onboard.errors import LinkError, SafetyError
from sim.boards.registers import FAULT_NO_ANSWER
from sim.rig import SimulatedRobot
from tests.hil.support import log, wait_for
from tests.robustness.whole_robot import CONVERTER_PA, REACTION_S, at_safe_pressure, setpoints, state


def test_a_killed_daemon_leaves_the_boards_safe_and_latched(active: SimulatedRobot) -> None:
    assert active.daemon is not None
    active.daemon.kill()
    active.daemon.wait()
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "boards go to the safe pressure by themselves")
    active.start_daemon(record=False)
    wait_for(lambda: len(active.status()["boards"]) == 5, 10.0, "boards report to the new daemon")
    assert all(board["latched"] for board in active.status()["boards"].values())
    assert state(active) == "disarmed"
    time.sleep(0.5)
    assert at_safe_pressure(active), "the new daemon moved something without being asked"


def test_a_stop_from_any_client_ends_in_the_safe_state(active: SimulatedRobot) -> None:
    active.ask("stop")
    assert state(active) == "safe"
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "stopped")
    with pytest.raises(SafetyError, match="latched in its safe state"):
        active.ask("arm")


def test_the_hard_wired_stop_needs_no_daemon(active: SimulatedRobot) -> None:
    assert active.plant is not None
    active.plant.ask("press_stop", board="valve2", pressed=True)
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "one stop stops all boards")
    assert state(active) == "safe"
    assert "docs/faults/stop_input.md" in log(active)
    active.plant.ask("press_stop", board="valve2", pressed=False)


def test_a_silent_valve_board_stops_all_others(active: SimulatedRobot) -> None:
    assert active.fleet is not None
    active.fleet["valve1"].stop()
    others = slice(16, 40)
    wait_for(lambda: state(active) == "safe", 1.5, "the silence is noticed")
    wait_for(lambda: at_safe_pressure(active, others), REACTION_S, "the others are safe")
    assert "valve1" in log(active)


def test_a_valve_board_whose_output_does_not_answer_is_a_fault(active: SimulatedRobot) -> None:
    assert active.plant is not None
    active.plant.ask("bus", board="valve0", faults=FAULT_NO_ANSWER)
    wait_for(lambda: state(active) == "fault", 3.0, "the fault is noticed")
    assert "docs/faults/board_output.md" in log(active)
    active.plant.ask("bus", board="valve0", faults=0)


def test_a_lost_module_is_held_and_the_arm_recovers(active: SimulatedRobot) -> None:
    assert active.fleet is not None
    names = active.spec.struts[8:12]
    before = setpoints(active)
    for name in names:
        active.fleet[name].stop()
    wait_for(lambda: state(active) == "degraded", 2.0, "the missing module is noticed")
    time.sleep(0.2)  # what was issued last is on its way to the valves
    held = setpoints(active)
    time.sleep(0.5)
    assert np.allclose(setpoints(active), held, atol=CONVERTER_PA), "pressures move on an estimate that is none"
    assert np.abs(held - before).max() < 2e5
    for name in names:
        active.fleet[name].start()
    wait_for(lambda: state(active) == "active", 9.0, "the module is back")


def test_a_frozen_daemon_is_outlived_by_the_boards(active: SimulatedRobot) -> None:
    assert active.daemon is not None
    active.daemon.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: at_safe_pressure(active), REACTION_S, "boards go safe by themselves")
    finally:
        active.daemon.send_signal(signal.SIGCONT)
    wait_for(lambda: state(active) == "safe", 2.0, "the daemon sees that boards have latched")


def test_an_orderly_end_disarms(active: SimulatedRobot) -> None:
    assert active.stop_daemon(signal.SIGTERM) == 0
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "disarmed boards hold the safe pressure")
    with pytest.raises(LinkError, match="no daemon"):
        active.ask("status")
