"""Scenes and guides: distances, known right penalties, A* against Dijkstra, refusals that name what is wrong."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from onboard.errors import ConfigError, PlanningError
from onboard.planning.contact.guide import SPACING_M, make_guide, voxel_path
from onboard.planning.contact.guide_search import normal_penalty, turning_history
from onboard.planning.contact.scene import load_scene
from onboard.planning.contact.worm import load_worm

SCENES = ("floor_wall_ceiling", "clutter", "ridge")


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm.toml")


def scene_of(root: Path, name: str):
    return load_scene(root / "robots" / "scenes" / f"worm_{name}.toml")


@pytest.mark.parametrize("name", SCENES)
def test_the_gradient_is_the_slope_of_the_distance(root: Path, name: str) -> None:
    scene = scene_of(root, name)
    rng = np.random.default_rng(0)
    points = rng.uniform(scene.low + 0.01, scene.high - 0.01, (300, 3))
    step = 1e-6
    slope = np.stack(
        [(scene.distance(points + step * e) - scene.distance(points - step * e)) / (2 * step) for e in np.eye(3)], axis=1
    )
    smooth = np.abs(np.linalg.norm(slope, axis=1) - 1) < 1e-4  # away from ridges of the distance field
    assert smooth.mean() > 0.95
    np.testing.assert_allclose(scene.gradient(points)[smooth], slope[smooth], atol=1e-5)


def test_distances_of_the_room_and_of_a_rounded_box_are_those_of_a_ruler(root: Path) -> None:
    room = scene_of(root, "floor_wall_ceiling")
    np.testing.assert_allclose(room.distance(np.array([[0.5, 0.3, 0.1], [1.17, 0.3, 0.3], [0.5, 0.3, 0.55]])), [0.1, 0.03, 0.05])
    clutter = scene_of(root, "clutter")
    # the box's top is at 0.18; the circle of its rounded edge has radius 0.03 about (x 0.96, z 0.15)
    assert clutter.distance(np.array([0.93, 0.08, 0.28])) == pytest.approx(0.10)
    corner = np.array([0.96, 0.08, 0.15])
    out = corner + 0.1 * np.array([1, 0, 1]) / np.sqrt(2)
    assert clutter.distance(out) == pytest.approx(0.07)


def test_a_right_angle_corner_costs_4_038() -> None:
    assert normal_penalty(0.0) == pytest.approx(np.pi / 2 + np.pi**2 / 4)
    assert normal_penalty(0.0) == pytest.approx(4.038, abs=1e-3)


def test_turning_18_degrees_forever_is_remembered_as_90() -> None:
    history = 0.0
    for _ in range(200):
        history = turning_history(history, np.deg2rad(18))
    assert np.rad2deg(history) == pytest.approx(90.0)
    assert turning_history(0.0, np.deg2rad(8.9)) == 0.0


def test_length_alone_gives_dijkstras_cost(root: Path, spec) -> None:
    import msgspec

    scene = scene_of(root, "ridge")
    numbers = msgspec.structs.replace(
        spec.guide, voxel_m=0.04, band_min_m=0.0, band_max_m=0.09, length=1.0, lift=0.0, sharp=0.0, normal=0.0, bend=0.0,
        non_coplanar=0.0,
    )  # fmt: skip
    start, goal = np.array([0.1, 0.2, 0.03]), np.array([1.35, 0.4, 0.03])
    _, cost = voxel_path(scene, numbers, start, goal)
    counts = np.round((scene.high - scene.low) / 0.04).astype(int)
    grid = np.stack(np.meshgrid(*[np.arange(c) for c in counts], indexing="ij"), -1).reshape(-1, 3)
    centres = scene.low + 0.04 * (grid + 0.5)
    distance = scene.distance(centres)
    usable = np.flatnonzero((distance >= 0.0) & (distance <= 0.09))
    gaps = np.abs(grid[usable][:, None] - grid[usable][None]).max(axis=2)
    rows, columns = np.nonzero(gaps == 1)
    lengths = 0.04 * np.linalg.norm(grid[usable][rows] - grid[usable][columns], axis=1)
    graph = csr_matrix((lengths, (rows, columns)), shape=(len(usable),) * 2)
    ends = [int(np.argmin(np.linalg.norm(centres[usable] - p, axis=1))) for p in (start, goal)]
    assert cost == pytest.approx(dijkstra(graph, indices=ends[0])[ends[1]], rel=1e-12)


def test_a_label_per_direction_never_costs_more(root: Path, spec) -> None:
    import msgspec

    scene = scene_of(root, "floor_wall_ceiling")
    start, goal = np.array([0.7, 0.2, 0.02]), np.array([1.0, 0.4, 0.58])
    costs = {}
    for labels in ("voxel", "direction"):
        numbers = msgspec.structs.replace(spec.guide, voxel_m=0.03, band_max_m=0.08, labels=labels)
        _, costs[labels] = voxel_path(scene, numbers, start, goal)
    assert costs["direction"] <= costs["voxel"] * 1.0001


def test_the_guide_leads_from_the_tail_over_the_wall_to_the_ceiling(root: Path, spec) -> None:
    scene = scene_of(root, "floor_wall_ceiling")
    body = np.column_stack([np.linspace(0.3, 0.66, 5), np.full(5, 0.3), np.full(5, 0.02)])
    guide = make_guide(scene, spec, body, np.array([0.9, 0.3, 0.6]))
    np.testing.assert_allclose(guide.line[0], body[0], atol=1e-9)
    assert np.linalg.norm(guide.line[-1] - [0.9, 0.3, 0.58]) < 2 * SPACING_M
    gaps = np.linalg.norm(np.diff(guide.line, axis=0), axis=1)  # chords: shorter where the line bends
    assert gaps.max() < 1.02 * SPACING_M and gaps.min() > 0.9 * SPACING_M
    assert guide.along[1] == pytest.approx(np.median(gaps), rel=0.01)
    # along floor, wall and ceiling at pad height, less what two rounded corners cut off
    assert 1.72 - 0.08 < guide.along[-1] < 1.72
    good = guide.valid[:, 0] == 1
    pads = guide.targets[good, 0, :, 3] - spec.pads.offset_m * guide.targets[good, 0, :, 0]
    np.testing.assert_allclose(scene.distance(pads), 0.0, atol=1e-9)
    turns = guide.targets[good, 0, :, :3]
    np.testing.assert_allclose(np.linalg.det(turns), 1.0, atol=1e-9)
    normals = turns[:, :, 0]
    on_wall = guide.targets[good, 0, :, 3][np.abs(guide.targets[good, 0, 2, 3] - 0.3) < 0.1]
    assert len(on_wall) > 10 and np.allclose(on_wall[:, 0], 1.18)
    assert normals[0, 2] > 0.99 and normals[-1, 2] < -0.99
    # near the corner the pad's ring would hang over: those places are not offered
    corner = np.linalg.norm(guide.line - [1.19, 0.3, 0.01], axis=1) < 0.012
    assert not np.any(guide.valid[corner, 0])


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ([0.9, 0.3, 0.3], "hangs in the air"),
        ([1.215, 0.3, 0.3], "inside matter"),
        ([3.0, 0.3, 0.0], "outside the scene"),
        ([np.nan, 0.3, 0.0], "finite"),
    ],
)
def test_a_goal_that_cannot_be_is_refused_by_name(root: Path, spec, goal: list, words: str) -> None:
    body = np.column_stack([np.linspace(0.3, 0.66, 5), np.full(5, 0.3), np.full(5, 0.02)])
    with pytest.raises(PlanningError, match=words):
        make_guide(scene_of(root, "floor_wall_ceiling"), spec, body, np.array(goal))


def test_a_scene_file_with_a_wrong_key_names_it(root: Path, tmp_path: Path) -> None:
    text = (root / "robots/scenes/worm_ridge.toml").read_text().replace("radius_m = 0.22", "radius = 0.22")
    (tmp_path / "ridge.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"solids\[1\].radius"):
        load_scene(tmp_path / "ridge.toml")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("count = 5", "count = 1", "links.count"),
        ("mass_kg = 0.03\nradius_m = 0.015\n\n[segments]", "mass = 0.03\nradius_m = 0.015\n\n[segments]", "links.mass"),
        ("length_max_m = 0.12", "length_max_m = 0.05", "length_max_m"),
        ("curvature_max_per_m = 15.0", "curvature_max_per_m = 80.0", "half a turn"),
        ("stiffening = 0.0", "stiffening = nan", "finite"),
    ],
)
def test_a_worm_file_with_a_wrong_value_names_it(root: Path, tmp_path: Path, old: str, new: str, words: str) -> None:
    text = (root / "robots/worm.toml").read_text()
    assert old in text
    (tmp_path / "worm.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=words):
        load_worm(tmp_path / "worm.toml")
