"""The wheel works outside the tree: a clean environment has the command, the robots' files and the firmware."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=cwd, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_clean_environment_runs_the_command(tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT, cwd=ROOT)
    (wheel,) = tmp_path.glob("prestress-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "clean", cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "requirements" / "run.lock", wheel, cwd=tmp_path)
    prestress = tmp_path / "clean" / "bin" / "prestress"
    assert "evaluate" in run(prestress, "--help", cwd=tmp_path)
    assert json.loads(run(prestress, "config", "check", "manipulator", "--json", cwd=tmp_path))["struts"] == 20
    assert "good" in run(prestress, "config", "check", "module_rig", cwd=tmp_path)
    listed = run(
        python, "-c", "from onboard.resources import root; print(*sorted(p.name for p in root().iterdir()))", cwd=tmp_path
    )
    assert {"firmware", "robots"} <= set(listed.split())
    missing = subprocess.run([str(prestress), "evaluate", "posture"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert missing.returncode == 3
    assert "pip install 'prestress[sim]'" in missing.stderr
