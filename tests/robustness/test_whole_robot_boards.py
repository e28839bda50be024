"""The armed manipulator when valve boards, cables or valves fail: the safe pressure within the robot file's deadlines."""

from __future__ import annotations

import time

import numpy as np
import pytest

from onboard.safety.faults import Fault
from tests.hil.support import wait_for
from tests.robustness.whole_robot import (
    CABLED,
    REACTION_S,
    FaultyRobot,
    accepted,
    at_safe_pressure,
    setpoints,
    state,
    told,
    until_state,
    watch,
)


def test_a_cable_pulled_in_the_middle_of_a_write_stops_all_boards(active: FaultyRobot) -> None:
    active.cable.to_board = lambda data: data[: len(data) // 2]
    time.sleep(0.02)
    active.cable.unplug()
    until_state(active, "safe", 1.0)
    told(active, Fault.BOARD_SILENT, CABLED)
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "boards with and without a cable are safe")
    active.cable.to_board = lambda data: data
    active.cable.plug()
    wait_for(lambda: active.status()["boards"][CABLED]["age_ms"] < 300.0, 5.0, "the board is heard again")
    assert active.status()["boards"][CABLED]["latched"] and state(active) == "safe"
    assert at_safe_pressure(active), "a cable that is back moves nothing"


def test_a_noisy_cable_costs_frames_and_is_never_a_pressure(active: FaultyRobot) -> None:
    rng = np.random.default_rng(5)

    def disturb(data: bytes) -> bytes:
        noisy = bytearray(data)
        for at in np.flatnonzero(rng.random(len(noisy)) < 0.002):
            noisy[at] ^= 1 << rng.integers(8)
        return bytes(noisy)

    before = setpoints(active)
    active.cable.to_board = active.cable.to_host = disturb
    watch(active, 2.0, ("active", "safe"))
    if state(active) == "active":
        assert setpoints(active) == pytest.approx(before, abs=5e4)
        wait_for(lambda: "crc" in active.status()["boards"][CABLED]["refused"], 3.0, "the board counts what it refuses")


def test_commands_that_come_again_later_are_refused(active: FaultyRobot) -> None:
    recorded: list[bytes] = []

    def tap(data: bytes) -> bytes:
        recorded.append(data)
        return data

    active.cable.to_board = tap
    time.sleep(0.5)
    active.cable.to_board = lambda data: data
    late = b"".join(recorded)
    active.ask("stop")
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "stopped")
    active.cable.say_to_board(late)
    time.sleep(0.3)
    assert at_safe_pressure(active), "a command from before the stop has moved something"
    wait_for(lambda: accepted(active, "reset") or state(active) == "disarmed", 2.0, "reset")
    wait_for(lambda: accepted(active, "arm") or state(active) == "active", 5.0, "armed anew")
    until_state(active, "active", 5.0)
    active.cable.say_to_board(late)
    watch(active, 0.5)
    wait_for(lambda: bool(set(active.status()["boards"][CABLED]["refused"]) & {"age", "sequence", "epoch"}), 3.0, "refused")


def test_valves_that_stick_are_a_fault_that_names_the_board(active: FaultyRobot) -> None:
    assert active.plant is not None and active.spec.actuators is not None
    active.ask("disarm")
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "disarmed")
    time.sleep(0.5)  # the valves' own time
    active.plant.ask("jam", board="valve3", jammed=True)
    wait_for(lambda: accepted(active, "arm"), 5.0, "armed")
    wait_for(lambda: accepted(active, "hand"), 5.0, "the arm asks for its rest pressure")
    told(active, Fault.PRESSURE_NOT_FOLLOWING, "valve3", 8.0)
    assert state(active) == "fault"
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "all boards are told the safe pressure")


def test_a_board_that_has_just_booted_is_armed_at_the_first_request_that_is_accepted(active: FaultyRobot) -> None:
    assert active.fleet is not None
    active.ask("disarm")
    active.fleet["valve1"].restart()
    wait_for(lambda: not active.status()["boards"]["valve1"]["ready"], 3.0, "the restart is noticed")
    wait_for(lambda: accepted(active, "arm"), 8.0, "armed as soon as it is ready")
    until_state(active, "active", 2.0)
    assert Fault.ARMING_FAILED.value not in active.said()


@pytest.mark.long
def test_a_board_that_hangs_is_reset_by_its_watchdog_and_comes_back_latched(active: FaultyRobot) -> None:
    assert active.fleet is not None
    active.fleet["valve2"].freeze()
    until_state(active, "safe", 1.5)
    told(active, Fault.BOARD_SILENT, "valve2")
    others = np.r_[0:16, 24:40]
    wait_for(lambda: bool(np.all(np.abs(setpoints(active)[others] - 2e5) <= 150.0)), REACTION_S, "the others are safe")
    wait_for(lambda: active.status()["boards"]["valve2"]["age_ms"] < 300.0, 15.0, "the watchdog has reset it")
    assert active.status()["boards"]["valve2"]["latched"]
    wait_for(lambda: at_safe_pressure(active), REACTION_S, "it is safe as well")
