"""The faults by name, each with one line for a person; docs/faults/<name>.md says what to do about it."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """Names of faults; the value is also the name of the page in docs/faults."""

    ESTIMATE_OLD = "estimate_old"
    ESTIMATE_UNCERTAIN = "estimate_uncertain"
    ESTIMATE_LOST = "estimate_lost"
    MODULE_MISSING = "module_missing"
    STRUT_MISSING = "strut_missing"
    STRUT_FROZEN = "strut_frozen"
    STRUT_SATURATED = "strut_saturated"
    STRUT_INCONSISTENT = "strut_inconsistent"
    STRUT_BUS_ERROR = "strut_bus_error"
    STRUT_SETTLING = "strut_settling"
    STRUT_UNSYNCHRONISED = "strut_unsynchronised"
    STRUT_PROBLEM = "strut_problem"
    FREE_FALL = "free_fall"
    RING_WARPED = "ring_warped"
    TILT_LIMIT = "tilt_limit"
    NOT_A_NUMBER = "not_a_number"
    BOARD_SILENT = "board_silent"
    BOARD_LATCHED = "board_latched"
    BOARD_OUTPUT = "board_output"
    BOARD_UNCONFIGURED = "board_unconfigured"
    STOP_INPUT = "stop_input"
    STOP_REQUEST = "stop_request"
    PRESSURE_NOT_FOLLOWING = "pressure_not_following"
    ARMING_FAILED = "arming_failed"
    DEGRADED_TOO_LONG = "degraded_too_long"
    DEGRADED_OFTEN = "degraded_often"
    LOOP_OVERLOAD = "loop_overload"
    LINK_DOWN = "link_down"
    PACKETS_REFUSED = "packets_refused"
    RECORDER_FAILED = "recorder_failed"
    PLAN_EXPIRED = "plan_expired"
    ROBOT_STUCK = "robot_stuck"
    ROBOT_TIPPED = "robot_tipped"


LINES: dict[Fault, str] = {
    Fault.ESTIMATE_OLD: "the pose estimate is older than the robot's file allows",
    Fault.ESTIMATE_UNCERTAIN: "the pose estimate is too uncertain to control with",
    Fault.ESTIMATE_LOST: "there is no pose estimate to stand on",
    Fault.MODULE_MISSING: "too few struts of one module send usable data",
    Fault.STRUT_MISSING: "a strut sends nothing; its module is estimated from the others",
    Fault.STRUT_FROZEN: "a strut repeats the same samples while the robot moves; it is left out",
    Fault.STRUT_SATURATED: "a strut's sensor sits at the end of its range",
    Fault.STRUT_INCONSISTENT: "a strut contradicts its neighbours (turned or swapped sensor?); it is left out",
    Fault.STRUT_BUS_ERROR: "a strut's board reports errors on its sensor bus",
    Fault.STRUT_SETTLING: "a strut's gyro bias is not known yet; the robot must stand still for a few seconds",
    Fault.STRUT_UNSYNCHRONISED: "a strut's clock is not known; what it sends may be older than it seems and is left out",
    Fault.STRUT_PROBLEM: "a strut's board has a problem that a person must see to",
    Fault.FREE_FALL: "struts feel no gravity; inclination comes from gyros alone",
    Fault.RING_WARPED: "a ring is not flat; pose and lengths are less exact than usual",
    Fault.TILT_LIMIT: "the tip is tilted beyond the robot's limit",
    Fault.NOT_A_NUMBER: "a value in the control path is not a number",
    Fault.BOARD_SILENT: "an actuator board does not report",
    Fault.BOARD_LATCHED: "an actuator board has latched in its safe state",
    Fault.BOARD_OUTPUT: "an actuator board's output or measuring hardware does not answer",
    Fault.BOARD_UNCONFIGURED: "an actuator board has no configuration yet",
    Fault.STOP_INPUT: "the hard-wired stop is pressed",
    Fault.STOP_REQUEST: "a client asked to stop",
    Fault.PRESSURE_NOT_FOLLOWING: "a measured pressure does not follow its set-point",
    Fault.ARMING_FAILED: "not every actuator board confirmed arming in time",
    Fault.DEGRADED_TOO_LONG: "the degraded state lasted longer than the robot's file allows",
    Fault.DEGRADED_OFTEN: "the degraded state came back too often for the robot's file",
    Fault.LOOP_OVERLOAD: "the control loops miss too many of their ticks",
    Fault.LINK_DOWN: "the broker cannot be reached",
    Fault.PACKETS_REFUSED: "packets are refused (wrong version, damaged, repeated or out of time)",
    Fault.RECORDER_FAILED: "the recording cannot be written; control goes on without it",
    Fault.PLAN_EXPIRED: "the last plan is over and no new one has come",
    Fault.ROBOT_STUCK: "the robot winds but does not get anywhere",
    Fault.ROBOT_TIPPED: "the robot stands on its end",
}


def page(fault: Fault) -> str:
    """The page about a fault, relative to the project's root."""
    return f"docs/faults/{fault.value}.md"


def line(fault: Fault, detail: str = "") -> str:
    """One line for a person: what it is, the particulars, and where to read on."""
    what = LINES[fault] + (f" ({detail})" if detail else "")
    return f"{what} -> {page(fault)}"
