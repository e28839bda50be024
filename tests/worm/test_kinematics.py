"""Segments: exponential, Jacobians, ranks and closed-form inverses against independent formulas."""

import numpy as np
import pytest
from scipy.linalg import expm

from onboard.planning.contact import kinematics as kin


def twist_matrix(length: float, kx: float, ky: float) -> np.ndarray:
    wx, wy = kx * length, ky * length
    return np.array([[0, 0, wy, 0], [0, 0, -wx, 0], [-wy, wx, 0, length], [0, 0, 0, 0]], dtype=float)


def random_shape(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.column_stack([rng.uniform(0.06, 0.12, n), rng.uniform(-15, 15, n), rng.uniform(-15, 15, n)])


def frames_of(shape: np.ndarray, root: np.ndarray | None = None) -> np.ndarray:
    frames = np.empty((len(shape) + 1, 3, 4))
    kin.chain(np.eye(4)[:3] if root is None else root, shape, frames)
    return frames


def spin_about_axis(angle: float) -> np.ndarray:
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e-3, 1.0, 20.0])
def test_a_segment_is_the_matrix_exponential_of_its_twist(scale: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        length, (kx, ky) = rng.uniform(0.05, 0.2), scale * rng.uniform(-1, 1, 2)
        out = np.empty((3, 4))
        kin.segment(length, kx, ky, out)
        np.testing.assert_allclose(out, expm(twist_matrix(length, kx, ky))[:3], atol=1e-12)


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0])
def test_the_chain_jacobian_agrees_with_differences(scale: float) -> None:
    rng = np.random.default_rng(1)
    shape = random_shape(rng, 4)
    shape[:, 1:] *= scale
    frames = frames_of(shape)
    for link in (2, 4):
        jacobian = np.empty((6, 12))
        kin.chain_jacobian(frames, shape, link, jacobian)
        for column in range(12):
            step = 1e-6
            ahead, behind = shape.copy(), shape.copy()
            ahead.flat[column] += step
            behind.flat[column] -= step
            high, low = frames_of(ahead)[link], frames_of(behind)[link]
            turn = (high[:, :3] - low[:, :3]) @ frames[link][:, :3].T / (2 * step)
            numeric = [*(high[:, 3] - low[:, 3]) / (2 * step), turn[2, 1], turn[0, 2], turn[1, 0]]
            np.testing.assert_allclose(jacobian[:, column], numeric, atol=1e-6)


def test_one_to_four_segments_reach_sets_of_dimension_3_5_6_6() -> None:
    rng = np.random.default_rng(2)
    ranks = []
    for n in (1, 2, 3, 4):
        shape = random_shape(rng, n)
        jacobian = np.empty((6, 3 * n))
        kin.chain_jacobian(frames_of(shape), shape, n, jacobian)
        jacobian[:, 0::3] *= 0.06
        jacobian[:, 1::3] *= 15
        jacobian[:, 2::3] *= 15
        jacobian[3:] *= 0.1
        ranks.append(int(np.linalg.matrix_rank(jacobian, tol=1e-7)))
    assert ranks == [3, 5, 6, 6]


def test_one_segment_is_recovered_from_where_its_end_is() -> None:
    rng = np.random.default_rng(3)
    for shape in random_shape(rng, 30):
        end = frames_of(shape[None])[1, :, 3]
        np.testing.assert_allclose(kin.one_segment_to(*end), shape, atol=1e-9)
    np.testing.assert_allclose(kin.one_segment_to(0.0, 0.0, 0.1), (0.1, 0, 0))
    assert kin.one_segment_to(0.0, 0.0, -0.1)[0] == np.inf


def test_a_biarc_reaches_point_and_axis_and_tells_the_roll_left_over() -> None:
    rng = np.random.default_rng(4)
    reached = 0
    for _ in range(50):
        wanted = frames_of(random_shape(rng, 2) * np.array([1, 0.7, 0.7]))[2]
        roll = rng.uniform(-0.4, 0.4)
        turned = wanted.copy()
        turned[:, :3] = wanted[:, :3] @ spin_about_axis(roll)
        shape = np.empty((2, 3))
        left = kin.two_segments_to(turned, 1.0, shape)
        if np.isnan(left):
            continue
        reached += 1
        end = frames_of(shape)[2]
        np.testing.assert_allclose(end[:, 2:], turned[:, 2:], atol=1e-9)
        spin = spin_about_axis(left)
        np.testing.assert_allclose(end[:, :3] @ spin, turned[:, :3], atol=1e-9)
    assert reached >= 45


def test_a_chain_seen_from_its_other_end_is_the_same_chain() -> None:
    rng = np.random.default_rng(5)
    shape = random_shape(rng, 3)
    frames = frames_of(shape)
    back, root = np.empty_like(shape), np.empty((3, 4))
    kin.flip_shape(shape, back)
    kin.flip_frame(frames[3], root)
    reverse = frames_of(back, root)
    for i in range(4):
        flipped = np.empty((3, 4))
        kin.flip_frame(reverse[3 - i], flipped)
        np.testing.assert_allclose(flipped, frames[i], atol=1e-12)


def test_composition_and_inverse_cancel() -> None:
    frame = frames_of(random_shape(np.random.default_rng(6), 2))[2]
    back, product = np.empty((3, 4)), np.empty((3, 4))
    kin.invert(frame, back)
    kin.compose(frame, back, product)
    np.testing.assert_allclose(product, np.eye(4)[:3], atol=1e-14)
