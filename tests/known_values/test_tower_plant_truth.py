"""What the plant says about itself: disc fits, inertial truth, refusals, and that it never breaks down in silence."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from onboard.errors import ConfigError, NotANumberError, UsageError
from onboard.robot import RobotSpec, load_robot
from sim.tower.model import TowerModel, build_model
from sim.tower.plant import PlantError, TowerPlant, bend_setpoints_pa
from sim.tower.prestress import solve_prestress
from sim.tower.truth import DiscFit

ROBOTS = Path(__file__).parents[2] / "robots"


@cache
def model(robot: str = "manipulator") -> TowerModel:
    return build_model(load_robot(ROBOTS / f"{robot}.toml"))


def plant(robot: str = "manipulator", seed: int = 1) -> TowerPlant:
    return TowerPlant(model(robot).spec, seed, model(robot))


def with_structure(**changes: object) -> RobotSpec:
    spec = model().spec
    return msgspec.structs.replace(spec, structure=msgspec.structs.replace(spec.structure, **changes))


def test_a_rigidly_moved_tower_is_fitted_exactly() -> None:
    tower = model().spec.structure
    lower, upper = tower.rest_joints_m()
    position, rotation, warp = DiscFit(tower).fit(lower, upper)
    np.testing.assert_allclose(position[:, 2], tower.module_height_m * np.arange(6), atol=1e-12)
    np.testing.assert_allclose(rotation, np.broadcast_to(np.eye(3), (6, 3, 3)), atol=1e-12)
    turn = Rotation.from_rotvec([0.4, -1.1, 2.0]).as_matrix()
    shift = np.array([0.1, 0.2, -0.3])
    moved, turned, warp = DiscFit(tower).fit(lower @ turn.T + shift, upper @ turn.T + shift)
    np.testing.assert_allclose(moved, position @ turn.T + shift, atol=1e-12)
    np.testing.assert_allclose(turned, np.broadcast_to(turn, (6, 3, 3)), atol=1e-12)
    np.testing.assert_allclose(warp, 0.0, atol=1e-12)


def test_a_saddle_shows_as_warp_and_not_as_motion() -> None:
    tower = model().spec.structure
    lower, upper = tower.rest_joints_m()
    upper[-1, :, 2] += 0.003 * (-1.0) ** np.arange(4)
    position, rotation, warp = DiscFit(tower).fit(lower, upper)
    np.testing.assert_allclose(position[-1], [0.0, 0.0, tower.rest_height_m], atol=1e-12)
    np.testing.assert_allclose(rotation[-1], np.eye(3), atol=1e-12)
    assert warp[-1] == pytest.approx(0.003, abs=1e-12)


def test_the_gyroscope_agrees_with_how_the_struts_turn() -> None:
    tower = plant()
    tower.set_setpoints(bend_setpoints_pa(tower.spec, 0.7, 1.5e5))
    tower.step(150)
    before = [tower.data.xmat[b].reshape(3, 3).copy() for b in tower.model.strut_body]
    tower.step(2)
    _, rate = tower.imu_truth()  # of the middle of the two steps
    tower.truth()
    after = [tower.data.xmat[b].reshape(3, 3).copy() for b in tower.model.strut_body]
    # mj_step leaves the poses of the step's start behind: `before` lies one step earlier than its name says.
    turned = np.array([Rotation.from_matrix(a.T @ b).as_rotvec() for a, b in zip(before, after, strict=True)])
    np.testing.assert_allclose(turned / (3 * tower.timestep_s), rate, atol=0.05 * np.abs(rate).max())
    assert np.abs(rate).max() > 0.2


def test_the_accelerometer_agrees_with_how_the_struts_move() -> None:
    tower = plant()
    tower.set_setpoints(bend_setpoints_pa(tower.spec, 0.7, 1.5e5))
    tower.step(120)
    middles, axes, sensed = [], [], []
    for _ in range(40):
        tower.truth()
        middles.append(tower.data.xipos[tower.model.strut_body].copy())
        axes.append(tower.data.xmat[tower.model.strut_body].reshape(-1, 3, 3).copy())
        tower.step()
        sensed.append(tower.imu_truth()[0])
    # Mean over many steps: the second difference of a position is the mean acceleration between its neighbours.
    h, span = tower.timestep_s, 15
    centre = 20
    moved = (middles[centre + span] - 2.0 * middles[centre] + middles[centre - span]) / (span * h) ** 2
    world = np.array([np.einsum("nij,nj->ni", r, f) for r, f in zip(axes, sensed, strict=True)]) - [0.0, 0.0, 9.81]
    weight = np.concatenate([np.arange(1, span + 1), np.arange(span - 1, 0, -1)]) / span**2
    mean = np.einsum("t,tni->ni", weight, world[centre - span : centre + span - 1])
    np.testing.assert_allclose(mean, moved, atol=0.05 * np.abs(moved).max())
    assert np.abs(moved).max() > 0.3


def test_looking_does_not_change_the_motion_and_the_seed_decides_it() -> None:
    watched, alone, other = plant(seed=3), plant(seed=3), plant(seed=4)
    for tower in (watched, alone, other):
        tower.set_setpoints(bend_setpoints_pa(tower.spec, 0.3, 1.0e5))
    for _ in range(40):
        for tower in (watched, alone, other):
            tower.step(5)
        watched.truth()
    assert np.array_equal(watched.data.qpos, alone.data.qpos)
    assert not np.array_equal(watched.data.qpos, other.data.qpos)


def test_chambers_follow_set_points_with_the_valves_time_constant() -> None:
    tower = plant()
    tower.set_setpoints(np.full(40, 5.5e5))
    tower.step(40)  # 0.08 s: one time constant
    rise = (tower.pressures_pa() - 3.5e5) / 2.0e5
    np.testing.assert_allclose(rise, 1.0 - np.exp(-1.0), atol=1e-6)


def test_set_points_outside_the_valves_range_are_clamped_and_nonsense_is_refused() -> None:
    tower = plant()
    tower.set_setpoints(np.full(40, 9e5))
    tower.step(1000)
    assert tower.pressures_pa().max() <= 6.0e5
    with pytest.raises(NotANumberError, match="channel 7"):
        tower.set_setpoints([np.nan if c == 7 else 3.5e5 for c in range(40)])
    with pytest.raises(UsageError, match="40 channels"):
        tower.set_setpoints([3.5e5])
    with pytest.raises(UsageError, match="loop 0"):
        tower.push([1.0, 0.0, 0.0], loop=0)
    with pytest.raises(NotANumberError):
        tower.push([np.inf, 0.0, 0.0])


@pytest.mark.parametrize("what", ["qpos", "qvel", "ctrl"])
def test_a_not_a_number_inside_the_simulator_fails_the_trial_loudly(what: str) -> None:
    tower = plant()
    getattr(tower.data, what)[5] = np.nan
    with pytest.raises(PlantError, match="broke down"):
        tower.step()
    assert tower.warnings


def test_a_simulator_that_resets_itself_is_noticed() -> None:
    tower = plant()
    tower.step(100)
    tower.data.time = 0.0
    with pytest.raises(PlantError, match="reset itself"):
        tower.step()


def test_no_log_file_appears_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tower = plant()
    tower.data.qpos[5] = np.nan
    with pytest.raises(PlantError):
        tower.step()
    assert list(tmp_path.iterdir()) == []


def test_a_twist_that_tension_cannot_hold_is_refused_with_the_one_that_it_can() -> None:
    with pytest.raises(ConfigError, match=r"balance at 146\.7 degrees") as refused:
        build_model(with_structure(strut_twist_deg=45.0))
    assert refused.value.key == "structure.strut_twist_deg"


def test_equal_bores_balance_at_their_known_twist() -> None:
    cables = [msgspec.structs.replace(group, piston_area_m2=7.0e-4) for group in model().spec.structure.cables]
    balanced = solve_prestress(with_structure(strut_twist_deg=162.8, cables=cables))
    assert balanced.residual_n < 0.02 * balanced.cable_tension_n.max()
    assert with_structure(strut_twist_deg=162.8).structure.strut_length_m == pytest.approx(0.3048, abs=1e-4)


def test_force_densities_obey_the_balance_of_the_strut_twist() -> None:
    spec = model().spec
    balance = solve_prestress(spec)
    tower = spec.structure
    lower, upper = tower.rest_joints_m()
    length = np.array([np.linalg.norm(upper[m, j] - lower[m, i]) for m, j, i in tower.cable_ends()])
    assert length[0] == pytest.approx(0.25071, abs=5e-5)
    assert length[4] == pytest.approx(0.23896, abs=5e-5)
    q1, q2 = balance.cable_tension_n[0] / length[0], balance.cable_tension_n[4] / length[4]
    twist = np.degrees(np.arctan2(q1, -(q1 + 2.0 * q2)))
    assert twist == pytest.approx(tower.strut_twist_deg, abs=0.1)
    assert balance.edge_tension_n.min() > 100.0


def test_the_rig_stands_from_its_file_alone_and_comes_back_from_a_push() -> None:
    rig = plant("module_rig")
    assert rig.channels == 0
    start = rig.truth()
    assert start.tip_m[2] == pytest.approx(0.232, abs=2e-3)
    rig.push([5.0, 0.0, 0.0])
    rig.step(2000)
    assert np.linalg.norm(rig.truth().tip_m - start.tip_m) > 1e-3
    rig.release()
    rig.step(2000)
    np.testing.assert_allclose(rig.truth().tip_m, start.tip_m, atol=1e-4)
