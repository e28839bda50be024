"""The strut tower's plant against known right values: statics, stiffness, bending, friction, time step.

Values without another source are the reference measurements of docs/plant.md.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import mujoco
import numpy as np
import pytest

from onboard.messages import Floats
from onboard.robot import RobotSpec, load_robot
from sim.tower.model import TowerModel, build_model
from sim.tower.plant import TowerPlant, bend_setpoints_pa

ROBOTS = Path(__file__).parents[2] / "robots"
GRAVITY = 9.81


@cache
def spec(robot: str = "manipulator") -> RobotSpec:
    return load_robot(ROBOTS / f"{robot}.toml")


def variant(friction: bool = True, timestep_s: float | None = None) -> RobotSpec:
    """The manipulator without friction in its cylinders, or at another time step."""
    base = spec()
    cables = base.structure.cables
    if not friction:
        cables = [msgspec.structs.replace(group, friction_stiffness_n_per_m=0.0, friction_yield_m=0.0) for group in cables]
    simulation = base.simulation
    if timestep_s is not None:
        simulation = msgspec.structs.replace(simulation, timestep_s=timestep_s)
    structure = msgspec.structs.replace(base.structure, cables=cables)
    return msgspec.structs.replace(base, structure=structure, simulation=simulation)


@cache
def compiled(friction: bool = True, timestep_s: float | None = None) -> TowerModel:
    return build_model(variant(friction, timestep_s))


def plant(friction: bool = True, seed: int = 1) -> TowerPlant:
    model = compiled(friction)
    return TowerPlant(model.spec, seed, model)


def run_s(tower: TowerPlant, seconds: float) -> TowerPlant:
    tower.step(round(seconds / tower.timestep_s))
    return tower


def tilt_deg(tower: TowerPlant) -> float:
    return float(np.degrees(tower.truth().tip_tilt_rad))


def fall_of_two_damped_bodies(integrator: mujoco.mjtIntegrator) -> float:
    """Speed after 1 s of free fall of two 0.2 kg bodies, one above the other, joined by a damper of 400 N s/m [m/s]."""
    world = mujoco.MjSpec()
    world.option.timestep, world.option.integrator = 0.001, integrator
    for name, z in (("lower", 0.0), ("upper", 1.0)):
        body = world.worldbody.add_body(name=name, pos=[0.0, 0.0, z])
        body.add_freejoint()
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.05, 0.0, 0.0], mass=0.2, contype=0, conaffinity=0)
        body.add_site(name=name)
    tendon = world.add_tendon(name="damper", damping=[400.0, 0.0, 0.0])
    tendon.wrap_site("lower")
    tendon.wrap_site("upper")
    model = world.compile()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=1000)
    return float(data.qvel[2])


def test_a_damper_between_two_falling_bodies_does_not_brake_their_fall() -> None:
    assert fall_of_two_damped_bodies(mujoco.mjtIntegrator.mjINT_DISCRETE) == pytest.approx(-GRAVITY, abs=1e-3)
    assert compiled().mj.opt.integrator == mujoco.mjtIntegrator.mjINT_DISCRETE


def test_the_implicit_integrators_would_brake_the_fall_silently() -> None:
    for wrong in (mujoco.mjtIntegrator.mjINT_IMPLICITFAST, mujoco.mjtIntegrator.mjINT_IMPLICIT):
        assert fall_of_two_damped_bodies(wrong) == pytest.approx(-3.27, abs=0.01)


def test_the_upright_tower_stands_at_its_known_height() -> None:
    truth = plant().truth()
    np.testing.assert_allclose(truth.tip_m, [0.0, 0.0, 1.1574], atol=5e-4)
    assert np.degrees(truth.tip_tilt_rad) < 0.1
    assert truth.warp_m.max() < 1e-3


def test_the_struts_are_as_the_geometry_says() -> None:
    tower = spec().structure
    assert tower.strut_length_m == pytest.approx(0.3009, abs=2e-4)
    inclination = np.degrees(np.arccos(plant().truth().direction[:, 2]))
    np.testing.assert_allclose(inclination, 39.6, atol=0.6)


def tendon_forces(tower: TowerPlant) -> list[tuple[int, int, Floats]]:
    """(body, other body, force on body (3,)) of every loop edge, from lengths alone."""
    mj, data = tower.model.mj, tower.data
    out = []
    for edge in tower.model.edge:
        address = mj.tendon_adr[edge]
        a, b = mj.wrap_objid[address], mj.wrap_objid[address + 1]
        arm = data.site_xpos[b] - data.site_xpos[a]
        length = float(np.linalg.norm(arm))
        tension = max(0.0, length - mj.tendon_lengthspring[edge, 1]) * mj.tendon_stiffness[edge]
        out.append((int(mj.site_bodyid[a]), int(mj.site_bodyid[b]), tension * arm / length))
    return out


def test_the_base_struts_carry_the_whole_weight() -> None:
    tower = run_s(plant(friction=False), 4.0)
    tower.truth()
    base = {int(body) for body in tower.model.strut_body[:4]}
    pull = np.zeros(3)
    for a, b, force in tendon_forces(tower):
        if (a in base) != (b in base):
            pull += force if a in base else -force
    carried = 4 * 0.2 * GRAVITY - pull[2]
    assert carried == pytest.approx(20 * 0.2 * GRAVITY, abs=0.01)
    np.testing.assert_allclose(pull[:2], 0.0, atol=0.05)


def test_at_rest_every_strut_is_in_balance() -> None:
    tower = run_s(plant(), 8.0)
    free = np.flatnonzero(tower.model.mj.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    residual = [0.2 * tower.data.qacc[adr : adr + 3] for adr in tower.model.mj.jnt_dofadr[free]]
    assert np.abs(residual).max() <= 2e-4


@pytest.mark.parametrize("robot", ["manipulator", "module_rig"])
def test_at_rest_every_accelerometer_reads_gravity(robot: str) -> None:
    tower = run_s(TowerPlant(spec(robot), seed=2), 8.0)
    force, rate = tower.imu_truth()
    np.testing.assert_allclose(np.linalg.norm(force, axis=1), 9.810, atol=2e-3)
    assert np.abs(rate).max() < 1e-3
    # In strut axes z runs along the strut: what gravity leaves there is the cosine of the inclination.
    np.testing.assert_allclose(force[:, 2] / 9.81, tower.truth().direction[:, 2], atol=2e-4)


def test_the_tip_has_the_known_lateral_stiffness() -> None:
    tower = plant(friction=False)
    start = tower.truth().tip_m[0]
    tower.push([1.0, 0.0, 0.0])
    moved = run_s(tower, 8.0).truth().tip_m[0] - start
    assert 1.0 / moved == pytest.approx(24.7, rel=0.05)


def test_a_push_of_five_newton_moves_the_tip_and_it_comes_back() -> None:
    tower = plant()
    start = tower.truth().tip_m
    tower.push([5.0, 0.0, 0.0])
    pushed = run_s(tower, 6.0).truth().tip_m - start
    assert pushed[0] == pytest.approx(0.152, abs=0.008)
    assert abs(pushed[1]) < 0.01
    tower.release()
    left = run_s(tower, 8.0).truth().tip_m - start
    assert 0.002 < np.linalg.norm(left) < 0.02  # friction keeps about 11 mm


@pytest.mark.parametrize("azimuth_deg", range(0, 360, 45))
def test_the_tip_bends_by_45_degrees_in_each_of_the_eight_directions(azimuth_deg: int) -> None:
    tower = plant()
    tower.set_setpoints(bend_setpoints_pa(spec(), np.radians(azimuth_deg), 1.2e5))
    truth = run_s(tower, 2.5).truth()
    assert np.degrees(truth.tip_tilt_rad) >= 45.0
    gap = np.arctan2(truth.tip_m[1], truth.tip_m[0]) - np.radians(azimuth_deg)
    assert abs(np.degrees(np.arctan2(np.sin(gap), np.cos(gap)))) < 3.0
    assert 1e-3 < truth.warp_m.max() < 8e-3  # the loops really warp


def test_opposite_pressures_bend_it_alike_without_friction() -> None:
    tilts = []
    for azimuth in (0.0, np.pi):
        tower = plant(friction=False)
        tower.set_setpoints(bend_setpoints_pa(spec(), azimuth, 1.0e5))
        tilts.append(tilt_deg(run_s(tower, 8.0)))
    assert abs(tilts[0] - tilts[1]) < 0.05


def test_friction_makes_it_bend_less_on_the_way_up_than_on_the_way_down() -> None:
    tower = plant()
    tilt = []
    for amplitude in (1.0e5, 2.0e5, 1.0e5):
        tower.set_setpoints(bend_setpoints_pa(spec(), 0.0, amplitude))
        tilt.append(tilt_deg(run_s(tower, 4.0)))
    assert tilt[0] == pytest.approx(43.5, abs=3.0)
    assert tilt[2] == pytest.approx(57.6, abs=3.0)


def test_a_pressure_step_settles_within_its_known_time() -> None:
    tower = plant()
    tower.set_setpoints(bend_setpoints_pa(spec(), 0.0, 1.0e5))
    track = np.array([tilt_deg(run_s(tower, 0.05)) for _ in range(160)])
    final = track[-20:].mean()
    outside = np.flatnonzero(np.abs(track - final) > 0.05 * final)
    assert 0.05 * (outside[-1] + 1) < 3.5
    assert 1.02 < track.max() / final < 1.2


@pytest.mark.parametrize("timestep_s", [0.001, 0.004])
def test_the_time_step_does_not_decide_where_it_ends(timestep_s: float) -> None:
    tips = []
    for step in (None, timestep_s):
        model = compiled(True, step)
        tower = TowerPlant(model.spec, 1, model)
        tower.set_setpoints(bend_setpoints_pa(spec(), 0.0, 1.0e5))
        tips.append(run_s(tower, 3.0).truth().tip_m)
    np.testing.assert_allclose(tips[0], tips[1], atol=4e-3)
