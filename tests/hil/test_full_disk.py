"""A run whose recording the disk cannot hold goes on to its end, says so, and still tells what it measured."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from onboard.errors import RecordingError


@pytest.mark.long
@pytest.mark.parametrize("limit", [150_000, 600_000])  # before the hand begins to push; while it pushes
def test_a_recording_that_grows_beyond_the_limit_costs_the_recording_only(tmp_path: Path, limit: int) -> None:
    tmp_path.chmod(0o711)
    words = ["run", "module_rig", "--seed", "3", "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "onboard.cli.main", *words],
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=150.0,
        check=False,
    )
    assert done.returncode == RecordingError.exit_code, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert not result["cut_short"] and result["daemon_exit"] == 0 and result["samples"] > 3000
    assert "recording stopped" in done.stderr.splitlines()[-1]
    assert "docs/faults/recorder_failed.md" in (tmp_path / "run" / "daemon.log").read_text()


def test_what_a_full_disk_could_not_take_is_named_not_where_it_came_from(tmp_path: Path) -> None:
    """A copy names both files in its error: the destination is the one that a person can do something about."""
    program = (
        "import sys, onboard.cli.main as main\n"
        "def fails(words): raise OSError(28, 'No space left on device', 'source.py', None, 'there/copy.py')\n"
        "main._dispatch = fails\n"
        "sys.exit(main.main([]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == 1
    assert done.stderr == "prestress: there/copy.py: No space left on device\n"
