"""The armed manipulator when sensors lie or fall silent: said by name, borne where it can be, never an unlimited pressure."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.safety.faults import Fault
from tests.link_support import Client, birth
from tests.robustness.whole_robot import FaultyRobot, forget_degraded, state, told, trouble, until_state, until_well, watch

STRUT = "strut09"
CHANNELS = {"all channels": None, "one axis": 3}
SHAKEN_M = 0.15  # the arm is 1.16 m long; pushes of up to 3 N move its tip by some 8 cm when all sensors are right


def shake(arm: FaultyRobot) -> None:
    assert arm.plant is not None
    arm.plant.ask("push_at_random", seed=5, peak_n=3.0)


def spoil(arm: FaultyRobot, kind: str, axis: int | None = None, strut: str = STRUT) -> None:
    assert arm.plant is not None
    arm.plant.ask("fault", strut=strut, kind=kind, axis=axis)


@pytest.mark.parametrize("which", [pytest.param("all channels"), pytest.param("one axis", marks=pytest.mark.long)])
def test_a_frozen_sensor_is_named_and_left_out_while_the_arm_is_shaken(active: FaultyRobot, which: str) -> None:
    shake(active)
    spoil(active, "frozen", CHANNELS[which])
    told(active, Fault.STRUT_FROZEN, STRUT, 5.0)
    assert watch(active, 1.0) < SHAKEN_M
    spoil(active, "none")
    until_well(active)


@pytest.mark.parametrize("which", [pytest.param("all channels"), pytest.param("one axis", marks=pytest.mark.long)])
def test_a_saturated_sensor_is_named_and_moves_nothing(active: FaultyRobot, which: str) -> None:
    spoil(active, "saturated", CHANNELS[which])
    told(active, Fault.STRUT_SATURATED, STRUT)
    assert watch(active, 1.5) < 0.1  # seen: 2 to 6 cm, until the strut is singled out
    spoil(active, "none")
    until_well(active)


@pytest.mark.parametrize("axis", [pytest.param(0), *(pytest.param(k, marks=pytest.mark.long) for k in (1, 2, 3, 4, 5))])
def test_a_flipped_axis_moves_the_arm_no_further_than_a_hand_does(active: FaultyRobot, axis: int) -> None:
    shake(active)
    spoil(active, "flipped", axis)
    assert watch(active, 3.0) < SHAKEN_M
    spoil(active, "none")
    until_well(active)


@pytest.mark.long
def test_a_strut_whose_lying_acceleration_contradicts_its_neighbours_is_named(active: FaultyRobot) -> None:
    spoil(active, "flipped", 2)  # along the strut: it says that it hangs head down
    told(active, Fault.STRUT_INCONSISTENT, STRUT, 10.0)
    assert watch(active, 1.0) < 0.05
    spoil(active, "none")
    until_well(active, 30.0)


def test_a_scale_that_is_no_number_costs_the_strut_until_it_is_asked_again(active: FaultyRobot) -> None:
    boot_id = 7
    bad = birth(9, boot_id, accel_scale=0.125).replace(b"0.125", b"NaN")
    client = Client(active.broker.port)
    client.publish(f"{active.spec.link.prefix}/v1/{STRUT}/state", bad, 1, retain=False)
    told(active, Fault.STRUT_PROBLEM, STRUT)
    assert watch(active, 1.0) < 0.05
    until_well(active)  # the board has been asked for its birth, and it is a good one
    client.close()


def test_one_strut_that_falls_silent_is_estimated_from_its_neighbours(active: FaultyRobot) -> None:
    assert active.fleet is not None
    active.fleet[STRUT].stop()
    told(active, Fault.STRUT_MISSING, STRUT)
    assert watch(active, 1.0) < 0.05
    active.fleet[STRUT].start()
    wait = {"strut_settling"}  # a gyro's bias is learnt while the arm is at rest; that may take a while
    until_state(active, "active", 5.0)
    watch(active, 2.0)
    assert trouble(active) <= wait | {"strut_missing", "strut_unsynchronised"}


@pytest.mark.long
@pytest.mark.parametrize("module", range(5))
def test_any_module_that_falls_silent_is_held_until_it_is_back(active: FaultyRobot, module: int) -> None:
    assert active.fleet is not None
    forget_degraded(active)
    names = active.spec.struts[4 * module : 4 * module + 4]
    for name in names:
        active.fleet[name].stop()
    until_state(active, "degraded", 2.0)
    told(active, Fault.MODULE_MISSING, f"module {module}")
    assert watch(active, 2.0, ("degraded",)) < 0.05
    for name in names:
        active.fleet[name].start()
    until_state(active, "active", 9.0)


def test_free_fall_is_noticed_and_survived_by_gyros(active: FaultyRobot) -> None:
    assert active.plant is not None
    active.plant.ask("weigh", share=0.0)
    told(active, Fault.FREE_FALL)
    watch(active, 1.5, ("active", "degraded"))
    active.plant.ask("weigh", share=1.0)
    until_well(active)


@pytest.mark.long
def test_ten_seconds_without_gravity_never_drive_the_arm_away(active: FaultyRobot) -> None:
    assert active.plant is not None
    active.plant.ask("weigh", share=0.0)
    assert watch(active, 10.0, ("active", "degraded", "safe")) < 0.2
    active.plant.ask("weigh", share=1.0)


@pytest.mark.long
def test_sensors_that_fail_one_after_the_other_end_held_or_safe(active: FaultyRobot) -> None:
    rng = np.random.default_rng(8)
    shake(active)
    for strut in rng.permutation(active.spec.struts).tolist():
        spoil(active, str(rng.choice(["frozen", "saturated", "flipped", "missing"])), strut=strut)
        assert watch(active, 0.7, ("active", "degraded", "safe", "fault")) < 0.3
    assert state(active) in ("degraded", "safe", "fault")
