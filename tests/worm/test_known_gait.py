"""The small worm on a flat floor: it can be planned for, and geometry limits how far three moves take it."""

from pathlib import Path

import numpy as np
import pytest

from onboard.clock import WallClock
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import load_scene
from onboard.planning.contact.search import search
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import load_worm


@pytest.fixture(scope="module")
def crawl(root: Path):
    spec = load_worm(root / "robots" / "worm_hardware.toml")
    room = load_scene(root / "robots" / "scenes" / "worm_floor_wall_ceiling.toml")
    root_frame = np.array([[0, 0, 1, 0.3], [0, -1, 0, 0.3], [1, 0, 0, 0.02]], dtype=float)
    shape = np.tile([0.09, 0.0, 0.0], (2, 1))
    frames = np.empty((3, 3, 4))
    chain(root_frame, shape, frames)
    start = State(frames, shape, np.ones(3, dtype=np.uint8))
    plan = search(spec, room, start, np.array([0.80, 0.3, 0.0]), WallClock(), budget_s=120.0)
    return spec, room, plan


def test_three_links_crawl_and_break_nothing(crawl) -> None:
    spec, room, plan = crawl
    assert plan.complete, plan.reason
    assert validate(spec, room, plan) == []


def test_three_moves_advance_the_body_by_6_cm_at_most(crawl) -> None:
    """Each link moves once while the one segment beside it changes its length by 6 cm at most (reference measurement)."""
    spec, _, plan = crawl
    stroke = spec.segments.length_max_m - spec.segments.length_min_m
    moves = [step for step in plan.steps if np.ptp(step.path, axis=0).max() > 1e-6]
    states = [plan.start, *(step.end for step in moves)]
    advance = [states[i + 3].frames[:, 0, 3].mean() - states[i].frames[:, 0, 3].mean() for i in range(len(states) - 3)]
    tolerance = 2 * spec.pads.distance_tolerance_m
    assert max(advance) <= stroke + tolerance
    assert np.mean(advance) > 0.01
