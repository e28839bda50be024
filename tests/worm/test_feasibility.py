"""Load moments and feasible sections against statics one can do by hand."""

from pathlib import Path

import numpy as np
import pytest

from onboard.planning.contact import feasibility as feas
from onboard.planning.contact.body import make_body
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.worm import load_worm


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm.toml")


def moments_of(body, root_frame: np.ndarray, shape: np.ndarray, attached: list[int]) -> tuple[np.ndarray, np.ndarray]:
    n = len(shape)
    frames = np.empty((n + 1, 3, 4))
    chain(root_frame, shape, frames)
    mask = np.zeros(n + 1, dtype=np.uint8)
    mask[attached] = 1
    moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
    feas.load_moments(body, frames, shape, mask, moments, bins)
    return moments, bins


def frame_along(axis: str) -> np.ndarray:
    turns = {
        "up": np.eye(3),
        "forward": np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]]),
        "down": np.diag([1, -1, -1]),
    }
    return np.column_stack([turns[axis], np.zeros(3)]).astype(float)


STRAIGHT = np.tile([0.09, 0.0, 0.0], (4, 1))


def test_a_horizontal_chain_bends_its_anchor_by_half_its_weight_times_length(spec) -> None:
    moments, bins = moments_of(make_body(spec), frame_along("forward"), STRAIGHT, [0])
    # masses at 1/8, 2/8, ... 8/8 of the length: the uniform chain's m g l / 2 plus the last link's half share
    mass, length = 8 * 0.03, 0.36
    assert moments[0] == pytest.approx(mass * 9.81 * length / 2 * 9 / 8, rel=1e-12)
    assert np.all(np.diff(moments) < 0) and set(bins) == {6}


def test_the_chain_of_many_links_tends_to_m_g_l_over_2(spec) -> None:
    shape = np.tile([0.005, 0.0, 0.0], (60, 1))
    moments, _ = moments_of(make_body(spec), frame_along("forward"), shape, [0])
    assert moments[0] == pytest.approx(120 * 0.03 * 9.81 * 0.3 / 2, rel=0.01)


@pytest.mark.parametrize(("axis", "index"), [("up", 0), ("down", 12)])
def test_a_vertical_chain_bends_nothing(spec, axis: str, index: int) -> None:
    moments, bins = moments_of(make_body(spec), frame_along(axis), STRAIGHT, [0])
    assert np.all(moments < 1e-15) and set(bins) == {index}


def test_between_two_anchors_a_segment_takes_the_lighter_cantilever(spec) -> None:
    moments, _ = moments_of(make_body(spec), frame_along("forward"), STRAIGHT, [0, 4])
    weight = 0.03 * 9.81
    # seen from the nearer anchor, segment 0 would carry 7 masses from the left, but one from the right
    assert moments[0] == pytest.approx(weight * 0.045)
    assert moments[1] == pytest.approx(weight * (0.045 + 0.09 + 0.135))
    np.testing.assert_allclose(moments, moments[::-1])


def test_from_the_tail_or_from_the_head_the_load_is_the_same(spec) -> None:
    head, _ = moments_of(make_body(spec), frame_along("forward"), STRAIGHT, [0])
    tail, _ = moments_of(make_body(spec), frame_along("forward"), STRAIGHT, [4])
    np.testing.assert_allclose(head, tail[::-1])


def test_without_stiffening_the_section_is_what_four_chambers_reach(spec) -> None:
    rng = np.random.default_rng(0)
    chambers = rng.uniform(0, 1, (4000, 4))
    chambers[:200] = np.round(chambers[:200])
    points = np.column_stack([chambers.mean(axis=1), chambers[:, 0] - chambers[:, 2], chambers[:, 1] - chambers[:, 3]])
    matrix, bound = feas.stand_in(spec).section(0.0, 3)
    assert np.max(points @ matrix.T - bound) < 1e-12
    assert np.all(np.min(bound - points @ matrix.T, axis=0) < 1e-9), "a facet nothing touches"
    # the other way round: a point on the surface is reached by some chamber pressures
    for direction in rng.normal(size=(200, 3)):
        reach = np.min([b / d for b, d in zip(bound - matrix @ [0.5, 0, 0], matrix @ direction, strict=True) if d > 0])
        rho, cx, cy = np.array([0.5, 0, 0]) + reach * direction
        low = max(abs(cx) + abs(cy), 0) / 4
        assert low - 1e-9 <= rho <= 1 - low + 1e-9 and max(abs(cx), abs(cy)) <= 1 + 1e-9


def test_load_shrinks_the_section_until_nothing_is_left(spec) -> None:
    body = make_body(spec)
    free = feas.slack(body, 0.09, 10.0, 0.0, 0.0, 6)
    loaded = feas.slack(body, 0.09, 10.0, 0.0, 0.1, 6)
    assert free == pytest.approx(1 - 10 / 15) and loaded < free
    assert feas.slack(body, 0.09, 0.0, 0.0, 0.43, 6) < 0 < feas.slack(body, 0.09, 0.0, 0.0, 0.42, 6)


def test_a_table_survives_its_file(spec, tmp_path: Path) -> None:
    table = feas.stand_in(spec)
    feas.save_table(table, tmp_path / "set.json")
    again = feas.load_table(tmp_path / "set.json")
    for name in ("normals", "alpha", "beta", "capacity"):
        np.testing.assert_array_equal(getattr(table, name), getattr(again, name))
