"""A recording stays within its size and leaves the disk what must stay free: the oldest parts go, and the reader knows."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.clock import WallClock
from onboard.errors import ConfigError, RecordingError
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.telemetry import schemas
from onboard.telemetry.parts import DiskLow, Keeper, free_bytes, part_path
from onboard.telemetry.reader import open_recording
from onboard.telemetry.recorder import Limits, McapRecorder

MAX_BYTES = 1_000_000
LINE = 4000


def record(path: Path, count: int, limits: Limits, lines: list[str] | None = None) -> McapRecorder:
    """Numbered lines that no compression makes shorter than about half."""
    rng = random.Random(3)
    recorder = McapRecorder(path, WallClock(), {"robot": "test"}, (lines if lines is not None else []).append, limits)
    for k in range(count):
        recorder.write(schemas.LOG, float(k), schemas.encode({"t_s": float(k), "line": rng.randbytes(LINE // 2).hex()}))
        while recorder._backlog_bytes > 200_000 and recorder.error is None:
            recorder._push()
    recorder.close()
    return recorder


def numbers(path: Path) -> list[int]:
    return [int(fields["t_s"]) for _, fields in open_recording(path)]


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.mcap"))


def test_a_recording_within_its_size_is_read_as_one_over_all_its_parts(tmp_path: Path) -> None:
    assert record(tmp_path / "a.mcap", 200, Limits(MAX_BYTES)).error is None
    assert len(parts(tmp_path)) > 1
    recording = open_recording(tmp_path / "a.mcap")
    assert [int(fields["t_s"]) for _, fields in recording] == list(range(200))
    assert recording.truncated is None and recording.part == 0


def test_a_long_recording_keeps_its_end_within_the_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(tmp_path / "a.mcap", 1500, Limits(MAX_BYTES)).error is None
    left = parts(tmp_path)
    assert "a.mcap" not in left
    size = sum((tmp_path / name).stat().st_size for name in left)
    assert MAX_BYTES / 2 < size <= 1.35 * MAX_BYTES  # a part ends with the chunk that is being written
    found = numbers(tmp_path / left[0])
    assert found == list(range(found[0], 1500)) and found[0] > 0
    assert main(["recording", "info", str(tmp_path / left[0]), "--json"]) == 0
    assert f'"part":{int(left[0].split(".")[1])}' in capsys.readouterr().out


def test_a_recording_without_its_beginning_says_where_it_begins_and_is_not_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "a.mcap", 1500, Limits(MAX_BYTES))
    oldest = tmp_path / parts(tmp_path)[0]
    with pytest.raises(RecordingError, match=f"given up.*{oldest.name}"):
        open_recording(tmp_path / "a.mcap")
    text = robot_file("module_rig").read_text()
    recorder = McapRecorder(tmp_path / "b.mcap", WallClock(), {"robot": "x", "robot_toml": text, "part": "1"}, limits=Limits())
    recorder.close()
    shutil.copy(oldest, tmp_path / "other.mcap")
    assert numbers(tmp_path / "other.mcap")  # given another name it stands alone
    assert main(["replay", str(oldest), "--robot", "module_rig"]) == RecordingError.exit_code
    assert "is part" in capsys.readouterr().err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_what_must_stay_free_stays_free(small_disk: Path) -> None:
    keep_free = 1_000_000
    assert record(small_disk / "a.mcap", 2000, Limits(8 * 500_000, keep_free)).error is None
    assert free_bytes(small_disk) > keep_free - 300_000  # looked at with every chunk, not with every byte
    found = numbers(small_disk / parts(small_disk)[0])
    assert found[-1] == 1999 and found == list(range(found[0], 2000))


def test_a_recording_with_nothing_to_give_up_ends_whole_and_control_goes_on(small_disk: Path) -> None:
    lines: list[str] = []
    (small_disk / "others").write_bytes(os.urandom(2_500_000))
    record(small_disk / "a.mcap", 2000, Limits(10**9, 1_000_000), lines)
    assert len(lines) == 1 and "less than 1 MB of the disk are free" in lines[0] and "control goes on" in lines[0]
    recording = open_recording(small_disk / "a.mcap")
    assert sum(1 for _ in recording) > 20 and recording.truncated is None


def test_a_recording_on_a_disk_that_is_too_full_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be created: less than"):
        McapRecorder(tmp_path / "a.mcap", WallClock(), {}, limits=Limits(0, free_bytes(tmp_path) * 2))
    assert not (tmp_path / "a.mcap").exists()


def test_room_is_made_by_the_oldest_first_and_never_by_what_is_not_ours(tmp_path: Path) -> None:
    keeper = Keeper(800, 0)
    (tmp_path / "other.mcap").write_bytes(bytes(10))
    for number in range(12):
        path = part_path(tmp_path / "a.mcap", number)
        path.write_bytes(bytes(100))
        keeper.closed(path, 100)
    assert parts(tmp_path) == [*(f"a.{k:03d}.mcap" for k in range(5, 12)), "other.mcap"]
    keeper.min_free_bytes = free_bytes(tmp_path) * 2
    with pytest.raises(DiskLow):
        keeper.make_room(tmp_path)
    assert parts(tmp_path) == ["other.mcap"]


def test_a_robots_file_sets_the_limits(tmp_path: Path) -> None:
    text = robot_file("module_rig").read_text()
    (tmp_path / "rig.toml").write_text(text + "\n[recording]\nmax_bytes = 5000000\nmin_free_bytes = 0\n")
    assert load_robot(tmp_path / "rig.toml").recording.max_bytes == 5_000_000
    (tmp_path / "rig.toml").write_text(text + "\n[recording]\nmax_bytes = 10\n")
    with pytest.raises(ConfigError, match=r"recording\.max_bytes"):
        load_robot(tmp_path / "rig.toml")
