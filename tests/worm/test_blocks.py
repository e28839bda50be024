"""Blocks and their inverse kinematics: decomposition, reachable targets, sections and clearance."""

from pathlib import Path

import numpy as np
import pytest

from onboard.errors import PlanningError
from onboard.planning.contact.blocks import BlockProblem, CompiledSolver, decompose
from onboard.planning.contact.body import make_body
from onboard.planning.contact.closure import project_closure
from onboard.planning.contact.feasibility import stand_in
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.scene import load_scene
from onboard.planning.contact.worm import load_worm

MOMENT, BIN = 0.1, 6


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm.toml")


@pytest.fixture(scope="module")
def room(root: Path):
    return load_scene(root / "robots" / "scenes" / "worm_floor_wall_ceiling.toml")


def mask(text: str) -> np.ndarray:
    return np.array([c == "1" for c in text], dtype=np.uint8)


def frames_of(shape: np.ndarray, root_frame: np.ndarray) -> np.ndarray:
    frames = np.empty((len(shape) + 1, 3, 4))
    chain(root_frame, shape, frames)
    return frames


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("10001", [("inner", 4, 6)]),
        ("01000", [("tail", 1, 3), ("head", 3, 9)]),
        ("11111", [("inner", 1, 0)] * 4),
        ("10100", [("inner", 2, 1), ("head", 2, 6)]),
    ],
)
def test_attached_pads_split_the_body_into_blocks(mode: str, expected: list) -> None:
    assert [(b.kind, b.segments, b.freedom) for b in decompose(mask(mode))] == expected


def test_a_body_without_a_pad_attached_is_refused() -> None:
    with pytest.raises(PlanningError, match="no anchor"):
        decompose(mask("00000"))


def hanging_in_the_middle() -> np.ndarray:
    """A frame far from every surface of the room, body axis along x, pad normal up."""
    return np.array([[0, 0, 1, 0.5], [0, 1, 0, 0.3], [-1, 0, 0, 0.3]], dtype=float)


def loaded_shape(rng: np.random.Generator, n: int, spec) -> np.ndarray:
    """A shape four chambers reach under the load of the frozen section, not at its very edge."""
    chambers = 0.5 + 0.9 * (rng.uniform(0, 1, (n, 4)) - 0.5)
    scale = 1 - MOMENT / stand_in(spec).capacity[BIN]
    difference = np.column_stack([chambers[:, 0] - chambers[:, 2], chambers[:, 1] - chambers[:, 3]])
    return np.column_stack([0.06 + 0.06 * chambers.mean(axis=1), 15 * scale * difference])


@pytest.mark.parametrize(("n", "least"), [(1, 60), (2, 58), (3, 56), (4, 52)])
def test_reachable_targets_are_reached_inside_the_sections(spec, room, n: int, least: int) -> None:
    rng = np.random.default_rng(n)
    solver = CompiledSolver(spec, room)
    matrix, bound = stand_in(spec).section(MOMENT, BIN)
    reached = 0
    for _ in range(60):
        target = frames_of(loaded_shape(rng, n, spec), hanging_in_the_middle())[n]
        problem = BlockProblem(
            hanging_in_the_middle(), np.tile([0.09, 0.0, 0.0], (n, 1)), np.tile(matrix, (n, 1, 1)), np.tile(bound, (n, 1)),
            n, target,
        )  # fmt: skip
        solution = solver.solve(problem)
        unit = (solution.shape - [0.06, 0, 0]) / [0.06, 15, 15]
        assert np.all(unit @ matrix.T < bound), "the barrier keeps every segment strictly inside"
        error = solution.frames[n, :, 3] - target[:, 3]
        near = abs(error @ target[:, 0]) < 0.001 and np.linalg.norm(error) < 0.005
        reached += near and solution.frames[n, :, 0] @ target[:, 0] > np.cos(np.pi / 10)
    assert reached >= least


def test_a_free_body_is_pushed_off_the_floor(spec, room) -> None:
    """The target lies on the floor ahead; the straight way there would drag the body through it."""
    matrix, bound = stand_in(spec).section(0.0, BIN)
    root_frame = np.array([[0, 0, 1, 0.4], [0, 1, 0, 0.3], [-1, 0, 0, 0.02]], dtype=float)
    root_frame[:, :3] = np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    upright = np.column_stack([[0, 0, 1], [0, -1, 0], [1, 0, 0], [0.4, 0.3, 0.02]])
    target = upright.copy()
    target[0, 3] += 0.2
    problem = BlockProblem(
        upright, np.array([[0.09, 0.0, -5.0], [0.09, 0.0, -5.0]]), np.tile(matrix, (2, 1, 1)), np.tile(bound, (2, 1)), 2, target
    )
    solution = CompiledSolver(spec, room).solve(problem)
    assert solution.frames[2, 2, 3] == pytest.approx(0.02, abs=0.002)
    assert solution.frames[1, 2, 3] > 0.015


def test_a_block_between_two_anchors_is_closed_exactly(spec) -> None:
    rng = np.random.default_rng(3)
    body = make_body(spec)
    closed = 0
    for _ in range(40):
        shape = loaded_shape(rng, 3, spec)
        root_frame = hanging_in_the_middle()
        end = frames_of(shape, root_frame)[3]
        bent = shape + rng.normal(size=(3, 3)) * [0.003, 0.6, 0.6]
        frames = np.empty((4, 3, 4))
        closed += bool(project_closure(body, root_frame, bent, end, frames))
        if closed:
            np.testing.assert_allclose(frames[3], end, atol=2e-3)
    assert closed >= 38


def test_a_straight_pair_between_anchors_cannot_arch(spec) -> None:
    """Two segments have one dimension of self-motion, and arching symmetrically is not it: that needs three."""
    body = make_body(spec)
    shape = np.array([[0.09, 0.0, 0.0]] * 2)
    root_frame = hanging_in_the_middle()
    end = frames_of(shape, root_frame)[2]
    arched = np.array([[0.1, 0.0, 6.0], [0.1, 0.0, -6.0]])
    project_closure(body, root_frame, arched, end, np.empty((3, 3, 4)))
    assert np.abs(arched[:, 1:] * arched[:, :1]).max() < 0.2
