"""Requests for lost birth messages: patient at first, never a flood, over when the birth has come."""

from __future__ import annotations

import itertools

from onboard.link.birth_requests import FIRST_S, LONGEST_S, PATIENCE_S, BirthRequests


def asked(requests: BirthRequests, until_s: float, wanted: bool = True, from_s: float = 0.0) -> list[float]:
    """When strut 1 of three is asked, looked at every 20 ms."""
    times = []
    for k in range(round((until_s - from_s) / 0.02)):
        now_s = from_s + 0.02 * k
        chosen = requests.due(now_s, lambda strut: wanted and strut == 1)
        assert chosen in ([], [1])
        times += [now_s] if chosen else []
    return times


def test_a_birth_on_its_way_is_waited_for() -> None:
    requests = BirthRequests(3)
    assert asked(requests, PATIENCE_S - 0.02) == []
    assert asked(requests, 5.0, wanted=False, from_s=PATIENCE_S) == []


def test_pauses_double_up_to_the_longest() -> None:
    times = asked(BirthRequests(3), 200.0)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert abs(times[0] - PATIENCE_S) < 0.03
    assert all(abs(pause - min(FIRST_S * 2**k, LONGEST_S)) < 0.03 for k, pause in enumerate(pauses))
    assert abs(pauses[-1] - LONGEST_S) < 0.03


def test_after_an_answer_the_next_loss_is_asked_for_soon() -> None:
    requests = BirthRequests(3)
    asked(requests, 60.0)
    asked(requests, 61.0, wanted=False, from_s=60.0)
    assert abs(asked(requests, 70.0, from_s=61.0)[0] - 61.0 - PATIENCE_S) < 0.03
