"""One manipulator for all tests that need a whole one: brought up once, mended and armed again before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hil.support import ready, wait_for
from tests.robustness.speed import WHOLE_ARM_S, loop_s
from tests.robustness.whole_robot import FaultyRobot, bring_to_active, robot_with_faults, until_still


@pytest.fixture(scope="session")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRobot]:
    """Skips where plant, boards, broker and daemon together cannot keep real time: nothing would be learnt of a fault there."""
    if (taken_s := loop_s()) > WHOLE_ARM_S:
        pytest.skip(
            f"too slow or busy for the whole arm: a loop takes {1e3 * taken_s:.0f} ms, {1e3 * WHOLE_ARM_S:.0f} ms at most"
        )
    with robot_with_faults(tmp_path_factory.mktemp("arm")) as one:
        wait_for(lambda: ready(one), 90.0, "the arm comes up")
        yield one


@pytest.fixture
def active(arm: FaultyRobot) -> FaultyRobot:
    """The arm, ready and active, whatever the last test did to it."""
    arm.heal()
    bring_to_active(arm)
    until_still(arm)
    return arm
