"""Degraded time is counted within a sliding window, exactly, whatever the pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.safety.degraded_time import DegradedTime

WINDOW_S = 60.0


def test_time_counts_while_it_lasts_and_leaves_the_window_behind() -> None:
    spent = DegradedTime(WINDOW_S)
    assert spent.spent_s(5.0) == 0.0
    spent.enter(10.0)
    assert spent.spent_s(14.0) == 4.0
    spent.leave(14.0)
    assert spent.spent_s(60.0) == 4.0
    assert spent.spent_s(72.0) == 2.0
    assert spent.spent_s(74.0) == 0.0


def test_a_person_who_arms_anew_starts_the_count_anew() -> None:
    spent = DegradedTime(WINDOW_S)
    spent.enter(0.0)
    spent.leave(9.0)
    spent.forget()
    assert spent.spent_s(9.0) == 0.0


def test_leaving_what_was_never_entered_is_nothing() -> None:
    spent = DegradedTime(WINDOW_S)
    spent.leave(3.0)
    assert spent.spent_s(3.0) == 0.0


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 20.0)), max_size=30))
def test_the_sum_is_that_of_the_parts_inside_the_window(pattern: list[tuple[float, float]]) -> None:
    spent, t_s, spans = DegradedTime(WINDOW_S), 0.0, []
    for bad_s, good_s in pattern:
        spent.enter(t_s)
        spent.leave(t_s + bad_s)
        spans.append((t_s, t_s + bad_s))
        t_s += bad_s + good_s
        expected = sum(max(0.0, end - max(begin, t_s - WINDOW_S)) for begin, end in spans)
        assert spent.spent_s(t_s) == pytest.approx(expected, abs=1e-9)
