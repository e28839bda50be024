"""The motor governor lets out what is finite, in range, within the cable's travel, fresh and allowed, or standstill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from onboard.messages import BoardReport, Setpoints, frozen
from onboard.safety.motor_governor import LONGEST_STEP_S, MotorGovernor, MotorLimits
from onboard.safety.table import State

LIMITS = MotorLimits(motors=6, slew_per_s=10.0, rest_min_u=0.4, rest_max_u=2.7, ttl_s=0.1)
MIDDLE = np.full(6, 1.5)


class Sink:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.sent: list[Setpoints] = []
        self.orders: list[str] = []

    def arm(self, epoch: int) -> None:
        self.orders.append(f"arm {epoch}")

    def disarm(self) -> None:
        self.orders.append("disarm")

    def stop(self) -> None:
        self.orders.append("stop")

    def send(self, setpoints: Setpoints) -> None:
        self.sent.append(setpoints)

    def reports(self) -> Sequence[BoardReport]:
        return []


def wish(t_s: float, *values: float) -> Setpoints:
    return Setpoints(t_s, frozen(np.resize(values, 6)), "plan")


def governed() -> tuple[MotorGovernor, Sink]:
    sink = Sink()
    governor = MotorGovernor(LIMITS, sink)
    governor.issue(0.0, wish(0.0, 0.0), MIDDLE, State.ACTIVE)
    return governor, sink


@pytest.mark.parametrize("state", [State.DISARMED, State.SAFE, State.FAULT, State.TEACHING])
def test_nothing_is_sent_where_nothing_may_move(state: State) -> None:
    governor, sink = governed()
    assert governor.issue(0.01, wish(0.01, 1.0), MIDDLE, state) is None
    assert len(sink.sent) == 1 and governor.counts.blocked == 1


@pytest.mark.parametrize("state", [State.ARMING, State.DEGRADED])
def test_motors_are_off_while_arming_and_degraded_whatever_is_wished(state: State) -> None:
    governor, sink = governed()
    governor.issue(0.01, wish(0.01, 0.1), MIDDLE, State.ACTIVE)
    governor.issue(0.02, wish(0.02, 1.0), MIDDLE, state)
    assert np.all(sink.sent[-1].value == 0.0)


def test_a_wish_beyond_full_speed_is_clipped_and_approached_at_the_slew() -> None:
    governor, sink = governed()
    governor.issue(0.01, wish(0.01, 5.0), MIDDLE, State.ACTIVE)
    assert sink.sent[-1].value == pytest.approx(0.1) and governor.counts.clamped == 6
    governor.issue(30.0, wish(30.0, 5.0), MIDDLE, State.ACTIVE)
    assert sink.sent[-1].value == pytest.approx(0.1 + 10.0 * LONGEST_STEP_S), "a long gap earns no bigger step"


def test_a_wish_that_is_not_finite_of_another_shape_or_old_becomes_standstill() -> None:
    governor, sink = governed()
    for t_s, bad in ((0.01, wish(0.01, np.nan)), (0.02, wish(np.nan, 0.1)), (0.03, Setpoints(0.03, frozen([0.1]), "x"))):
        governor.issue(t_s, bad, MIDDLE, State.ACTIVE)
        assert np.all(sink.sent[-1].value == 0.0)
    governor.issue(0.2, wish(0.05, 0.1), MIDDLE, State.ACTIVE)
    governor.issue(0.21, wish(0.3, 0.1), MIDDLE, State.ACTIVE)
    assert np.all(sink.sent[-1].value == 0.0)
    counts = governor.counts
    assert (counts.not_finite, counts.wrong_shape, counts.expired) == (2, 1, 2)


def test_a_cable_at_its_end_is_not_driven_further_but_back() -> None:
    governor, sink = governed()
    rest_u = np.array([0.4, 0.401, 2.7, 2.699, 1.5, np.nan])
    governor.issue(0.01, wish(0.01, 0.1, 0.1, -0.1, -0.1, 0.1, 0.1), rest_u, State.ACTIVE)
    assert sink.sent[-1].value == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.1, 0.0])
    governor.issue(0.02, wish(0.02, -0.1, -0.1, 0.1, 0.1, 0.1, 0.1), rest_u, State.ACTIVE)
    assert sink.sent[-1].value == pytest.approx([-0.1, -0.1, 0.1, 0.1, 0.1, 0.0])


def test_without_rest_lengths_nothing_turns() -> None:
    governor, sink = governed()
    governor.issue(0.01, wish(0.01, 0.1), None, State.ACTIVE)
    assert np.all(sink.sent[-1].value == 0.0)


def test_what_was_issued_cannot_be_changed_by_who_reads_it() -> None:
    governor, sink = governed()
    for array in (governor.issued, sink.sent[-1].value):
        with pytest.raises(ValueError):
            array[0] = 1.0
