"""The plant has the masses, heights, speeds and contacts that were measured for it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from onboard.errors import NotANumberError, RobotFault
from sim.three_bar.course import Scene, box, load_course, scene_of, signed_distance
from sim.three_bar.mjcf import build_xml
from sim.three_bar.plant import Plant, flat_scene
from sim.three_bar.robot_file import ThreeBar
from sim.three_bar.rollouts import PlantRollouts

OFF = np.zeros(6)


def top_u(plant: Plant) -> float:
    return float(plant.caps()[:, 2].max()) + plant.spec.bodies.cap_radius_u


def test_a_rod_weighs_242_9_and_turns_like_a_rod(spec: ThreeBar, flat_plant: Plant) -> None:
    assert spec.bodies.rod_mass_g == pytest.approx(242.9)
    assert flat_plant.model.body_mass[1:] == pytest.approx([242.9] * 3)
    long_way, long_way_too, about_itself = flat_plant.model.body_inertia[1]
    assert (long_way, long_way_too) == pytest.approx((216.0, 216.0), rel=0.01)
    assert 2.5 < about_itself < 4.0


def test_it_stands_2_2_high_and_1_4_with_every_cable_short(standing: Plant) -> None:
    assert top_u(standing) == pytest.approx(2.2, abs=0.05)
    for _ in range(300):
        standing.step(np.clip(5.0 * (standing.rest_u - 0.8), -1.0, 1.0))
    assert standing.rest_u == pytest.approx([0.8] * 6, abs=0.01)
    assert top_u(standing) == pytest.approx(1.4, abs=0.1)


def test_it_stands_still_and_the_ground_carries_its_weight(standing: Plant) -> None:
    before = standing.caps()
    standing.run(OFF, 2.0)
    assert np.abs(standing.caps() - before).max() < 0.1  # contacts creep
    lift = 0.0
    for _ in range(300):
        standing.step(OFF)
        mujoco.mj_forward(standing.model, standing.data)
        for index in range(standing.data.ncon):
            wrench = np.zeros(6)
            mujoco.mj_contactForce(standing.model, standing.data, index, wrench)
            lift += wrench[0] / 300
    assert lift == pytest.approx(3 * 242.9 * 9.81, rel=0.01)


def test_a_slack_cable_pulls_nothing(standing: Plant) -> None:
    slack = standing.cable_lengths() + 0.3
    standing.data.ctrl[:] = slack
    mujoco.mj_forward(standing.model, standing.data)
    assert np.all(standing.data.actuator_force == 0.0)
    standing.data.ctrl[:] = standing.cable_lengths() - 0.01
    mujoco.mj_forward(standing.model, standing.data)
    assert standing.data.actuator_force == pytest.approx([-1000.0] * 6)


def test_driven_cables_behave_like_mujoco_springs_that_cannot_push(spec: ThreeBar, standing: Plant) -> None:
    """The actuator form of the cable against MuJoCo's own one-sided tendon spring, winding and letting out for 2 s."""
    xml = build_xml(spec, flat_scene(spec))
    head, _, rest = xml.partition("<actuator>")
    xml = head + rest.partition("</actuator>")[2]
    for i in range(6):
        xml = xml.replace(
            f'name="driven{i}"', f'name="driven{i}" stiffness="{spec.tendons.driven.stiffness_g_s2}" springlength="0 1.5"'
        )
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = standing.data.qpos, standing.data.qvel
    data.qacc_warmstart[:] = standing.data.qacc_warmstart
    commands = np.random.default_rng(1).uniform(-1, 1, (4, 6)).repeat(50, axis=0)
    for command in commands:
        standing.step(command)
        model.tendon_lengthspring[:6, 1] = standing.rest_u
        mujoco.mj_step(model, data)
    assert data.qpos == pytest.approx(standing.data.qpos, abs=1e-9)


def test_a_motor_at_full_command_winds_0_645_a_second_and_stops_at_the_ends(standing: Plant) -> None:
    start = standing.rest_u.copy()
    standing.step(np.ones(6))
    assert start - standing.rest_u == pytest.approx([0.5 * 0.00645] * 6, rel=1e-3)
    standing.run(np.ones(6), 1.0)
    assert start - standing.rest_u == pytest.approx([0.5 * 0.00645 + 0.645] * 6, rel=2e-3)
    standing.run(np.ones(6), 2.0)
    assert np.all(standing.rest_u == 0.4)
    standing.run(-np.ones(6), 5.0)
    assert np.all(standing.rest_u == 2.7)


def test_a_command_beyond_one_counts_as_one_and_a_nan_is_refused(standing: Plant) -> None:
    base = standing.snapshot()
    standing.step(np.full(6, 7.0))
    seven = standing.rest_u.copy()
    standing.restore(base)
    standing.step(np.ones(6))
    assert np.array_equal(seven, standing.rest_u)
    before = standing.snapshot()
    with pytest.raises(NotANumberError):
        standing.step(np.array([0.0, np.nan, 0, 0, 0, 0]))
    assert np.array_equal(standing.snapshot().physics, before.physics)


def test_an_exploding_simulation_is_reported_not_silently_restarted(standing: Plant) -> None:
    standing.data.qvel[:] = 1e9
    with pytest.raises(RobotFault, match="diverged"):
        standing.run(OFF, 1.0)
    assert standing.resets() > 0


def falling_pair(integrator: str) -> float:
    """Speed after 1 s of free fall of two bodies joined by a damped tendon that swings between them."""
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="0.01" integrator="{integrator}" gravity="0 0 -9.81"/><worldbody>
        <body><freejoint/><geom type="sphere" size=".1" mass="70"/><site name="a"/></body>
        <body pos="0 0 1"><freejoint/><geom type="sphere" size=".1" mass="70"/><site name="b"/></body>
        </worldbody><tendon><spatial damping="1000"><site site="a"/><site site="b"/></spatial></tendon></mujoco>"""
    )
    data = mujoco.MjData(model)
    for _ in range(100):
        mujoco.mj_step(model, data)
    return float(data.qvel[2])


def test_the_integrator_keeps_dampers_between_free_bodies_honest(spec: ThreeBar) -> None:
    """Implicit integrators drop the coupling and let such a pair fall too slowly; the plant's must not."""
    integrator = "Euler"
    assert f'integrator="{integrator}"' in build_xml(spec, flat_scene(spec))
    assert falling_pair(integrator) == pytest.approx(-9.81, abs=1e-6)
    assert falling_pair("implicitfast") > -9.0, "the trap is gone: implicit integrators could be tried again"


def test_a_rollout_is_the_same_as_stepping_to_nine_digits(standing: Plant) -> None:
    commands = np.random.default_rng(0).uniform(-1, 1, (3, 4, 6)).repeat(50, axis=1)
    base = standing.snapshot()
    caps = PlantRollouts(standing).caps_over(base, commands)
    for sample, sequence in zip(caps, commands, strict=True):
        standing.restore(base)
        for t, command in enumerate(sequence):
            standing.step(command)
            if t in (0, 99, 199):
                assert standing.caps() == pytest.approx(sample[t], abs=1e-9)


def test_a_small_push_does_not_grow(standing: Plant) -> None:
    """Not chaotic over the horizon of a plan. Later on rods that touch each other do part ways."""
    base = standing.snapshot()
    for seed in range(4):
        commands = np.random.default_rng(seed).uniform(-1, 1, (4, 6)).repeat(50, axis=0)
        ends = []
        for push in (0.0, 1e-4):
            standing.restore(base)
            standing.data.qvel[0] += push
            for command in commands:
                standing.step(command)
            ends.append(standing.caps())
        assert 0.0 < np.abs(ends[1] - ends[0]).max() < 2e-3


def _under_another(point: np.ndarray, others: np.ndarray) -> bool:
    return bool(signed_distance(point + np.array([0.0, 0.0, 0.1]), others).min(initial=np.inf) < 0.0)


@pytest.mark.parametrize("name", ["flat_obstacle", "incline", "narrow", "low_clearance", "three_d"])
def test_every_obstacle_of_a_course_is_solid(spec: ThreeBar, name: str) -> None:
    """The robot touches every box that it is put down on, or pushed against where another box lies on top."""
    plant = Plant(spec, scene_of(load_course(name)))
    for index, item in enumerate(plant.scene.boxes):
        top = item.centre + item.rotation[:, 2] * item.half[2]
        others = np.delete(plant.world[1:], index, axis=0)
        if not _under_another(top, others):
            plant.reset(*item.centre[:2])
        else:
            plant.reset(item.centre[0], item.centre[1] - item.half[1] - 2.0)
            plant.data.qvel[1::6] = 6.0
        touched = False
        for _ in range(60):
            plant.step(OFF)
            pairs = [{c.geom1, c.geom2} for c in plant.data.contact[: plant.data.ncon]]
            touched |= any(plant.model.geom(f"box{index}").id in pair for pair in pairs)
        assert touched, f"box {index} of {name} was fallen through"


def test_a_roll_into_a_wall_stops_at_the_wall(spec: ThreeBar) -> None:
    from sim.three_bar.gait import run_primitive

    wall = box((0.0, -4.0, 2.0), (6.0, 0.5, 2.0))
    plant = Plant(spec, Scene("wall", 1.8, 0.165, np.eye(3), (wall,)))
    # turned so that the roll runs towards -y
    plant.reset(yaw_rad=0.0)
    from sim.three_bar.pose import axis_angle

    plant.reset(yaw_rad=-float(axis_angle(plant.caps())))
    plant.settle()
    for _ in range(3):
        run_primitive(plant, spec.primitive("roll"))
    caps = plant.caps()
    assert caps[:, 1].min() > -3.5 + 0.1, "a cap went into the wall"
    assert caps[:, 1].mean() < -1.0, "it never got there"


def test_distances_agree_with_mujoco(spec: ThreeBar) -> None:
    """Signed distance of cap spheres to all boxes of the 3D course, against mj_geomDistance."""
    plant = Plant(spec, scene_of(load_course("three_d")))
    rng = np.random.default_rng(2)
    radius = spec.bodies.cap_radius_u
    seen = 0
    for _ in range(40):
        plant.data.qpos[:] = 0
        plant.data.qpos[3::7] = 1.0
        plant.data.qpos[0:3] = rng.uniform([-19, -19, 0.3], [19, 19, 3.0])
        mujoco.mj_kinematics(plant.model, plant.data)
        ours = signed_distance(plant.caps()[0], plant.world) - radius
        for index in range(len(plant.scene.boxes)):
            theirs = mujoco.mj_geomDistance(
                plant.model, plant.data, plant.model.geom("cap0").id, plant.model.geom(f"box{index}").id, 3.0, None
            )
            if theirs < 3.0:
                seen += 1
                assert ours[index + 1] == pytest.approx(theirs, abs=1e-5)
    assert seen > 40
