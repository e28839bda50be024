"""Robot and course files are checked to the key, and courses have the openings that their descriptions promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onboard.errors import ConfigError
from onboard.resources import robot_file
from sim.three_bar.course import COURSES, load_course, scene_of, signed_distance
from sim.three_bar.robot_file import load_robot, physics_hash

ROBOT = robot_file("three_bar")


def edited(tmp_path: Path, old: str, new: str) -> Path:
    text = ROBOT.read_text()
    assert old in text
    path = tmp_path / "three_bar.toml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("friction = 1.8", 'friction = "1.8"', "contact.friction"),
        ("friction = 1.8", "friction = true", "contact.friction"),
        ("friction = 1.8", "friction = nan", "contact.friction"),
        ("friction = 1.8", "friction = -1.0", "contact.friction"),
        ("friction = 1.8", "friction = 1e400", "contact.friction"),
        ("friction = 1.8", "friction = 1.8\nslip = 1.0", "contact"),
        ("friction = 1.8", "friction = 1.8\nfriction = 1.7", ""),
        ("step_s = 0.01", "step_s = 0.5", "plant.step_s"),
        ("rest_start_u = 1.5", "rest_start_u = 2.8", "actuators.rest_start_u"),
        ("[0.797, 0.967, 0.254]", "[0.997, 0.967, 0.254]", "bodies.start_caps_u"),
        ("rods = [[0, 1]", "rods = [[0, 0]", "bodies.rods"),
        ("order = [1, 2, 0, 4, 5, 3]", "order = [1, 2, 0, 4, 5, 5]", "symmetry.order"),
        ('name = "cw"', 'name = "roll"', "primitives.name"),
        ("format = 1", "format = 2", "format"),
        ("format = 1", "\ufeffformat = 1", ""),
    ],
)
def test_a_wrong_robot_file_is_refused_by_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = edited(tmp_path, old, new)
    with pytest.raises(ConfigError) as caught:
        load_robot(path)
    assert caught.value.file == str(path)
    assert caught.value.key.startswith(key)


def test_the_physics_hash_sees_bodies_but_not_gaits(tmp_path: Path) -> None:
    original = physics_hash()
    assert physics_hash(edited(tmp_path, "rest_u = 0.65", "rest_u = 0.66")) != original
    assert physics_hash(edited(tmp_path, "proportional = 6.0", "proportional = 7.0")) == original


@pytest.mark.parametrize("name", COURSES)
def test_start_and_goal_are_free_and_on_the_map(name: str) -> None:
    course = load_course(name)
    world = scene_of(course).world()
    for point in (course.start, course.goal):
        ground = ground_u(world, point.x_u, point.y_u)
        above = np.array([point.x_u, point.y_u, ground + 0.8])
        assert signed_distance(above, world).min() > 0.7


def ground_u(world: np.ndarray, x: float, y: float, ceiling_from: float = 1.4) -> float:
    """Height of the highest surface below `ceiling_from` + that surface, probed downwards from 2.0."""
    z = np.arange(2.0, -0.5, -0.001)
    points = np.stack([np.full_like(z, x), np.full_like(z, y), z], axis=1)
    solid = signed_distance(points, world).min(axis=1) <= 0.0
    return float(z[np.argmax(solid)])


def test_ramps_meet_what_they_lead_to() -> None:
    incline = scene_of(load_course("incline")).world()
    slope = [ground_u(incline, x, 0.0) for x in (-9.99, -5.0, 0.0, 5.0, 9.99, 12.0)]
    assert slope == pytest.approx([0.0, 0.441, 0.882, 1.322, 1.763, 1.763], abs=0.004)
    assert np.degrees(np.arctan2(slope[3] - slope[1], 10.0)) == pytest.approx(5.04, abs=0.02)
    course = scene_of(load_course("three_d")).world()
    up = [ground_u(course, x, -15.0) for x in (12.0, 9.99, 5.0, 0.01, -5.0)]
    assert up == pytest.approx([0.0, 0.001, 0.441, 0.881, 0.882], abs=0.004)
    on = [ground_u(course, -5.0, y) for y in (-10.01, -9.99, -5.0, -0.01, 0.5)]
    assert on == pytest.approx([0.882, 0.883, 1.323, 1.763, 1.764], abs=0.004)
    assert ground_u(course, -11.0, 0.0) == pytest.approx(1.764, abs=0.002)


def test_openings_have_their_sizes() -> None:
    beam = scene_of(load_course("low_clearance")).world()
    assert signed_distance(np.array([4.0, 0.0, 0.75]), beam).min() == pytest.approx(0.75)
    narrow = scene_of(load_course("narrow")).world()
    assert signed_distance(np.array([-12.0, 0.0, 2.5]), narrow)[1:].min() == pytest.approx(2.0)
    assert signed_distance(np.array([-7.75, -19.0, 2.5]), narrow)[1:].min() == pytest.approx(2.0)
    course = scene_of(load_course("three_d")).world()
    assert signed_distance(np.array([18.0, 8.0, 2.2]), course)[1:].min() == pytest.approx(2.0)
    assert signed_distance(np.array([18.0, 0.25, 0.75]), course).min() == pytest.approx(0.75)


def test_a_course_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(ConfigError, match="incline"):
        load_course("moon")


def test_a_world_is_padded_with_objects_that_are_nowhere() -> None:
    scene = scene_of(load_course("flat_obstacle"))
    world = scene.world(rows=6)
    assert world.shape == (6, 16)
    assert np.isinf(signed_distance(np.zeros(3), world)[3:]).all()
    with pytest.raises(ValueError, match="more than 2 rows"):
        scene.world(rows=2)
