"""The armed manipulator, whole, in real time: whatever breaks, all valves go to the safe pressure by themselves and latch."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest

from onboard.errors import LinkError, SafetyError
from sim.boards.registers import FAULT_NO_ANSWER
from sim.rig import SimulatedRobot
from tests.hil.support import log, ready, robot, wait_for

CONVERTER_PA = 150.0  # a count of the valve's converter
REACTION_S = 1.2  # deadline, slew from any pressure to the safe one, and a busy test machine


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedRobot]:
    with robot("manipulator", tmp_path_factory.mktemp("arm")) as one:
        wait_for(lambda: ready(one), 40.0, "the arm comes up")
        yield one


@pytest.fixture
def active(arm: SimulatedRobot) -> SimulatedRobot:
    """The arm, ready and active, whatever the last test did to it."""
    if arm.daemon is None or arm.daemon.poll() is not None:
        arm.start_daemon(record=False)
    assert arm.fleet is not None
    arm.fleet.start()
    wait_for(lambda: brought_to_active(arm), 40.0, "the arm is active")
    if not arm.ask("postures")["postures"]:
        arm.ask("hand")
        wait_for(lambda: setpoints(arm).mean() > 3.2e5, 8.0, "teaching leads to the rest pressure")
        arm.ask("teach", name="rest")
    arm.ask("go", name="rest")
    wait_for(lambda: setpoints(arm).mean() > 3.0e5, 8.0, "pressures are the controller's")
    return arm


def brought_to_active(one: SimulatedRobot) -> bool:
    """One step of what a person does: reset, wait until all is well, arm; a board that has just booted may need a second try."""
    now = state(one)
    if now in ("safe", "fault"):
        accepted(one, "reset")
    elif now == "disarmed" and ready(one):
        accepted(one, "arm")
    return now == "active"


def accepted(one: SimulatedRobot, request: str) -> bool:
    try:
        one.ask(request)
    except SafetyError:
        return False
    return True


def state(one: SimulatedRobot) -> str:
    return str(one.status()["state"])


def setpoints(one: SimulatedRobot) -> np.ndarray:
    assert one.plant is not None
    while one.plant.poll():
        pass
    one.plant.poll(0.1)
    assert one.plant.latest is not None
    assert one.plant.latest.violation_pa <= CONVERTER_PA
    return np.array(one.plant.latest.setpoint_pa)


def at_safe_pressure(one: SimulatedRobot, boards: slice = slice(None)) -> bool:
    assert one.spec.actuators is not None
    return bool(np.all(np.abs(setpoints(one)[boards] - one.spec.actuators.safe_pressure_pa) <= CONVERTER_PA))


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
    held = setpoints(active)
    time.sleep(0.5)
    assert np.allclose(setpoints(active), held, atol=CONVERTER_PA), "pressures move on an estimate that is none"
    assert np.abs(held - before).max() < 2e5
    for name in names:
        active.fleet[name].start()
    wait_for(lambda: state(active) == "active", 9.0, "the module is back")


def test_a_broker_that_restarts_is_bridged(active: SimulatedRobot) -> None:
    active.broker.stop()
    wait_for(lambda: state(active) == "degraded", 2.0, "the silence is noticed")
    active.broker._wanted_port = active.broker.port
    active.broker.start()
    wait_for(lambda: state(active) == "active", 9.5, "the link is back")


@pytest.mark.long
def test_a_broker_that_freezes_for_long_ends_in_the_safe_state(active: SimulatedRobot) -> None:
    pid = active.broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: state(active) == "safe", active.spec.safety.degraded_limit_s + 4.0, "degraded for too long")
        wait_for(lambda: at_safe_pressure(active), REACTION_S, "safe")
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.long
@pytest.mark.parametrize("name", ["strut03", "strut17"])
def test_one_strut_that_reboots_does_not_disturb(active: SimulatedRobot, name: str) -> None:
    assert active.fleet is not None
    active.fleet[name].restart()
    end = time.monotonic() + 6.0
    while time.monotonic() < end:
        assert state(active) == "active"
        time.sleep(0.1)
    assert active.status()["struts"]["online"] == 20


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
