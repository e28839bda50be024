"""Who may know whom: the daemon's packages load without torch, mujoco or anything that simulates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import importlib, pkgutil, sys
import onboard
for module in pkgutil.walk_packages(onboard.__path__, "onboard."):
    importlib.import_module(module.name)
bad = [name for name in ("torch", "mujoco", "ray", "onnx", "jax", "sim", "offboard", "matplotlib") if name in sys.modules]
print(",".join(bad))
"""


def test_a_fresh_interpreter_imports_all_of_onboard_without_the_extras() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


def test_import_rules_hold() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([tool, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_no_robot_is_named_in_code_that_should_read_its_file() -> None:
    names = [path.stem for path in (ROOT / "robots").glob("*.toml")]
    for path in (ROOT / "onboard").rglob("*.py"):
        if path.name == "catalog.py" or "_data" in path.parts:
            continue
        text = path.read_text()
        for name in names:
            assert f'== "{name}"' not in text, f"{path} compares with {name}"
            assert f'in ("{name}"' not in text, f"{path} compares with {name}"
