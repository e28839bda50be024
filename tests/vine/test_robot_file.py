"""The vine's file: read strictly, refused by key, and summed up."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from onboard.config import read_toml
from onboard.errors import ConfigError
from onboard.resources import robot_file
from onboard.vine_robot import load_vine, read_vine

PATH = robot_file("vine")


def changed(**values: Any) -> dict[str, Any]:
    raw = copy.deepcopy(read_toml(PATH))
    for key, value in values.items():
        section = raw
        *parts, last = key.split("__")
        for part in parts:
            section = section[part]
        section[last] = value
    return raw


def test_the_shipped_file_describes_a_tube_that_stalls_at_pressure_times_area() -> None:
    robot = load_vine(PATH)
    assert robot.stall_force_n == pytest.approx(1e4 * 3.14159265 * 0.012**2)
    summary = robot.summary()
    assert summary["name"] == "vine"
    assert summary["length_max_m"] == pytest.approx(0.864)
    assert summary["safe_state"] == "hold_shape"


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("body__radius", 0.012, "body.radius"),
        ("body__radius_m", float("1e3"), "body.radius_m"),
        ("body__links", 47, "body.links"),
        ("actuators__safe_state", "let_go", "actuators.safe_state"),
        ("actuators__growth__safe_m_s", 0.05, "actuators.growth.safe_m_s"),
        ("actuators__growth__min_m_s", 0.2, "actuators.growth.max_m_s"),
        ("actuators__pressure__set_pa", 2.0e4, "actuators.pressure.set_pa"),
        ("actuators__curvature__min_per_m", 1.0, "actuators"),
        ("map__y_m", [0.1, 0.5], "map.y_m"),
        ("map__cell_m", 0.001, "map.cell_m"),
        ("lines__low_pa", 5.0e5, "lines.high_pa"),
        ("lines__safe_pa", 1.0e5, "lines.safe_pa"),
        ("camera__points", 65, "camera.points"),
        ("file", "elsewhere", "file"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(key: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_vine(Path("vine.toml"), changed(**{key: value}))
    assert refused.value.key == named


def test_only_body_and_actuators_change_the_physics_hash() -> None:
    whole = load_vine(PATH).physics_hash
    assert read_vine(PATH, changed(planner__samples=64)).physics_hash == whole
    assert read_vine(PATH, changed(body__mass_kg=0.002)).physics_hash != whole
