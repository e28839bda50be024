"""The monitor sets the right condition bits, says what and where, and comes back when trouble has gone."""

import dataclasses

import numpy as np
import pytest

from onboard.link.wire_types import BoardFault
from onboard.messages import BoardReport, EstimateFlag, PoseEstimate, SensorFlag, frozen
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.safety.monitor import ConditionMonitor, Inputs
from onboard.safety.table import GOOD, Condition

SPEC = load_robot(robot_file("manipulator"))
VALVES, LIMITS, TOWER = SPEC.actuators, SPEC.safety, SPEC.structure
EPOCH = 9


def estimate(t_s=10.0, **change):
    discs = TOWER.modules + 1
    position = np.zeros((discs, 3))
    position[:, 2] = TOWER.module_height_m * np.arange(discs)
    fields = {
        "t_s": t_s,
        "position_m": frozen(position),
        "rotation": frozen(np.tile(np.eye(3), (discs, 1, 1))),
        "cable_length_m": frozen(np.full(TOWER.cable_count, 0.25)),
        "cable_jacobian": frozen(np.zeros((TOWER.cable_count, 6 * TOWER.modules))),
        "covariance": frozen(np.eye(6 * TOWER.modules) * 1e-6),
        "strut_flags": np.zeros(TOWER.struts, dtype=np.int64),
        "age_s": 0.02,
        "flags": EstimateFlag.NONE,
    }
    return PoseEstimate(**{**fields, **change})


def reports(t_s=10.0, pressure=3.5e5, **change):
    fields = {
        "t_s": t_s,
        "boot_id": 1,
        "epoch": EPOCH,
        "armed": True,
        "latched": False,
        "stop_input": False,
        "fault": 0,
        "last_sequence": 0,
    }
    return [
        BoardReport(board=board.id, measured=frozen(np.full(board.channels, pressure)), **{**fields, **change})
        for board in VALVES.boards
    ]


def inputs(t_s=10.0, **change):
    fields = {"estimate": estimate(t_s), "reports": reports(t_s), "epoch": EPOCH, "issued_pa": np.full(40, 3.5e5)}
    return Inputs(t_s=t_s, **{**fields, **change})


def test_a_healthy_robot_has_good_news_only():
    monitor = ConditionMonitor(SPEC)
    for k in range(400):
        assert monitor.assess(inputs(10.0 + k * 0.025)) == GOOD
        assert monitor.details == {}


@pytest.mark.parametrize(
    ("change", "bit"),
    [
        ({"estimate": None}, Condition.ESTIMATE_LOST),
        ({"estimate": estimate(flags=EstimateFlag.LOST)}, Condition.ESTIMATE_LOST),
        ({"estimate": estimate(flags=EstimateFlag.UNCERTAIN)}, Condition.ESTIMATE_UNCERTAIN),
        ({"estimate": estimate(covariance=frozen(np.eye(30) * 0.01))}, Condition.ESTIMATE_UNCERTAIN),
        ({"estimate": estimate(flags=EstimateFlag.WARPED)}, Condition.RING_WARPED),
        ({"estimate": estimate(t_s=10.0 - LIMITS.estimate_max_age_ms / 1000)}, Condition.ESTIMATE_OLD),
        ({"estimate": estimate(age_s=LIMITS.estimate_max_age_ms / 1000 + 0.001)}, Condition.ESTIMATE_OLD),
        ({"estimate": estimate(position_m=frozen(np.full((6, 3), np.nan)))}, Condition.NOT_A_NUMBER),
        ({"estimate": estimate(covariance=frozen(np.full((30, 30), np.inf)))}, Condition.NOT_A_NUMBER),
        ({"estimate": estimate(age_s=float("nan"))}, Condition.NOT_A_NUMBER),
        ({"not_finite": True}, Condition.NOT_A_NUMBER),
        ({"link_down": True}, Condition.LINK_DOWN),
        ({"recorder_failed": True}, Condition.RECORDER_FAILED),
        ({"degraded_s": LIMITS.degraded_budget_s + 0.01}, Condition.DEGRADED_OFTEN),
        ({"problems": {"strut03": "runs 'valve' firmware"}}, Condition.STRUT_PROBLEM),
    ],
)
def test_each_trouble_sets_its_own_bit_and_no_other(change, bit):
    assert ConditionMonitor(SPEC).assess(inputs(**change)) == GOOD | bit


def test_tilt_is_the_angle_of_the_last_disc_whatever_the_others_do():
    for tilt_deg, beyond in ((LIMITS.max_tilt_deg - 1.0, False), (LIMITS.max_tilt_deg + 1.0, True), (180.0, True)):
        rotation = np.tile(np.eye(3), (6, 1, 1))
        c, s = np.cos(np.radians(tilt_deg)), np.sin(np.radians(tilt_deg))
        rotation[-1] = [[1, 0, 0], [0, c, -s], [0, s, c]]
        bits = ConditionMonitor(SPEC).assess(inputs(estimate=estimate(rotation=frozen(rotation))))
        assert bool(bits & Condition.TILT_LIMIT) is beyond


@pytest.mark.parametrize(
    ("flag", "bit"),
    [
        (SensorFlag.STALE, Condition.STRUT_MISSING),
        (SensorFlag.MISSING, Condition.STRUT_MISSING),
        (SensorFlag.NOT_FINITE, Condition.STRUT_MISSING),
        (SensorFlag.FROZEN, Condition.STRUT_FROZEN),
        (SensorFlag.SATURATED, Condition.STRUT_SATURATED),
        (SensorFlag.INCONSISTENT, Condition.STRUT_INCONSISTENT),
        (SensorFlag.BUS_ERROR, Condition.STRUT_BUS_ERROR),
        (SensorFlag.SETTLING, Condition.STRUT_SETTLING),
        (SensorFlag.UNSYNCHRONISED, Condition.STRUT_UNSYNCHRONISED),
    ],
)
def test_a_strut_with_a_flag_is_named(flag, bit):
    flags = np.zeros(20, dtype=np.int64)
    flags[7] = int(flag)
    monitor = ConditionMonitor(SPEC)
    assert monitor.assess(inputs(estimate=estimate(strut_flags=flags))) == GOOD | bit
    assert monitor.details[bit] == SPEC.struts[7]


def test_a_module_counts_as_missing_when_fewer_than_two_of_its_struts_are_usable():
    for missing, module_gone in ((2, False), (3, True), (4, True)):
        flags = np.zeros(20, dtype=np.int64)
        flags[8 : 8 + missing] = int(SensorFlag.STALE)
        monitor = ConditionMonitor(SPEC)
        bits = monitor.assess(inputs(estimate=estimate(strut_flags=flags)))
        assert bool(bits & Condition.MODULE_MISSING) is module_gone
        if module_gone:
            assert monitor.details[Condition.MODULE_MISSING] == "module 2"
    spread = np.zeros(20, dtype=np.int64)
    spread[::4] = int(SensorFlag.STALE)
    assert not ConditionMonitor(SPEC).assess(inputs(estimate=estimate(strut_flags=spread))) & Condition.MODULE_MISSING


def test_free_fall_is_something_that_most_struts_feel():
    for falling, fall in ((10, False), (11, True)):
        flags = np.zeros(20, dtype=np.int64)
        flags[:falling] = int(SensorFlag.FREE_FALL)
        bits = ConditionMonitor(SPEC).assess(inputs(estimate=estimate(strut_flags=flags)))
        assert bool(bits & Condition.FREE_FALL) is fall


@pytest.mark.parametrize(
    ("change", "bits", "lost"),
    [
        ({"latched": True}, Condition.BOARD_LATCHED, Condition.BOARDS_ARMED),
        ({"armed": False}, Condition.NONE, Condition.BOARDS_ARMED),
        ({"epoch": EPOCH - 1}, Condition.NONE, Condition.BOARDS_ARMED),
        ({"stop_input": True}, Condition.STOP_INPUT, Condition.NONE),
        ({"ready": False}, Condition.NONE, Condition.BOARDS_READY),
        ({"fault": int(BoardFault.OUTPUT)}, Condition.BOARD_OUTPUT, Condition.BOARDS_READY),
        ({"fault": int(BoardFault.MEASUREMENT)}, Condition.BOARD_OUTPUT, Condition.BOARDS_READY),
        ({"fault": int(BoardFault.UNCONFIGURED)}, Condition.BOARD_UNCONFIGURED, Condition.BOARDS_READY),
        ({"t_s": 10.0 - LIMITS.board_silence_ms / 1000 - 0.001}, Condition.BOARD_SILENT, GOOD),
    ],
)
def test_what_one_board_reports_is_told_with_its_name(change, bits, lost):
    told = reports()
    told[3] = dataclasses.replace(told[3], **change)
    monitor = ConditionMonitor(SPEC)
    assert monitor.assess(inputs(reports=told)) == (GOOD & ~lost) | bits
    if bits:
        assert VALVES.boards[3].id in monitor.details[bits]
    if lost & Condition.BOARDS_ARMED and not bits & Condition.BOARD_SILENT:
        assert VALVES.boards[3].id in monitor.details[Condition.BOARDS_ARMED]  # for who waits for it to arm


def test_problems_of_struts_are_told_before_there_is_any_estimate():
    monitor = ConditionMonitor(SPEC)
    bits = monitor.assess(inputs(estimate=None, problems={"strut03": "sensor: no answer", "strut07": "two boards"}))
    assert bits & Condition.STRUT_PROBLEM
    assert monitor.details[Condition.STRUT_PROBLEM] == "strut03: sensor: no answer; strut07: two boards"


def test_a_module_whose_clocks_are_unknown_counts_as_missing():
    flags = np.zeros(20, dtype=np.int64)
    flags[4:7] = int(SensorFlag.UNSYNCHRONISED)
    assert ConditionMonitor(SPEC).assess(inputs(estimate=estimate(strut_flags=flags))) & Condition.MODULE_MISSING


def test_a_board_that_was_never_heard_is_silent():
    monitor = ConditionMonitor(SPEC)
    bits = monitor.assess(inputs(reports=reports()[:-1]))
    assert bits == Condition.BOARD_SILENT
    assert monitor.details[Condition.BOARD_SILENT] == "valve4 never heard"


def test_a_pressure_must_be_off_for_the_whole_time_out_before_it_counts():
    monitor, period_s = ConditionMonitor(SPEC), 0.025
    timeout_s = VALVES.tracking_timeout_ms / 1000.0
    off = np.full(8, 3.5e5)
    off[5] += VALVES.max_tracking_error_pa + 1.0

    def at(t_s, measured):
        told = reports(t_s)
        told[2] = dataclasses.replace(told[2], measured=frozen(measured))
        return monitor.assess(inputs(t_s, reports=told))

    t_s = 10.0
    at(t_s, np.full(8, 3.5e5))
    for _ in range(3):  # nearly too long, then right again for a moment
        for _ in range(int(timeout_s / period_s) - 1):
            t_s += period_s
            assert not at(t_s, off) & Condition.PRESSURE_NOT_FOLLOWING
        t_s += period_s
        assert at(t_s, np.full(8, 3.5e5)) == GOOD
    began_s = t_s
    while not at(t_s, off) & Condition.PRESSURE_NOT_FOLLOWING:
        t_s += period_s
        assert t_s - began_s < timeout_s + 3 * period_s
    assert t_s - began_s > timeout_s
    assert monitor.details[Condition.PRESSURE_NOT_FOLLOWING].startswith("valve2 channel 5")


def test_a_measured_pressure_that_is_not_a_number_does_not_follow():
    monitor, t_s = ConditionMonitor(SPEC), 10.0
    bits = Condition.NONE
    for k in range(60):
        t_s = 10.0 + k * 0.025
        told = reports(t_s)
        told[0] = dataclasses.replace(told[0], measured=frozen(np.full(8, np.nan if k else 3.5e5)))
        bits = monitor.assess(inputs(t_s, reports=told))
    assert bits & Condition.PRESSURE_NOT_FOLLOWING


def test_nothing_needs_to_follow_while_nothing_is_sent():
    monitor = ConditionMonitor(SPEC)
    for k in range(200):
        t_s = 10.0 + k * 0.025
        assert monitor.assess(inputs(t_s, reports=reports(t_s, pressure=1e5), issued_pa=None)) == GOOD


def test_overload_is_a_share_of_missed_ticks_over_a_second_and_goes_away():
    monitor = ConditionMonitor(SPEC)
    ticks = overruns = 0
    seen = []
    for k in range(400):
        t_s = 10.0 + k * 0.025
        missing = 3 <= k * 0.025 < 6
        ticks, overruns = ticks + (3 if missing else 5), overruns + (2 if missing else 0)
        bits = monitor.assess(inputs(t_s, ticks=ticks, overruns=overruns))
        seen.append((k * 0.025, bool(bits & Condition.LOOP_OVERLOAD)))
    assert not any(over for t, over in seen if t < 3)
    assert all(over for t, over in seen if 5.1 < t < 5.9)
    assert not any(over for t, over in seen if t > 8.1)


def test_a_few_refused_packets_are_nothing_and_many_are_a_warning():
    for per_tick, warned in ((0.2, False), (1.0, True)):
        monitor, bits = ConditionMonitor(SPEC), Condition.NONE
        for k in range(100):
            bits = monitor.assess(inputs(10.0 + k * 0.025, packets_refused=int(k * per_tick)))
        assert bool(bits & Condition.PACKETS_REFUSED) is warned


def test_a_robot_without_actuators_has_no_boards_to_miss():
    rig = load_robot(robot_file("module_rig"))
    assert ConditionMonitor(rig).assess(Inputs(t_s=1.0, estimate=None)) == Condition.ESTIMATE_LOST
