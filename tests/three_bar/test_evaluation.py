"""Errors, rankings and primitive libraries are computed as their definitions say."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from offboard.three_bar.episodes import state_at
from offboard.three_bar.evaluate import Ranking, candidate_plans, predict, progress_of, summary, window_errors
from offboard.three_bar.held_out import HELD_OUT_SEED, SetPlan, Start, make_set, touches
from onboard.messages import Floats
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar
from sim.three_bar.rollouts import PlantRollouts


def nothing() -> None:
    """A progress bar that shows nothing."""


SMALL = SetPlan(("bang",), ("flat", "walls"), 2, 3.0, 20, 4)


def test_errors_of_a_shifted_and_turned_prediction(spec: ThreeBar) -> None:
    """2 mm off all along: e_pos = 0.02^2 / 3.3; one rod of three turned by 30 degrees: 10 degrees on average."""
    true = np.repeat(spec.start_caps[None], 200, axis=0)
    start = true[0] - np.array([0.5, 0.0, 0.0])
    row = window_errors(true + np.array([0.0, 0.02, 0.0]), true, start)
    assert row == pytest.approx((0.0004, 0.0, 0.02, 0.5), abs=1e-9)
    table = summary([row, row], 3.3)
    assert table["e_pos"] == pytest.approx(0.0004 / 3.3)
    assert table["com_error_pct"] == pytest.approx(4.0)
    assert table["windows"] == 2
    turned = true.copy()
    middle = true[:, 0:2].mean(axis=1, keepdims=True)
    axis = true[:, 1] - middle[:, 0]
    across = np.cross(axis, np.array([0.0, 0.0, 1.0]))
    across *= np.linalg.norm(axis[0]) / np.linalg.norm(across[0])
    new = np.cos(np.radians(30)) * axis + np.sin(np.radians(30)) * across
    turned[:, 0], turned[:, 1] = middle[:, 0] - new, middle[:, 0] + new
    assert window_errors(turned, true, start)[1] == pytest.approx(10.0, abs=1e-6)


def test_held_out_sets_follow_from_their_seed_and_start_where_the_plant_stood(spec: ThreeBar) -> None:
    assert HELD_OUT_SEED not in (0, 1)
    windows, starts = make_set(spec, "random", SMALL, 1, nothing)
    again, _ = make_set(spec, "random", SMALL, 1, nothing)
    assert len(windows) == len(again) == 2 * 5
    assert all(
        np.array_equal(a.caps_u, b.caps_u) and np.array_equal(a.state, b.state) for a, b in zip(windows, again, strict=True)
    )
    start = starts[0]
    assert start.state[:18] == pytest.approx(start.plant.caps().ravel())
    assert start.state[36:42] == pytest.approx(start.plant.rest_u)


def test_a_state_holds_what_was_measured_at_its_step(spec: ThreeBar) -> None:
    """Velocity over the four steps before it; the command after it winds the rest length of the next step."""
    from offboard.three_bar.episodes import drive_plant

    _, record = drive_plant(spec, "flat", "bang", 3.0, (HELD_OUT_SEED, 0, 0), 4)
    speed = np.array(record.speed)
    state = state_at(record, 50)
    assert state[18:36] == pytest.approx(((record.caps[50] - record.caps[46]) / 0.04).ravel())
    command = speed[51] / spec.actuators.max_speed_rad_s
    wound = 0.5 * (speed[50] + speed[51]) * spec.actuators.spool_radius_u * 0.01
    assert record.rest[50] - record.rest[51] == pytest.approx(wound, abs=1e-9)
    assert np.abs(command).max() <= 1.0 + 1e-9


def test_only_windows_that_touch_count_as_contact(spec: ThreeBar) -> None:
    from sim.three_bar.course import Scene, box

    wall = Scene("w", 1.8, 0.165, np.eye(3), (box((3.0, 0, 2.0), (0.5, 9.0, 2.0)),)).world()
    caps = np.repeat(spec.start_caps[None], 3, axis=0)
    assert not touches(caps, wall, 0.175)
    near = caps.copy()
    near[1] += np.array([2.5 - 0.175 - 0.01 - caps[1, :, 0].max(), 0.0, 0.0])
    assert touches(near, wall, 0.175)
    assert not touches(caps, wall[:1], 0.175)


class Truth:
    """The plant itself in the place of a model."""

    def __init__(self, plant: Plant, start: Start, noise: float = 0.0) -> None:
        self.rollouts, self.start, self.noise = PlantRollouts(plant), start, noise

    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        caps = self.rollouts.caps_over(self.start.snapshot, controls)[:, 19::20]
        states = np.zeros((*caps.shape[:2], 48))
        rng = np.random.default_rng(0)
        states[..., :18] = caps.reshape(*caps.shape[:2], 18) + self.noise * rng.normal(size=(len(caps), 1, 1))
        return states


def test_the_plant_ranks_like_itself_and_a_noisy_one_worse(spec: ThreeBar) -> None:
    _, starts = make_set(spec, "random", SMALL, 1, nothing)
    ranking = Ranking(starts[0], 0, 16)
    exact = ranking.compare(Truth(starts[0].plant, starts[0]))
    assert exact[0] == pytest.approx(1.0)
    assert exact[1] == exact[2]
    noisy = ranking.compare(Truth(starts[0].plant, starts[0], noise=0.3))
    assert noisy[0] < 0.95
    assert noisy[1] <= noisy[2]


def test_progress_is_distance_gained(spec: ThreeBar) -> None:
    caps = spec.start_caps
    goal = caps.mean(axis=0)[:2] + np.array([10.0, 0.0])
    moved = np.stack([caps, caps + np.array([1.0, 0.0, 0.3]), caps - np.array([1.0, 0.0, 0.0])])
    assert progress_of(moved, caps, goal) == pytest.approx([0.0, 1.0, -1.0])
    plans = candidate_plans(np.random.default_rng(0), 8)
    assert plans.shape == (8, 200, 6)
    assert np.abs(plans).max() <= 1.0
    assert np.all(plans[:, :50] == plans[:, :1])


def test_a_prediction_joins_chunks_and_starts_at_the_state() -> None:
    class Still:
        """Moves all caps by 0.1 u a chunk along x."""

        class manifest:
            chunk_steps, step_s = 20, 0.01

        def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
            states = np.repeat(state[None, None], 10, axis=1)
            states[0, :, 0:18:3] += 0.1 * np.arange(1, 11)[:, None]
            states[0, :, 18:36:3] = 0.5
            return states

    from offboard.three_bar.held_out import Window

    state = np.zeros(48)
    state[18:36:3] = 0.5
    window = Window(state, np.zeros((200, 6)), np.zeros((1, 16)), np.zeros((200, 6, 3)), "flat")
    caps = predict(Still(), window)  # type: ignore[arg-type]
    assert caps[:, 0, 0] == pytest.approx(0.005 * np.arange(1, 201))
