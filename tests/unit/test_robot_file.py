"""A robot's file is read strictly: what is wrong is refused with file, key, value and range, and nothing starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onboard.errors import ConfigError
from onboard.resources import robot_file
from onboard.robot import load_robot

MANIPULATOR = robot_file("manipulator").read_text()


def variant(tmp_path: Path, old: str, new: str) -> Path:
    assert MANIPULATOR.count(old) >= 1, f"the robot's file no longer says {old!r}"
    path = tmp_path / "variant.toml"
    path.write_text(MANIPULATOR.replace(old, new, 1))
    return path


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_robot(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_shipped_robots_load() -> None:
    manipulator, rig = load_robot(robot_file("manipulator")), load_robot(robot_file("module_rig"))
    assert (manipulator.structure.struts, len(manipulator.structure.cylinders)) == (20, 40)
    assert (rig.structure.struts, rig.structure.cable_count, rig.actuators) == (4, 4, None)
    assert manipulator.structure.strut_length_m == pytest.approx(0.3009, abs=1e-4)


@pytest.mark.parametrize("twist", ["45.0", "135.0"])
def test_other_twists_load_for_the_estimator(tmp_path: Path, twist: str) -> None:
    path = variant(tmp_path, "strut_twist_deg = 146.7", f"strut_twist_deg = {twist}")
    assert load_robot(path).structure.strut_twist_deg == float(twist)


def test_parallel_struts_are_refused_with_the_reason(tmp_path: Path) -> None:
    error = refusal(variant(tmp_path, "strut_twist_deg = 146.7", "strut_twist_deg = 0.0"))
    assert error.key == "structure.strut_twist_deg"
    assert "3 of 6" in str(error)


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("modules = 5", "modules = 5\ncolour = 1", "structure.colour", "unknown key"),
        ("ring_radius_m = 0.10", "ring_radius = 0.10", "structure.ring_radius", "lacks its unit: write ring_radius_m"),
        ("ring_radius_m = 0.10", "", "structure.ring_radius_m", "required key is missing"),
        ("ring_radius_m = 0.10", "ring_radius_m = nan", "structure.ring_radius_m", "finite"),
        ("ring_radius_m = 0.10", "ring_radius_m = inf", "structure.ring_radius_m", "finite"),
        ("ring_radius_m = 0.10", "ring_radius_m = 1e400", "structure.ring_radius_m", "finite"),
        ("ring_radius_m = 0.10", "ring_radius_m = -0.1", "structure.ring_radius_m", "-0.1"),
        ("ring_radius_m = 0.10", 'ring_radius_m = "0.1"', "structure.ring_radius_m", "expected `float`"),
        ("ring_radius_m = 0.10", "ring_radius_m = true", "structure.ring_radius_m", "expected `float`"),
        ("ring_radius_m = 0.10", "ring_radius_m = 0.10\nring_radius_m = 0.10", "", "not valid TOML"),
        ("modules = 5", "modules = 5.5", "structure.modules", "5.5"),
        ('"strut01"', '"strut00"', "struts[1]", "already taken"),
        ('"strut19",', "", "struts", "has 19 ids"),
        ("format = 1", "format = 2", "format", "format 1"),
        ("[imu]", "[imux]", "imux", "unknown section"),
        ("safe_pressure_pa = 2.0e5", "", "actuators.safe_pressure_pa", "required key is missing"),
        ("safe_pressure_pa = 2.0e5", "safe_pressure_pa = 7.0e5", "actuators.safe_pressure_pa", "must lie in"),
        ("max_pressure_pa = 6.0e5", "max_pressure_pa = 0.5e5", "actuators.max_pressure_pa", "must exceed"),
        ("first = 8, channels = 8", "first = 9, channels = 8", "actuators.boards", "exactly once"),
        ("handedness = [1, -1, 1, -1, 1]", "handedness = [1, 0, 1, -1, 1]", "structure.handedness", "1 or -1"),
        ('type = "disc_map"', 'type = "magic"', "estimator.type", "known types"),
        ('sensor = "lsm6dsox"', 'sensor = "mpu6886"', "imu.sensor", "carries lsm6dsox"),
        ("estimator_hz = 80.0", "estimator_hz = 0.0", "rates.estimator_hz", ">= 1"),
        (
            "degraded_budget_s = 15.0",
            "degraded_budget_s = 60.0",
            "safety.degraded_budget_s",
            "must be less than degraded_window_s",
        ),
        (
            "handedness = [1, -1, 1, -1, 1]",
            "base_joint_damping = 0.1\nhandedness = [1, -1, 1, -1, 1]",
            "structure.base_joint_damping",
            "lacks its unit: write base_joint_damping_n_m_s_per_rad",
        ),
        ('prefix = "prestress/manipulator"', 'prefix = "a/#"', "link.prefix", "matching"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, old: str, new: str, key: str, words: str) -> None:
    error = refusal(variant(tmp_path, old, new))
    assert error.key == key
    assert words in str(error)


def test_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MANIPULATOR.encode())
    assert "byte order mark" in str(refusal(path))


def test_what_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(MANIPULATOR.encode() + b"# gr\xfcn\n")
    assert "UTF-8" in str(refusal(path))


def test_deep_nesting_is_refused_not_crashed(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000)
    refusal(path)


@pytest.mark.parametrize("line", ["a" + ".a" * 50_000 + " = 1", "[a" + ".a" * 50_000 + "]"])
def test_endless_keys_are_refused_before_they_cost_time(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(line)
    assert "more than 64 parts" in str(refusal(path))


def test_oversized_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_text(MANIPULATOR + "#" * 1_000_000)
    assert "bytes" in str(refusal(path))


def test_ports_and_rates_do_not_change_the_physics_but_masses_do(tmp_path: Path) -> None:
    base = load_robot(robot_file("manipulator")).physics_hash
    same = load_robot(variant(tmp_path, "estimator_hz = 80.0", "estimator_hz = 90.0")).physics_hash
    port = load_robot(variant(tmp_path, 'id = "valve0",', 'id = "valve0", port = "/dev/ttyACM0",')).physics_hash
    other = load_robot(variant(tmp_path, "strut_mass_kg = 0.2", "strut_mass_kg = 0.3")).physics_hash
    assert base == same == port != other


def test_the_command_exits_2_and_says_one_line(tmp_path: Path) -> None:
    path = variant(tmp_path, "ring_radius_m = 0.10", "ring_radius_m = -0.1")
    done = subprocess.run(
        [sys.executable, "-m", "onboard.cli.main", "config", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "structure.ring_radius_m" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
