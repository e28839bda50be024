"""The small worm on a flat floor: it can be planned for, and geometry limits how far a move takes it."""

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


def test_no_move_advances_the_body_by_more_than_its_stroke(crawl) -> None:
    """From one anchor two segments carry the links by 0, 6 and 12 cm at most: 6 cm in the mean."""
    spec, _, plan = crawl
    stroke = spec.segments.length_max_m - spec.segments.length_min_m
    x = np.array([state.frames[:, 0, 3] for state in plan.states])
    moves = np.diff(x, axis=0)
    tolerance = spec.pads.distance_tolerance_m
    assert moves.mean(axis=1).max() <= stroke + tolerance
    assert np.abs(moves).max() <= 2 * stroke + tolerance
    held = [a.attached & b.attached for a, b in zip(plan.states[:-1], plan.states[1:], strict=True)]
    assert np.abs(moves[np.array(held, dtype=bool)]).max() < 1e-6, "pads that hold do not move"
    assert x[-1].mean() - x[0].mean() > 0.2
