"""The governor of a suction worm, the suction board's own rule, the pressure law and the state from poses."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from onboard.errors import NotANumberError
from onboard.planning.contact.execution.estimate import ChainEstimate, fit_chain
from onboard.planning.contact.execution.ports import PoseReading, SuctionReport
from onboard.planning.contact.execution.pressures import PressureLaw, chamber_pressures, gravity_sag
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.plan import State
from onboard.planning.contact.worm import load_worm
from onboard.safety.pad_governor import PadGovernor
from sim.worm.boards import SuctionBoard
from sim.worm.faults import Faults, Imperfections

SEALED = 50_000.0


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm_hardware.toml")


class Boards:
    def __init__(self, *vacuum_pa: float) -> None:
        self.sent, self.now = [], SuctionReport(0.0, np.array(vacuum_pa))

    def send(self, command) -> None:
        self.sent.append(command)

    def report(self) -> SuctionReport:
        return self.now


def governor(spec, boards: Boards, on=(True, True, True)) -> PadGovernor:
    return PadGovernor(spec.execution, boards, np.full((2, 4), 50.0), np.array(on))


def test_the_last_sealed_pad_is_not_released(spec) -> None:
    boards = Boards(SEALED, 0.0, 0.0)
    g = governor(spec, boards)
    assert g.issue(0.0, None, np.array([False, True, True])).suction[0]
    assert g.counts.releases_refused == 1


def test_two_releases_at_once_leave_one_pad(spec) -> None:
    boards = Boards(SEALED, SEALED, 0.0)
    sent = governor(spec, boards).issue(0.0, None, np.array([False, False, False]))
    assert sent.suction[:2].any()


def test_a_pad_goes_when_another_that_stays_is_sealed(spec) -> None:
    g = governor(spec, Boards(SEALED, SEALED, 0.0))
    assert not g.issue(0.0, None, np.array([False, True, True])).suction[0]
    assert g.counts.releases_refused == 0


@pytest.mark.parametrize("age_s, vacuum", [(0.31, SEALED), (-0.1, SEALED), (0.0, np.nan), (0.0, 24_000.0)])
def test_old_future_missing_or_weak_seals_do_not_count(spec, age_s: float, vacuum: float) -> None:
    boards = Boards(SEALED, vacuum, vacuum)
    boards.now = SuctionReport(10.0 - age_s, boards.now.vacuum_pa)
    assert governor(spec, boards).issue(10.0, None, np.array([False, True, True])).suction[0]


def test_when_nothing_is_known_to_hold_every_pad_tries(spec) -> None:
    g = governor(spec, Boards(0.0, 0.0, 0.0), on=(True, False, False))
    assert g.issue(0.0, None, np.array([True, False, False])).suction.all() and g.counts.rescues == 1


def test_a_stop_repeats_what_was_sent_until_a_reset(spec) -> None:
    g = governor(spec, Boards(SEALED, SEALED, SEALED))
    before = g.issue(0.0, np.full((2, 4), 51.0), None)
    g.stop()
    after = g.issue(0.1, np.zeros((2, 4)), np.array([True, False, True]))
    np.testing.assert_array_equal(after.pressures, before.pressures)
    assert after.suction.all()
    g.reset()
    assert not g.issue(0.2, None, np.array([True, False, True])).suction[1]


def test_pressures_are_finite_limited_and_slewed(spec) -> None:
    g = governor(spec, Boards(SEALED, SEALED, SEALED))
    g.issue(0.0, np.full((2, 4), 50.0), None)
    np.testing.assert_array_equal(g.issue(0.05, np.full((2, 4), np.nan), None).pressures, 50.0)
    np.testing.assert_array_equal(g.issue(0.1, np.full((1, 4), 60.0), None).pressures, 50.0)
    step = spec.execution.slew_per_s * 0.05
    np.testing.assert_allclose(g.issue(0.15, np.full((2, 4), 999.0), None).pressures, 50.0 + step)
    for k in range(40):
        last = g.issue(0.2 + 0.05 * k, np.full((2, 4), 999.0), None)
    np.testing.assert_array_equal(last.pressures, spec.execution.supply)
    assert (g.counts.not_finite, g.counts.wrong_shape) == (1, 1) and g.counts.clamped > 0 and g.counts.slewed > 0


def test_the_suction_board_keeps_its_last_sealed_pad_whatever_it_is_told(spec) -> None:
    on = np.array([True, True, False])
    board = SuctionBoard(spec.execution, Imperfections(), Faults(), on, np.random.default_rng(0))
    board.command(np.array([False, False, False]))
    assert board.on.sum() == 1 and board.refused == 1


def test_a_constant_disturbance_leaves_no_error(spec) -> None:
    law, wanted = PressureLaw(spec), np.array([[0.09, 2.0, -3.0], [0.08, 0.0, 1.0]])
    disturbance = np.array([[0.004, 1.0, -0.8], [-0.003, 0.5, 0.7]])
    measured = wanted + disturbance
    for _ in range(600):
        correction = law.update(0.05, wanted, measured, np.ones(2, dtype=bool))
        share = correction / 100.0
        length = 0.06 * share.mean(axis=1)
        bend = 15.0 * np.column_stack([share[:, 0] - share[:, 2], share[:, 1] - share[:, 3]])
        measured = wanted + disturbance + np.column_stack([length, bend])
    np.testing.assert_allclose(measured[:, 0], wanted[:, 0], atol=1e-5)
    np.testing.assert_allclose(measured[:, 1:], wanted[:, 1:], atol=1e-2)


def test_the_correction_ends_at_its_limit_and_does_not_wind_up(spec) -> None:
    law, wanted = PressureLaw(spec), np.tile([0.12, 0.0, 0.0], (2, 1))
    low = np.tile([0.06, 0.0, 0.0], (2, 1))
    active = np.ones(2, dtype=bool)
    for _ in range(2000):
        correction = law.update(0.05, wanted, low, active)
    assert np.all(correction <= 100.0) and np.all(correction > 90.0)
    steps = 0
    while law.correction.max() > 50.0:
        law.update(0.05, low, wanted, active)
        steps += 1
    assert steps < 12, "it comes back at once: nothing was stored beyond the limit"


@pytest.mark.parametrize("shape", [(0.09, 0.0, 0.0), (0.07, 4.0, -3.0), (0.105, -6.0, 2.0)])
def test_chambers_give_the_shape_they_were_asked_for(spec, shape) -> None:
    share = chamber_pressures(spec, np.array([shape, shape]))[0] / 100.0
    assert np.all(share >= 0.0) and np.all(share <= 1.0)
    assert 0.06 + 0.06 * share.mean() == pytest.approx(shape[0])
    assert 15.0 * (share[0] - share[2]) == pytest.approx(shape[1])
    assert 15.0 * (share[1] - share[3]) == pytest.approx(shape[2])


def horizontal(spec):
    shape = np.tile([0.1, 0.0, 0.0], (2, 1))
    frames = np.empty((3, 3, 4))
    chain(np.array([[0, 0, 1, 0], [0, -1, 0, 0], [1, 0, 0, 0]], dtype=float), shape, frames)
    return frames, shape


def test_gravity_on_a_cantilever_asks_for_the_curvature_its_weight_takes(spec) -> None:
    frames, shape = horizontal(spec)
    sag = gravity_sag(spec, frames, shape, np.array([1, 0, 0], dtype=np.uint8))
    stiffness = 0.5 * 0.85 / 15.0
    outer = 9.81 * 0.03 * 0.05  # the head about the middle of the outer segment
    inner = 9.81 * (0.03 * 0.05 + 0.03 * 0.15 + 0.03 * 0.10)  # both links and the outer segment about the inner one
    np.testing.assert_allclose(sag, [[0.0, inner / stiffness], [0.0, outer / stiffness]], atol=1e-9)


def test_gravity_on_a_body_held_at_its_head_bends_the_other_way(spec) -> None:
    frames, shape = horizontal(spec)
    from_tail = gravity_sag(spec, frames, shape, np.array([1, 0, 0], dtype=np.uint8))
    from_head = gravity_sag(spec, frames, shape, np.array([0, 0, 1], dtype=np.uint8))
    np.testing.assert_allclose(from_head, from_tail[::-1], atol=1e-9)
    np.testing.assert_array_equal(gravity_sag(spec, frames, shape, np.array([1, 0, 1], dtype=np.uint8)), 0.0)


def test_a_chain_is_found_again_from_its_links(spec) -> None:
    shape = np.array([[0.08, 3.0, -2.0], [0.11, -1.0, 5.0]])
    frames = np.empty((3, 3, 4))
    root = np.column_stack([Rotation.from_rotvec([0.3, -0.2, 0.5]).as_matrix(), [0.1, 0.2, 0.3]])
    chain(root, shape, frames)
    guess_root, guess = root.copy(), shape + np.array([[0.002, 0.4, -0.3], [-0.003, 0.3, 0.2]])
    guess_root[:, 3] += 0.003
    for _ in range(3):
        guess_root, guess, residual = fit_chain(frames, guess_root, guess)
    np.testing.assert_allclose(guess, shape, atol=1e-6)
    assert residual < 1e-7


def test_noise_in_poses_is_smoothed_and_nonsense_refused(spec) -> None:
    frames, shape = horizontal(spec)
    estimate = ChainEstimate(State(frames, shape, np.ones(3, dtype=np.uint8)), 0.12)
    rng = np.random.default_rng(1)
    errors = []
    for k in range(200):
        noisy = frames.copy()
        noisy[:, :, 3] += rng.normal(0.0, 0.0005, (3, 3))
        estimate.update(PoseReading(k / 30.0, noisy))
        errors.append(estimate.frames[:, :, 3] - frames[:, :, 3])
    assert np.sqrt(np.mean(np.square(errors[20:]))) < 0.0004
    with pytest.raises(NotANumberError):
        estimate.update(PoseReading(99.0, np.full((3, 3, 4), np.inf)))
