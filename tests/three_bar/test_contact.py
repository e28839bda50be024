"""Contact detection gives MuJoCo's distances and the gradients of finite differences."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from offboard.three_bar.contact import FAR_U, box_distance, cap_contacts, segment_distance  # noqa: E402
from offboard.three_bar.terrains import TERRAINS, random_ground  # noqa: E402
from sim.three_bar.course import COURSES, load_course, scene_of, signed_distance  # noqa: E402
from sim.three_bar.plant import Plant  # noqa: E402
from sim.three_bar.robot_file import ThreeBar  # noqa: E402


def scenes(rng: np.random.Generator) -> list:
    return [scene_of(load_course(name)) for name in COURSES] + [random_ground(rng, name).scene for name in TERRAINS]


def test_distances_and_normals_are_those_of_the_plant(spec: ThreeBar) -> None:
    """Distances against MuJoCo's own, sphere by sphere and box by box; stepping along the normal changes them one to one."""
    rng = np.random.default_rng(0)
    checked = 0
    for scene in scenes(rng):
        plant = Plant(spec, scene)
        world = torch.tensor(plant.world)
        for _ in range(25):
            item = plant.world[int(rng.integers(len(plant.world)))]
            point = item[:3] + item[6:15].reshape(3, 3) @ (item[3:6] * rng.uniform(-1.1, 1.1, 3)).clip(-25, 25)
            distance, normal, closest = box_distance(torch.tensor(point), world)
            assert torch.linalg.norm(normal, dim=-1).numpy() == pytest.approx(1.0, abs=1e-3)
            plant.data.qpos[3:7] = [1.0, 0, 0, 0]
            plant.data.qpos[:3] = point + np.array([0, 0, spec.bodies.cap_distance_u / 2])
            mujoco.mj_kinematics(plant.model, plant.data)
            for index in range(len(scene.boxes)):
                theirs = mujoco.mj_geomDistance(
                    plant.model, plant.data, plant.model.geom("cap0").id, plant.model.geom(f"box{index}").id, 5.0, None
                )
                if -0.1 < theirs < 4.9:
                    checked += 1
                    assert distance[index + 1].item() - 0.175 == pytest.approx(theirs, abs=1e-4)
            assert signed_distance(point, plant.world) == pytest.approx(distance.numpy(), abs=1e-6)
            moved = torch.tensor(point) + 1e-4 * normal
            for k in range(len(plant.world)):
                step = box_distance(moved[k], world)[0][k] - distance[k]
                assert step.item() == pytest.approx(1e-4, rel=0.02)
                assert signed_distance(closest[k].numpy(), plant.world)[k] == pytest.approx(0.0, abs=1e-5)
    assert checked > 60


def test_cap_contacts_of_a_resting_robot_are_mujocos_contacts(spec: ThreeBar) -> None:
    ground = random_ground(np.random.default_rng(5), "tilted")
    plant = Plant(spec, ground.scene)
    plant.reset()
    plant.settle()
    caps = torch.tensor(plant.caps())
    found = cap_contacts(caps, torch.zeros_like(caps), torch.tensor(ground.scene.world(4)), 0.175)
    touching = {i for i in range(6) if found.distance[i, 0] < 0.005}
    theirs = set()
    for contact in plant.data.contact[: plant.data.ncon]:
        names = {plant.model.geom(contact.geom1).name, plant.model.geom(contact.geom2).name}
        for i in range(6):
            if names == {"floor", f"cap{i}"}:
                theirs.add(i)
                assert found.distance[i, 0].item() == pytest.approx(contact.dist, abs=2e-3)
                assert np.abs(found.normal[i, 0].numpy() @ contact.frame[:3]) == pytest.approx(1.0, abs=1e-6)
    assert len(theirs) == 3
    assert theirs <= touching


def test_velocities_split_into_parting_and_sliding() -> None:
    world = torch.tensor(scene_of(load_course("narrow")).world())
    caps = torch.tensor([[-5.3, 0.0, 1.0]], dtype=torch.float64)
    velocity = torch.tensor([[-2.0, 3.0, 0.5]], dtype=torch.float64)
    near = cap_contacts(caps, velocity, world, 0.175)
    assert near.distance[0].numpy() == pytest.approx([0.2 - 0.175, 1.0 - 0.175], abs=1e-6)
    assert near.normal[0, 0].numpy() == pytest.approx([1.0, 0, 0], abs=1e-6)
    assert near.normal_speed[0].numpy() == pytest.approx([-2.0, 0.5], abs=1e-6)
    assert near.sliding[0, 0].numpy() == pytest.approx([0, 3.0, 0.5], abs=1e-6)
    assert near.closest[0, 0].numpy() == pytest.approx([-5.5, 0, 1.0], abs=1e-6)
    assert near.friction[0].numpy() == pytest.approx([1.8, 1.8])


def test_rows_that_are_no_object_are_far_away() -> None:
    world = torch.zeros(3, 16, dtype=torch.float64)
    assert box_distance(torch.zeros(3, dtype=torch.float64), world)[0].tolist() == [FAR_U] * 3


def test_segments_against_mujocos_capsules() -> None:
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/><geom name="a" type="capsule" size=".2 1.475" mass="1"/></body>
        <body><freejoint/><geom name="b" type="capsule" size=".2 1.475" mass="1"/></body></worldbody></mujoco>"""
    )
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    for _ in range(200):
        ends = []
        for body in range(2):
            data.qpos[7 * body : 7 * body + 3] = rng.uniform(-1.5, 1.5, 3)
            quaternion = rng.normal(size=4)
            data.qpos[7 * body + 3 : 7 * body + 7] = quaternion / np.linalg.norm(quaternion)
        mujoco.mj_kinematics(model, data)
        for body in range(2):
            axis = data.geom_xmat[body].reshape(3, 3)[:, 2] * 1.475
            ends += [torch.tensor(data.geom_xpos[body] - axis), torch.tensor(data.geom_xpos[body] + axis)]
        theirs = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None)
        ours = segment_distance(*ends)
        if theirs > -0.39:
            assert ours.distance.item() - 0.4 == pytest.approx(theirs, abs=1e-5)
        at = ends[0] + ours.s * (ends[1] - ends[0]) - ends[2] - ours.t * (ends[3] - ends[2])
        assert torch.linalg.norm(at).item() == pytest.approx(ours.distance.item(), abs=1e-6)


def test_parallel_and_touching_segments_stay_finite() -> None:
    z = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    x = torch.tensor([1.0, 0, 0], dtype=torch.float64)
    y = torch.tensor([0.0, 1.0, 0], dtype=torch.float64)
    parallel = segment_distance(z, x, y, x + y)
    assert parallel.distance.item() == pytest.approx(1.0)
    crossing = segment_distance(z, x, 0.5 * x - y, 0.5 * x + y)
    crossing.distance.backward()
    assert crossing.distance.item() < 1e-5
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("what", ["box", "segments"])
def test_gradients_agree_with_finite_differences(what: str) -> None:
    rng = np.random.default_rng(7)
    world = torch.tensor(scene_of(load_course("three_d")).world())
    for _ in range(20):
        if what == "box":
            point = torch.tensor(rng.uniform([-9, -19, 1.0], [19, 19, 2.4]), requires_grad=True)
            velocity = torch.tensor(rng.normal(size=3))

            def measure(p: torch.Tensor, velocity: torch.Tensor = velocity) -> torch.Tensor:
                near = cap_contacts(p, velocity, world, 0.175)
                return (near.distance * torch.tensor([1.0, 0.3])).sum() + 0.2 * near.normal_speed.sum()
        else:
            point = torch.tensor(rng.normal(size=3), requires_grad=True)
            others = [torch.tensor(rng.normal(size=3)) for _ in range(3)]

            def measure(p: torch.Tensor, others: list = others) -> torch.Tensor:
                pair = segment_distance(p, *others)
                return pair.distance + 0.2 * pair.s + 0.1 * pair.normal[0]

        (gradient,) = torch.autograd.grad(measure(point), point)
        for axis in range(3):
            step = torch.zeros(3, dtype=torch.float64)
            step[axis] = 1e-6
            numeric = (measure(point.detach() + step) - measure(point.detach() - step)).item() / 2e-6
            assert gradient[axis].item() == pytest.approx(numeric, abs=2e-4)


def test_a_batch_gives_what_each_alone_gives() -> None:
    rng = np.random.default_rng(3)
    worlds = torch.tensor(np.stack([scene.world(16) for scene in scenes(rng)]))
    points = torch.tensor(rng.uniform(-5, 5, (6, len(worlds), 3)))
    velocity = torch.tensor(rng.normal(size=points.shape))
    together = cap_contacts(points, velocity, worlds, 0.175)
    alone = cap_contacts(points[2, 4], velocity[2, 4], worlds[4], 0.175)
    assert torch.allclose(together.distance[2, 4], alone.distance)
    assert torch.allclose(together.sliding[2, 4], alone.sliding)
