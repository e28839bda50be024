"""Whole plans: found, judged by an independent validator, refused by name, and never invalid when time runs out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.clock import SimulatedClock, WallClock
from onboard.errors import ModelError, PlanningError
from onboard.planning.contact.body import make_body
from onboard.planning.contact.guide import make_guide
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.library import Library, collect, load_library, save_library
from onboard.planning.contact.plan import Plan, State, Step, load_plan, save_plan
from onboard.planning.contact.retrieval import PrimitiveExpander
from onboard.planning.contact.scene import load_scene
from onboard.planning.contact.search import search
from onboard.planning.contact.start import check_start
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import load_worm

GOAL = np.array([0.86, 0.3, 0.0])


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm.toml")


@pytest.fixture(scope="module")
def room(root: Path):
    return load_scene(root / "robots" / "scenes" / "worm_floor_wall_ceiling.toml")


def lying(spec, x: float = 0.3, bend: float = 0.0, height: float = 0.02) -> State:
    """A worm on the floor heading along x, all pads attached."""
    n = spec.links.count - 1
    root_frame = np.array([[0, 0, 1, x], [0, -1, 0, 0.3], [1, 0, 0, height]], dtype=float)
    shape = np.tile([0.09, bend, 0.0], (n, 1))
    frames = np.empty((n + 1, 3, 4))
    chain(root_frame, shape, frames)
    return State(frames, shape, np.ones(n + 1, dtype=np.uint8))


@pytest.fixture(scope="module")
def crawl(spec, room) -> Plan:
    return search(spec, room, lying(spec), GOAL, WallClock(), budget_s=240.0)


def test_a_crawl_along_the_floor_is_found_and_breaks_nothing(spec, room, crawl: Plan) -> None:
    assert crawl.complete, crawl.reason
    assert np.linalg.norm(crawl.states[-1].frames[-1, :, 3] - GOAL) <= spec.search.goal_radius_m
    assert validate(spec, room, crawl) == []
    assert crawl.statistics["ik_calls"] > 0 and crawl.statistics["expansions"] > 0


def test_one_pad_at_most_lets_go_and_one_at_most_takes_hold_per_step(crawl: Plan) -> None:
    for before, after in zip(crawl.states[:-1], crawl.states[1:], strict=True):
        change = after.attached.astype(int) - before.attached.astype(int)
        assert np.sum(change == 1) <= 1 and np.sum(change == -1) <= 1
        assert np.any(before.attached & after.attached)


def test_the_same_start_gives_the_same_plan(spec, room, crawl: Plan) -> None:
    again = search(spec, room, lying(spec), GOAL, WallClock(), budget_s=240.0)
    assert [s.end.mode for s in again.steps] == [s.end.mode for s in crawl.steps]
    np.testing.assert_array_equal(again.states[-1].frames, crawl.states[-1].frames)


def test_a_plan_survives_its_file(crawl: Plan, spec, room, tmp_path: Path) -> None:
    save_plan(crawl, tmp_path / "plan.json")
    again = load_plan(tmp_path / "plan.json")
    assert len(again.steps) == len(crawl.steps) and again.complete
    np.testing.assert_array_equal(again.steps[-1].path, crawl.steps[-1].path)
    with pytest.raises(PlanningError, match="not a plan"):
        (tmp_path / "bad.json").write_text("{}")
        load_plan(tmp_path / "bad.json")


def changed(plan: Plan, index: int, **fields) -> Plan:
    """The plan with one step changed."""
    step = plan.steps[index]
    values = {"path": step.path, "end": step.end, "released": step.released, "attached": step.attached} | fields
    steps = (*plan.steps[:index], Step(**values), *plan.steps[index + 1 :])
    return Plan(**(plan.__dict__ | {"steps": steps}))


def broken_by(spec, room, plan: Plan) -> set[str]:
    return {violation.constraint for violation in validate(spec, room, plan)}


def test_the_validator_sees_each_kind_of_damage(spec, room, crawl: Plan) -> None:
    moving = next(i for i, s in enumerate(crawl.steps) if s.attached >= 0 and np.ptp(s.path, axis=0).max() > 1e-3)
    step = crawl.steps[moving]
    bent = step.path.copy()
    bent[5:12, :, 2] -= 12.0  # the body is pushed through the floor, beyond its sections, and drags its pads
    assert {"collision", "load"} <= broken_by(spec, room, changed(crawl, moving, path=bent))
    longer = step.path.copy()
    longer[-1, :, 0] += 0.01
    assert "continuity" in broken_by(spec, room, changed(crawl, moving, path=longer))
    lifted = State(
        step.end.frames + np.array([0, 0, 0, 0.01])[None, None] * np.array([0, 0, 1])[None, :, None],
        step.end.shape,
        step.end.attached,
    )
    assert {"adhesion", "continuity"} <= broken_by(spec, room, changed(crawl, moving, end=lifted))
    none = State(step.end.frames, step.end.shape, np.zeros_like(step.end.attached))
    assert "hold" in broken_by(spec, room, changed(crawl, moving, end=none))
    far = Plan(**(crawl.__dict__ | {"goal": np.array([0.3, 0.5, 0.0])}))
    assert "goal" in broken_by(spec, room, far)


def test_pads_that_hold_must_not_slide(spec, room) -> None:
    """Two anchors and a body that shortens between them: the chain from one of them says the other has moved."""
    start = lying(spec)
    path = np.repeat(start.shape[None], 17, axis=0)
    path[:, :, 0] -= np.linspace(0, 0.004, 17)[:, None]
    end = State(start.frames, path[-1], start.attached)
    plan = Plan("worm", spec.body_hash, room.name, start, GOAL, (Step(path, end, -1, -1),), False, "", 0.0)
    assert "stick" in broken_by(spec, room, plan)


def test_self_contact_is_seen(spec, room) -> None:
    start = lying(spec, height=0.3)
    coiled = start.shape.copy()
    coiled[:] = [0.09, 0.0, 20.9]
    frames = np.empty_like(start.frames)
    chain(start.frames[0], coiled, frames)
    path = np.repeat(coiled[None], 3, axis=0)
    state = State(frames, coiled, np.array([1, 0, 0, 0, 0], dtype=np.uint8))
    plan = Plan("worm", spec.body_hash, room.name, state, GOAL, (Step(path, state, -1, -1),), False, "", 0.0)
    assert "self_collision" in broken_by(spec, room, plan)


def test_when_time_runs_out_the_best_part_is_valid_and_says_why(spec, room) -> None:
    class Hurried(SimulatedClock):
        """Every look at the clock costs a second."""

        def now_s(self) -> float:
            self.advance(1.0)
            return super().now_s()

    plan = search(spec, room, lying(spec), np.array([0.9, 0.3, 0.6]), Hurried(), budget_s=9.0)
    assert not plan.complete and "time budget of 9 s" in plan.reason
    assert validate(spec, room, plan) == []


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"height": 0.06}, "no legal anchor"),
        ({"height": 0.02, "off": True}, "no anchor"),
        ({"height": 0.02, "bend": 22.0}, "self-collision|load"),
    ],
)
def test_an_illegal_start_is_refused_by_the_constraint_it_breaks(spec, room, state: dict, words: str) -> None:
    off = state.pop("off", False)
    start = lying(spec, **state)
    if off:
        start = State(start.frames, start.shape, np.zeros_like(start.attached))
    with pytest.raises(PlanningError, match=words):
        check_start(make_body(spec), room, start)


@pytest.fixture(scope="module")
def library(spec, room, crawl: Plan):
    guide = make_guide(room, spec, crawl.start.frames[:, :, 3], GOAL)
    return collect(spec, [(crawl, guide)])


def test_primitives_of_one_crawl_plan_the_next_with_less_solving(spec, room, crawl: Plan, library) -> None:
    made: list[PrimitiveExpander] = []

    def with_primitives(blocks):
        made.append(PrimitiveExpander(blocks, library))
        return made[-1]

    start = lying(spec, x=0.29)
    goal = np.array([0.85, 0.3, 0.0])
    plan = search(spec, room, start, goal, WallClock(), budget_s=240.0, expand_with=with_primitives)
    assert plan.complete and validate(spec, room, plan) == []
    assert made[0].counts.replayed + made[0].counts.mended > 0
    assert plan.statistics["ik_calls"] < 0.5 * crawl.statistics["ik_calls"]


def test_replay_without_checks_would_break_constraints(spec, room, crawl: Plan) -> None:
    """A plan's shapes run from a start that is shifted and lifted by a few millimetres no longer land on the floor."""
    shifted = lying(spec, x=0.3, height=0.024)
    drop = shifted.frames - crawl.start.frames
    steps = tuple(
        Step(
            s.path,
            State(s.end.frames + drop[0][None] * np.array([0, 0, 0, 2.0]), s.end.shape, s.end.attached),
            s.released,
            s.attached,
        )
        for s in crawl.steps
    )
    plan = Plan(**(crawl.__dict__ | {"start": shifted, "steps": steps, "complete": False}))
    assert "adhesion" in broken_by(spec, room, plan)


def test_a_library_survives_its_file_and_refuses_another_worm(spec, root: Path, library, tmp_path: Path) -> None:
    path = tmp_path / "primitives.npz"
    save_library(library, path)
    again = load_library(path, spec)
    np.testing.assert_array_equal(again.moves, library.moves)
    text = (root / "robots/worm.toml").read_text().replace("length_max_m = 0.12", "length_max_m = 0.11")
    (tmp_path / "other.toml").write_text(text)
    with pytest.raises(ModelError, match="another worm"):
        load_library(path, load_worm(tmp_path / "other.toml"))
    with pytest.raises(ModelError, match="not a primitive library"):
        load_library(tmp_path / "missing.npz", spec)
    with pytest.raises(ModelError, match="empty"):
        collect(spec, [])


def emptied(library: Library, count: int = 0) -> Library:
    """The first primitives of a library."""
    return replace(
        library,
        keys=library.keys[:count],
        modes=library.modes[:count],
        moves=library.moves[:count],
        shapes=library.shapes[:count],
    )


def test_the_shipped_library_is_whole_and_belongs_to_the_shipped_worm(spec, root: Path) -> None:
    shipped = load_library(root / "models_onnx/worm/primitives.npz", spec)
    assert len(shipped.keys) > 2000 and shipped.body_hash == spec.body_hash
    assert shipped.modes.any(axis=1).all(), "a primitive starts from a worm that holds on to nothing"


def test_a_library_that_was_damaged_is_refused_with_the_reason(spec, root: Path, tmp_path: Path) -> None:
    shipped = root / "models_onnx/worm/primitives.npz"
    path = tmp_path / "primitives.npz"
    raw = bytearray(shipped.read_bytes())
    path.write_bytes(raw)
    with pytest.raises(ModelError, match="json beside it"):
        load_library(path, spec)
    path.with_suffix(".json").write_bytes(shipped.with_suffix(".json").read_bytes())
    assert len(load_library(path, spec).keys) > 0
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ModelError, match="damaged"):
        load_library(path, spec)
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(ModelError, match="cut off"):
        load_library(path, spec)


def test_a_library_without_primitives_or_with_impossible_ones_is_refused(spec, root: Path, tmp_path: Path) -> None:
    shipped, path = load_library(root / "models_onnx/worm/primitives.npz", spec), tmp_path / "primitives.npz"
    save_library(emptied(shipped), path)
    with pytest.raises(ModelError, match="empty library"):
        load_library(path, spec)
    one = emptied(shipped, 1)
    for change, reason in (
        ({"shapes": np.full_like(one.shapes, np.nan)}, "finite"),
        ({"keys": np.full_like(one.keys, np.inf)}, "finite"),
        ({"moves": np.full_like(one.moves, 5)}, "pads that"),
        ({"modes": one.modes[:, 1:]}, "pads that"),
    ):
        save_library(replace(one, **change), path)
        with pytest.raises(ModelError, match=reason):
            load_library(path, spec)
