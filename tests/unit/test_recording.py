"""A recording survives power loss and a full disk: what was complete stays readable, and control never notices."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onboard.cli.main import main
from onboard.clock import SimulatedClock, WallClock
from onboard.errors import RecordingError
from onboard.telemetry import schemas
from onboard.telemetry.export import export
from onboard.telemetry.reader import open_recording
from onboard.telemetry.recorder import McapRecorder


def kill_writer(recorder: McapRecorder) -> None:
    recorder._process.kill()
    recorder._process.wait()


def write_some(path: Path, count: int) -> None:
    recorder = McapRecorder(path, SimulatedClock(5.0, 10**18), {"robot": "test"})
    for k in range(count):
        recorder.write(schemas.TICK, 5.0 + k / 80, schemas.encode({"t_s": 5.0 + k / 80, "loop": "estimator", "skipped": k}))
    recorder.close()
    assert recorder.error is None


def test_floats_come_back_bit_for_bit(tmp_path: Path) -> None:
    values = [random.Random(1).uniform(-1, 1) * 10**k for k in range(-300, 300)] + [5e-324, 0.1 + 0.2]
    fields = schemas.decode(schemas.encode({"value": values}))
    assert fields["value"] == values


def test_messages_come_back_in_order_with_their_metadata(tmp_path: Path) -> None:
    write_some(tmp_path / "a.mcap", 1000)
    recording = open_recording(tmp_path / "a.mcap")
    assert recording.metadata["robot"] == "test"
    assert [fields["skipped"] for _, fields in recording] == list(range(1000))
    assert recording.truncated is None


def test_the_wall_clock_may_step_without_disorder(tmp_path: Path) -> None:
    class SteppingClock(WallClock):
        def wall_ns(self) -> int:
            return 10**18 - 3600 * 10**9

    recorder = McapRecorder(tmp_path / "a.mcap", SteppingClock(), {})
    for k in range(100):
        recorder.write(schemas.LOG, float(k), schemas.encode({"t_s": float(k), "line": "x"}))
    recorder.close()
    assert [fields["t_s"] for _, fields in open_recording(tmp_path / "a.mcap")] == [float(k) for k in range(100)]


@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
def test_a_cut_file_opens_up_to_the_last_chunk_and_says_so(tmp_path: Path, part: float) -> None:
    path = tmp_path / "a.mcap"
    write_some(path, 20_000)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    recording = open_recording(path)
    numbers = [fields["skipped"] for _, fields in recording]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 1000
    assert recording.truncated


KILLED = """
import sys
from pathlib import Path
from onboard.clock import WallClock
from onboard.telemetry import schemas
from onboard.telemetry.export import export
from onboard.telemetry.recorder import McapRecorder
clock = WallClock()
recorder = McapRecorder(Path(sys.argv[1]), clock, {"robot": "test"})
print("ready", flush=True)
k = 0
while True:
    recorder.write(schemas.TICK, clock.now_s(), schemas.encode({"t_s": clock.now_s(), "loop": "x" * 50, "skipped": k}))
    k += 1
    while recorder._backlog_bytes > 100_000:
        recorder._push()
"""


def kill_at(path: Path, delay_s: float) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(delay_s)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    recording, numbers = open_recording(path), []
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:  # the writer outlives the daemon and finishes the file
        numbers = [fields["skipped"] for _, fields in recording]
        if recording.truncated is None:
            break
        time.sleep(0.05)
    assert recording.truncated is None
    assert numbers == list(range(len(numbers)))


def kill_writer_at(path: Path, delay_s: float) -> None:
    """The writer killed is the nearest that one process comes to power loss."""
    recorder = McapRecorder(path, WallClock(), {"robot": "test"})
    end, k = time.monotonic() + delay_s, 0
    while time.monotonic() < end or k < 3000:
        recorder.write(schemas.TICK, float(k), schemas.encode({"t_s": float(k), "loop": "x" * 50, "skipped": k}))
        k += 1
    kill_writer(recorder)
    recorder.close()
    recording = open_recording(path)
    numbers = [fields["skipped"] for _, fields in recording]
    assert numbers == list(range(len(numbers)))
    assert recording.truncated


@pytest.mark.parametrize("delay_s", [0.1])
def test_a_killed_writer_leaves_complete_chunks(tmp_path: Path, delay_s: float) -> None:
    kill_writer_at(tmp_path / "a.mcap", delay_s)


@pytest.mark.long
@pytest.mark.parametrize("step", range(50))
def test_a_writer_killed_at_fifty_moments_leaves_complete_chunks(tmp_path: Path, step: int) -> None:
    kill_writer_at(tmp_path / "a.mcap", 0.02 * step)


@pytest.mark.parametrize("delay_s", [0.05, 0.4])
def test_sigkill_leaves_a_whole_file(tmp_path: Path, delay_s: float) -> None:
    kill_at(tmp_path / "a.mcap", delay_s)


@pytest.mark.long
@pytest.mark.parametrize("step", range(50))
def test_sigkill_at_fifty_moments_leaves_a_whole_file(tmp_path: Path, step: int) -> None:
    kill_at(tmp_path / "a.mcap", 0.02 * step)


FULL = """
import json, resource, sys
from pathlib import Path
from onboard.clock import WallClock
from onboard.telemetry import schemas
from onboard.telemetry.export import export
from onboard.telemetry.recorder import McapRecorder
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
lines = []
recorder = McapRecorder(Path(sys.argv[1]), WallClock(), {"robot": "test"}, lines.append)
import random
for k in range(40_000):
    recorder.write(schemas.LOG, float(k), schemas.encode({"t_s": float(k), "line": str(random.random())}))
    while recorder._backlog_bytes > 500_000 and recorder.error is None:
        recorder._push()
recorder.close()
print(json.dumps({"lines": lines}))
"""


def test_a_disk_that_fills_up_ends_the_recording_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    lines = json.loads(done.stdout)["lines"]
    assert len(lines) == 1
    assert "control goes on" in lines[0]
    assert "Traceback" not in done.stderr
    count = sum(1 for _ in open_recording(path))
    assert count > 1000


def test_a_killed_writer_ends_the_recording_with_one_line_and_control_goes_on(tmp_path: Path) -> None:
    lines: list[str] = []
    recorder = McapRecorder(tmp_path / "a.mcap", WallClock(), {"robot": "test"}, lines.append)
    kill_writer(recorder)
    for k in range(1000):
        recorder.write(schemas.LOG, float(k), schemas.encode({"t_s": float(k), "line": "x"}))
    recorder.close()
    assert len(lines) == 1
    assert "control goes on" in lines[0]


def test_a_stuck_disk_costs_messages_not_ticks(tmp_path: Path) -> None:
    recorder = McapRecorder(tmp_path / "a.mcap", WallClock(), {"robot": "test"})
    os.kill(recorder._process.pid, signal.SIGSTOP)
    for k in range(3000):
        recorder.write(schemas.LOG, float(k), schemas.encode({"t_s": float(k), "line": "x" * 5000}))
    assert recorder.dropped > 0
    assert recorder._backlog_bytes < 9_000_000
    os.kill(recorder._process.pid, signal.SIGCONT)
    recorder.close()
    assert sum(1 for _ in open_recording(tmp_path / "a.mcap")) == 3000 - recorder.dropped


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such"):
        open_recording(tmp_path / "none.mcap")
    (tmp_path / "text.mcap").write_text("hello, this is not a recording at all")
    with pytest.raises(RecordingError, match="not a recording"):
        open_recording(tmp_path / "text.mcap")
    write_some(tmp_path / "a.mcap", 1)
    with pytest.raises(RecordingError, match="cannot be created"):
        McapRecorder(tmp_path / "a.mcap", WallClock(), {})


def some_estimates(path: Path, rows: int = 20) -> None:
    recorder = McapRecorder(path, SimulatedClock(5.0, 10**18), {"robot": "test"})
    for k in range(rows):
        fields = {"t_s": 5.0 + k / 80, "tip_m": [0.1 * k, math.nan, 1.2], "tip_sigma_m": 0.01, "flags": k}
        recorder.write(schemas.ESTIMATE, fields["t_s"], schemas.encode(fields))
    recorder.write(schemas.TRANSITION, 5.5, schemas.encode({"t_s": 5.5, "state": "safe", "previous": "active", "line": "stop"}))
    recorder.close()


@pytest.mark.parametrize("name", ["tables.npz", "tables"])
def test_a_recording_becomes_tables(tmp_path: Path, name: str) -> None:
    some_estimates(tmp_path / "a.mcap")
    rows = export(open_recording(tmp_path / "a.mcap"), tmp_path / name)
    assert rows == {"estimate": 20, "supervisor_transition": 1}
    if name.endswith(".npz"):
        with np.load(tmp_path / name) as found:
            tip, flags, state = found["estimate.tip_m"], found["estimate.flags"], found["supervisor_transition.state"]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(tmp_path / name / "estimate.parquet")
        assert table.schema.metadata[b"robot"] == b"test"
        tip, flags = np.array(table["tip_m"].to_pylist()), table["flags"].to_numpy()
        state = parquet.read_table(tmp_path / name / "supervisor_transition.parquet")["state"].to_pylist()
    assert tip[:, 0] == pytest.approx([0.1 * k for k in range(20)], abs=0.0)
    assert np.isnan(tip[:, 1]).all()
    assert list(flags) == list(range(20))
    assert list(state) == ["safe"]


def test_the_recording_verb_says_what_a_file_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_estimates(tmp_path / "a.mcap")
    assert main(["recording", "info", str(tmp_path / "a.mcap"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["messages"] == {"/estimate": 20, "/supervisor/transition": 1}
    assert found["states"] == ["safe"] and found["seconds"] == pytest.approx(0.5) and found["truncated"] is None
    assert main(["recording", "plot", str(tmp_path / "a.mcap"), "--out", "picture.gif"]) == 2
    assert main(["recording", "export", str(tmp_path / "none.mcap")]) == 7


def test_lists_of_changing_length_are_no_table(tmp_path: Path) -> None:
    recorder = McapRecorder(tmp_path / "a.mcap", SimulatedClock(5.0, 10**18), {})
    for k in range(2):
        recorder.write(schemas.COMMAND, 5.0, schemas.encode({"t_s": 5.0, "value": [1.0] * (k + 1), "source": "x"}))
    recorder.close()
    with pytest.raises(RecordingError, match=r"/command: value: lists of \[1, 2\] values"):
        export(open_recording(tmp_path / "a.mcap"), tmp_path / "x.npz")
