"""The warm-started baseline crawls with the same checks as everybody: what it returns is legal, however short."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.planning.contact.library import load_library
from onboard.planning.contact.search import search
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import load_worm
from sim.worm.common import ProcessorClock, find_scene
from sim.worm.tasks import draw_task
from sim.worm.warmstart import STRETCH, WarmstartExpander


@pytest.mark.long
@pytest.mark.timeout(900)
def test_stretches_of_optimised_primitives_lead_on_and_break_nothing(root: Path) -> None:
    spec, scene = load_worm(root / "robots/worm.toml"), find_scene("ridge")
    library = load_library(root / "models_onnx/worm/primitives.npz", spec)
    task = draw_task(scene, spec, 1000)
    made: list[WarmstartExpander] = []

    def stretches(blocks):
        made.append(WarmstartExpander(blocks, library))
        return made[-1]

    plan = search(spec, scene, task.start, task.goal, ProcessorClock(), budget_s=4.0, expand_with=stretches)
    assert plan.steps
    beginning = replace(plan, steps=plan.steps[:16], complete=False)  # the validator is slower than the planner
    assert validate(spec, scene, beginning) == []
    counts = made[0].primitives.counts
    assert counts.mended > 0 and counts.queries == counts.mended + counts.searched
    assert len(plan.steps) <= plan.statistics["expansions"] * STRETCH * library.moves.shape[1]
    ahead = np.linalg.norm(plan.steps[-1].end.frames[-1, :, 3] - task.start.frames[-1, :, 3])
    assert ahead > 0.02, "the head has not moved on"
