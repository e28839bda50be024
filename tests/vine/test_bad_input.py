"""Bad input to the vine simulator is refused with a sentence that says what would be right."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import ConfigError
from sim.vine import Options, Robot, Scene, Simulator, UnitsWarning, VineError, box, circle, load_scene, polygon, wall
from sim.vine.kernels.work import FULL

FREE = Scene("free")


def test_a_self_crossing_polygon_is_refused() -> None:
    with pytest.raises(VineError, match="crosses itself"):
        polygon([(0, 0), (1, 1), (1, 0), (0, 1)])


def test_a_pentagram_is_refused() -> None:
    angles = np.arange(5) * 4 * np.pi / 5
    with pytest.raises(VineError, match="crosses itself"):
        polygon(np.stack([np.cos(angles), np.sin(angles)], axis=1))


def test_a_concave_polygon_is_refused() -> None:
    with pytest.raises(VineError, match="not convex"):
        polygon([(0, 0), (1, 0), (0.2, 0.2), (0, 1)])


def test_a_clockwise_polygon_is_turned() -> None:
    corners = polygon([(0, 0), (0, 1), (1, 1), (1, 0)]).corners
    after = np.roll(corners, -1, axis=0)
    assert np.sum(corners[:, 0] * after[:, 1] - after[:, 0] * corners[:, 1]) > 0


def test_a_wall_without_length_is_refused() -> None:
    with pytest.raises(VineError, match="no length"):
        wall((0.1, 0.2), (0.1, 0.2))


def test_a_start_inside_an_obstacle_is_refused() -> None:
    sim = Simulator(Robot(), [Scene("blocked", (circle(0.02, 0.0, 0.03),))], Options(links=8))
    with pytest.raises(VineError, match="inside an obstacle"):
        sim.start(0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"half_length_m": 0.0}, "half_length_m"),
        ({"pressure_pa": -1e3}, "pressure_pa"),
        ({"law": "wrinkling", "pressure_pa": 3e4}, "20000"),
        ({"mass_kg": float("nan")}, "mass_kg"),
        ({"law": "elastic"}, "law"),
        ({"network": (1.0,)}, "network"),
    ],
)
def test_impossible_parameters_are_refused(change: dict, message: str) -> None:
    with pytest.raises(VineError, match=message):
        Robot(**change)


def test_units_mixed_up_are_warned_about() -> None:
    with pytest.warns(UnitsWarning, match="millimetres"):
        Robot(half_length_m=9.0)
    with pytest.warns(UnitsWarning, match="kilopascals"):
        Robot(pressure_pa=10.0)


def test_controls_are_checked() -> None:
    sim = Simulator(Robot(), [FREE], Options(links=8))
    state = sim.start(0.0)
    good = sim.controls(3, state)
    for channel, value, message in ((0, np.nan, "finite"), (0, -0.1, "retract"), (0, 150.0, "link a frame")):
        bad = good.copy()
        bad[1, 0, channel] = value
        with pytest.raises(VineError, match=message):
            sim.rollout(state, bad)
    bad = good.copy()
    bad[0, 0, 1] = -5.0
    with pytest.raises(VineError, match="pressure_pa"):
        sim.rollout(state, bad)


def test_a_state_with_a_nan_is_refused() -> None:
    sim = Simulator(Robot(), [FREE], Options(links=8))
    state = sim.start(0.0)
    controls = sim.controls(3, state)
    state.v[0, 1, 2] = np.nan
    with pytest.raises(VineError, match=r"state\.v"):
        sim.rollout(state, controls)


def test_growth_stops_and_says_so_when_the_links_are_used_up() -> None:
    sim = Simulator(Robot(), [FREE], Options(links=4))
    state = sim.start(0.0)
    run = sim.rollout(state, sim.controls(90, state))
    assert run.report.status[-1, 0] & FULL
    assert run.last.tip()[0, 0] == pytest.approx(4 * 0.018, abs=2e-3)
    assert run.last.links[0] == 4


def test_more_links_than_allowed_at_the_start_are_refused() -> None:
    sim = Simulator(Robot(), [FREE], Options(links=4))
    with pytest.raises(VineError, match="length_m"):
        sim.start(0.0, length_m=0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('unit = "mm"\nspeed = 3\n', "unknown key"),
        ('unit = "furlong"\n', "unit"),
        ("heading_deg = 3\n", "unit"),
        ('unit = "m"\n[[obstacles]]\nshape = "cone"\n', "shape"),
        ('unit = "m"\n[[obstacles]]\nx = 1\n', "shape"),
        ('unit = "m"\n[[obstacles]]\nshape = "circle"\nx = 1\ny = 1\n', "radius"),
        ('unit = "m"\n[[obstacles]]\nshape = "circle"\nx = 1\ny = 1\nradius = 1\nthickness = 1\n', "thickness"),
        ('unit = "m"\n[[obstacles]]\nshape = "circle"\nx = "1"\ny = 1\nradius = 1\n', "obstacles.*x"),
        ('unit = "m"\n[[obstacles]]\nshape = "polygon"\ncorners = [[0, 0], [1, 1], [1, 0], [0, 1]]\n', "crosses"),
        ('unit = "m"\n[[obstacles]]\nshape = "polygon"\ncorners = [[0, 0], [1, 1], [1]]\n', "corners"),
        ("unit = [", "TOML"),
        ('unit = "m"\nheading_deg = "north"\n', "heading_deg"),
        ('unit = "m"\nheading_deg = 2000.0\n', "heading_deg"),
        ('unit = "m"\nbase = [0.0]\n', "base"),
        ('unit = "m"\nbase = [0.0, inf]\n', "base"),
        ('unit = "m"\noffset = "left"\n', "offset"),
        ('unit = "m"\noffset = [nan, 0.0]\n', "offset"),
        ('unit = "m"\nobstacles = 3\n', "obstacles"),
        ('unit = "m"\nobstacles = [3]\n', "obstacles"),
        ('unit = "m"\nframes = 2.5\n', "frames"),
        ('unit = "m"\nframes = 0\n', "frames"),
        ('unit = "m"\nrate_m_s = -0.1\n', "rate_m_s"),
        ('unit = "m"\nname = 3\n', "name"),
    ],
)
def test_a_wrong_scene_file_is_refused_by_its_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_scene(path)


def test_an_unknown_scene_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="clutter"):
        load_scene("nowhere")


def test_a_whole_number_stands_for_a_length(tmp_path: Path) -> None:
    path = tmp_path / "scene.toml"
    path.write_text('unit = "mm"\nbase = [0, 0]\n[[obstacles]]\nshape = "wall"\nfrom = [100, 0]\nto = [100, 50]\nthickness = 4\n')
    (obstacle,) = load_scene(path).obstacles
    np.testing.assert_allclose(obstacle.corners, [(0.1, 0.0), (0.1, 0.05)])
    assert obstacle.rounding_m == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('unit = "m"\n[[obstacles]]\nshape = "box"\nx = 100\ny = 14\nwidth = 150\nheight = 20\n', "reaches 250 m"),
        ('unit = "mm"\n[[obstacles]]\nshape = "circle"\nx = 0.1\ny = 0\nradius = 0.02\n', "0.04 mm large"),
        ('unit = "mm"\nbase = [100.0, 0.0]\n', "base is 100 m"),
        ('unit = "mm"\nrate_m_s = 150\n', "rate_m_s is 150"),
    ],
)
def test_a_scene_in_another_unit_is_doubted(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scene.toml"
    path.write_text(text)
    with pytest.warns(UnitsWarning, match=message):
        load_scene(path)


def test_the_scenes_of_the_package_are_not_doubted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("clutter", "free", "wall"):
            load_scene(name)


def test_a_box_needs_an_area() -> None:
    with pytest.raises(VineError, match="positive"):
        box(0, 0, -1, 1)
