"""Every scene, random starts: whatever a planner returns, complete or not, breaks no constraint."""

from pathlib import Path

import pytest

from onboard.clock import WallClock
from onboard.planning.contact.guide import make_guide
from onboard.planning.contact.library import collect
from onboard.planning.contact.retrieval import PrimitiveExpander
from onboard.planning.contact.search import search
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import load_worm
from sim.worm.common import find_scene
from sim.worm.discrete import DiscreteExpander
from sim.worm.tasks import TUNING_SEED, draw_task

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", ["floor_wall_ceiling", "clutter", "ridge"])
def test_no_plan_of_any_planner_breaks_a_constraint(root: Path, name: str) -> None:
    spec, scene = load_worm(root / "robots/worm.toml"), find_scene(name)
    task = draw_task(scene, spec, TUNING_SEED)
    guide = make_guide(scene, spec, task.start.frames[:, :, 3], task.goal)
    first = search(spec, scene, task.start, task.goal, WallClock(), budget_s=30.0, guide=guide)
    assert validate(spec, scene, first) == []
    assert len(first.steps) >= 8
    library = collect(spec, [(first, guide)])
    for make in (
        lambda blocks: PrimitiveExpander(blocks, library),
        lambda blocks: PrimitiveExpander(blocks, library, mend=False, fall_back=False),
        lambda blocks: DiscreteExpander(blocks),
    ):
        other = draw_task(scene, spec, TUNING_SEED + 1)
        plan = search(spec, scene, other.start, other.goal, WallClock(), budget_s=10.0, expand_with=make)
        assert validate(spec, scene, plan) == []


def test_replaying_its_own_library_a_plan_needs_no_solving(root: Path) -> None:
    spec, scene = load_worm(root / "robots/worm.toml"), find_scene("floor_wall_ceiling")
    task = draw_task(scene, spec, TUNING_SEED, straight=True)
    guide = make_guide(scene, spec, task.start.frames[:, :, 3], task.goal)
    first = search(spec, scene, task.start, task.goal, WallClock(), budget_s=60.0, guide=guide)
    assert first.complete
    library = collect(spec, [(first, guide)])
    again = search(
        spec, scene, task.start, task.goal, WallClock(), budget_s=60.0, guide=guide,
        expand_with=lambda blocks: PrimitiveExpander(blocks, library),
    )  # fmt: skip
    assert again.complete and validate(spec, scene, again) == []
    assert again.statistics["ik_calls"] < 0.2 * first.statistics["ik_calls"]
