"""The planner's model: the exported file computes what the formulas say, and both follow the full simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from offboard.vine.model_error import model_error
from offboard.vine.quasi_static import constants, rollout
from offboard.vine.write_model import write_models
from onboard.errors import ModelError, NotANumberError
from onboard.models.manifest import load_model_file
from onboard.planning.vine.dynamics import VineDynamics
from onboard.planning.vine.field import field_of
from onboard.planning.vine.state import layout_of
from onboard.resources import robot_file
from onboard.vine_robot import load_vine
from sim.vine import Options, Scene, Simulator
from sim.vine.goals import steering_task
from sim.vine.plant import plant_robot
from sim.vine.steer import field_for

ROBOT = load_vine(robot_file("vine"))
LAYOUT = layout_of(ROBOT)
FREE = field_of([], (ROBOT.map.x_m[0], ROBOT.map.y_m[0]), ROBOT.map.cells, ROBOT.map.cell_m)


def model(threads: int = 1) -> VineDynamics:
    file = load_model_file(ROBOT.manifest_path, "vine", ROBOT.physics_hash, ROBOT.model.sha256)
    return VineDynamics(file, LAYOUT, threads)


def commands(rng: np.random.Generator, samples: int, steps: int) -> np.ndarray:
    drawn = rng.uniform(ROBOT.low, ROBOT.high, (samples, 1, 3)).repeat(steps, axis=1)
    drawn[..., 0] = ROBOT.high[0]
    return drawn


def test_the_exported_model_computes_the_formulas_in_contact() -> None:
    task = steering_task(3)
    field = field_for(ROBOT, task)
    made = model()
    made.set_field(field)
    controls = commands(np.random.default_rng(0), 20, made.steps)
    start = LAYOUT.straight(0.1, 0.2)
    found = LAYOUT.tip(made.rollout(start, controls))
    wanted = LAYOUT.tip(rollout(start, controls, field, constants(ROBOT)))
    free = made.rollout(start, controls)
    made.set_field(FREE)
    assert np.abs(made.rollout(start, controls) - free).max() > 0.05  # some of them do touch
    apart = 1e3 * np.linalg.norm(found - wanted, axis=2)
    assert np.median(apart[:, -1]) < 1e-2
    assert apart[:, :10].max() < 1.0


def test_threads_and_tiles_do_not_change_a_rollout() -> None:
    field = field_for(ROBOT, steering_task(4))
    one, two = model(), model(2)
    one.set_field(field)
    two.set_field(field)
    controls = commands(np.random.default_rng(1), 100, one.steps)
    start = LAYOUT.straight(0.05)
    whole = two.rollout(start, controls)
    np.testing.assert_array_equal(one.rollout(start, controls), whole)
    np.testing.assert_allclose(one.rollout(start, controls[70:73]), whole[70:73], atol=1e-6)


def test_a_free_straight_vine_grows_at_the_rate_asked_for() -> None:
    made = model()
    made.set_field(FREE)
    controls = np.zeros((1, made.steps, 3))
    controls[..., 0] = 0.1
    states = made.rollout(LAYOUT.straight(0.027), controls)
    np.testing.assert_allclose(LAYOUT.tip(states)[0, -1], [0.027 + 0.1 * made.steps * made.step_s, 0.0], atol=1e-5)


def test_a_vine_at_rest_bends_into_the_arc_its_muscles_ask_for() -> None:
    made = model()
    made.set_field(FREE)
    controls = np.zeros((1, made.steps, 3))
    controls[..., 2] = 4.0
    state = LAYOUT.straight(0.15)
    for _ in range(8):
        state = made.rollout(state, controls)[0, -1]
    assert LAYOUT.tip_heading(state) == pytest.approx(4.0 * (0.15 - ROBOT.body.link_m), rel=1e-3)


def test_the_model_follows_the_simulator_in_free_space_while_base_and_muscles_move() -> None:
    made = model()
    made.set_field(FREE)
    controls = np.zeros((1, made.steps, 3))
    controls[..., 0], controls[..., 1], controls[..., 2] = 0.15, 0.3, -2.0
    predicted = LAYOUT.tip(made.rollout(LAYOUT.straight(0.027), controls))[0]
    sim = Simulator(plant_robot(ROBOT), [Scene("free")], Options(links=ROBOT.body.links))
    state = sim.start(0.0)
    fed = sim.controls(90, state)
    time_s = (np.arange(90) + 1) / 90
    fed[:, 0, 4] = np.minimum(ROBOT.slew[0] * time_s, 0.3)
    fed[:, 0, 5] = -np.minimum(ROBOT.slew[1] * time_s, 2.0)
    run = sim.rollout(state, fed)
    assert np.linalg.norm(run.state(29).tip()[0] - predicted[4]) < 2e-3
    assert np.linalg.norm(run.state(89).tip()[0] - predicted[14]) < 6e-3


def test_the_shipped_model_is_what_the_command_writes(tmp_path: Path) -> None:
    whole, short = write_models(ROBOT, tmp_path)
    assert whole.onnx_sha256 == ROBOT.model.sha256
    shipped = load_model_file(ROBOT.manifest_path.with_name("predict.json"), "vine", ROBOT.physics_hash)
    assert short.onnx_sha256 == shipped.manifest.onnx_sha256


def test_a_model_for_other_physics_is_refused() -> None:
    with pytest.raises(ModelError, match="other bodies"):
        load_model_file(ROBOT.manifest_path, "vine", "0" * 64)


def test_what_does_not_fit_the_model_is_refused() -> None:
    made = model()
    controls = np.zeros((2, made.steps, 3))
    with pytest.raises(ModelError, match="no field"):
        made.rollout(LAYOUT.straight(0.1), controls)
    with pytest.raises(ModelError, match="cells"):
        made.set_field(field_of([], (0.0, 0.0), (10, 10), 0.01))
    made.set_field(FREE)
    with pytest.raises(ModelError, match="steps"):
        made.rollout(LAYOUT.straight(0.1), controls[:, :3])
    controls[1, 2, 0] = np.nan
    with pytest.raises(NotANumberError):
        made.rollout(LAYOUT.straight(0.1), controls)


@pytest.mark.long
def test_the_error_against_the_simulator_is_small_at_the_replanning_horizon() -> None:
    found = model_error(ROBOT, 0, 10)["by_horizon_s"]
    assert found["0.33"]["median_mm"] < 1.5
    assert found["1.00"]["median_mm"] < 6.0
    assert found["0.33"]["median_mm"] < found["2.00"]["median_mm"]
