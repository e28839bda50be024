"""Recordings of people's own: what is right is read exactly, what is wrong is named by file, line and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onboard.cli.main import main
from onboard.errors import ConfigError
from sim.recordings import load_recording

HEADER = "t_s,ax,ay,az,gx,gy,gz"
BROAD = Path(__file__).parents[1] / "data" / "broad"


def rows(count: int = 300, dt: float = 0.01) -> list[str]:
    return [f"{k * dt:.4f},0.1,-0.2,9.81,0.01,0.02,{0.001 * k:.4f}" for k in range(count)]


def write(tmp_path: Path, lines: list[str], name: str = "mine.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_csv_is_read_in_any_order_of_columns(tmp_path: Path) -> None:
    shuffled = ["gz,az,t_s,ax,gx,ay,gy"] + [f"{k * 1e-3},9.81,{5 + k * 0.01},0.1,0.01,-0.2,0.02" for k in range(300)]
    recording = load_recording(write(tmp_path, shuffled))
    assert recording.t_s[:3] == pytest.approx([0.0, 0.01, 0.02])
    assert recording.acceleration_m_s2[7] == pytest.approx([0.1, -0.2, 9.81])
    assert recording.rate_rad_s[7] == pytest.approx([0.01, 0.02, 0.007])
    assert recording.up is None and recording.movement.all()


def test_truth_is_the_upward_direction_in_sensor_axes(tmp_path: Path) -> None:
    half = np.sqrt(0.5)
    lines = [HEADER + ",qw,qx,qy,qz"] + [row + f",{half},{half},0,0" for row in rows()]
    lines[5] = rows()[4] + ",,,,"  # a gap
    recording = load_recording(write(tmp_path, lines))
    assert recording.up is not None
    assert recording.up[0] == pytest.approx([0.0, 1.0, 0.0])  # turned by 90 degrees about x: y points up
    assert np.isnan(recording.up[4]).all()


def replaced(line: int, text: str) -> list[str]:
    lines = [HEADER, *rows()]
    lines[line - 1] = text
    return lines


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (replaced(7, "0.05,0.1,-0.2,9.81,abc,0.02,0"), ["line 7", "column gx", "'abc'"]),
        (replaced(9, "0.07,0.1,nan,9.81,0,0.02,0"), ["line 9", "column ay", "finite"]),
        (replaced(9, "0.07,0.1,inf,9.81,0,0.02,0"), ["line 9", "column ay"]),
        (replaced(9, "0.07,0.1,1e400,9.81,0,0.02,0"), ["line 9", "column ay"]),
        (replaced(9, "0.07,0.1,,9.81,0,0.02,0"), ["line 9", "column ay"]),
        (replaced(4, "0.02,0.1,0,9.81,0,0"), ["line 4", "6 columns"]),
        (replaced(4, "0.0,0.1,0,9.81,0,0,0"), ["line 4", "column t_s"]),
        (replaced(4, "9.0,0.1,0,9.81,0,0,0"), ["line 4", "column t_s", "0.5 s"]),
        (replaced(12, "0.10,0.1,0,9.81,0,0,57.3"), ["line 12", "column gz", "rad/s"]),
        (replaced(12, "0.10,0.1,0,981,0,0,0"), ["line 12", "column az", "m/s^2"]),
        (replaced(1, "t_s,ax,ay,az,gx,gy"), ["line 1", "column gz"]),
        (replaced(1, "t_s,ax,ay,az,gx,gy,gz,gz"), ["line 1", "column gz", "twice"]),
        (replaced(1, "time,ax,ay,az,gx,gy,gz"), ["line 1", "column t_s"]),
        (replaced(1, HEADER + ",temperature"), ["line 1", "column temperature", "unknown"]),
        (replaced(1, HEADER + ",qw,qx,qy"), ["line 1", "column qz"]),
        ([HEADER], ["no motion"]),
        ([""], ["line 1"]),
        ([HEADER, *rows(50)], ["0.49 s"]),
        ([HEADER] + [row.replace("9.81", "1.0") for row in rows()], ["columns ax ay az", "in g"]),
        ([HEADER + ",qw,qx,qy,qz"] + [row + ",2,0,0,0" for row in rows()], ["sample 1", "norm 2"]),
    ],
)
def test_a_bad_csv_is_named_by_file_line_and_column(tmp_path: Path, lines: list[str], words: list[str]) -> None:
    path = write(tmp_path, lines)
    with pytest.raises(ConfigError) as caught:
        load_recording(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, content in (("a.txt", b"x"), ("a.mat", b"x" * 200), ("a.npz", b"x"), ("a.csv", b"\xff\xfe\x00")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=name):
            load_recording(tmp_path / name)
    with pytest.raises(ConfigError, match="no such file"):
        load_recording(tmp_path / "none.csv")


def test_the_command_says_it_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, replaced(7, "0.05,0.1,-0.2,9.81,abc,0.02,0"))
    assert main(["sim", "strut", "--recording", str(path)]) == 2
    assert "line 7, column gx" in capsys.readouterr().err
    good = write(tmp_path, [HEADER, *rows()])
    for wrong in (["--speed", "nan"], ["--speed", "9"], ["--seconds", "0"], ["--broker", "http://x"]):
        assert main(["sim", "strut", "--recording", str(good), *wrong]) == 2


def test_resampling_keeps_the_whole_turn() -> None:
    recording = load_recording(BROAD / "trial_02.npz")
    for rate_hz in (83.3, 104.0, 400.0):
        t_s, acceleration, rate = recording.resample(rate_hz)
        steps = np.diff(recording.t_s)[:, None]
        whole = np.sum(steps * recording.rate_rad_s[1:], axis=0)
        assert np.sum(rate, axis=0) / rate_hz == pytest.approx(whole, abs=0.05)
        assert len(t_s) == len(acceleration) == pytest.approx(recording.duration_s * rate_hz, abs=2)


def excerpt(tmp_path: Path, **wrong: object) -> Path:
    parts: dict[str, object] = {
        "rate_hz": 100.0,
        "gyro_rad_s": np.zeros((300, 3)),
        "acceleration_m_s2": np.tile([0.0, 0.0, 9.81], (300, 1)),
        "truth_wxyz": np.tile([1.0, 0.0, 0.0, 0.0], (300, 1)),
        "movement": np.ones(300, dtype=bool),
    }
    path = tmp_path / "excerpt.npz"
    np.savez(path, **{**parts, **wrong})  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate_hz": 0.0}, "sampling rate"),
        ({"rate_hz": np.nan}, "sampling rate"),
        ({"rate_hz": np.array([100.0, 100.0])}, "not an excerpt"),
        ({"gyro_rad_s": np.float64(1.0)}, "not an excerpt"),
        ({"gyro_rad_s": np.array([["a"] * 3] * 300)}, "not an excerpt"),
        ({"acceleration_m_s2": np.full((300, 3), 1e300)}, "no sensor goes beyond"),
        ({"truth_wxyz": np.full((300, 4), 1e300)}, "must be 1"),
        ({"gyro_rad_s": np.zeros((0, 3))}, "different lengths"),
    ],
)
def test_excerpts_of_nonsense_are_refused(tmp_path: Path, wrong: dict[str, object], words: str) -> None:
    assert load_recording(excerpt(tmp_path)).duration_s == pytest.approx(2.99)
    with pytest.raises(ConfigError, match=words):
        load_recording(excerpt(tmp_path, **wrong))


@pytest.mark.parametrize("name", ["mine.npz", "mine.mat", "mine.csv"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04junk", bytes(range(256)) * 40, b"9" * 200_000])
def test_files_of_rubbish_are_refused_by_name(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_recording(path)
    assert str(path) in str(caught.value)


def test_excerpts_cut_off_anywhere_are_refused(tmp_path: Path) -> None:
    whole = excerpt(tmp_path).read_bytes()
    path = tmp_path / "cut.npz"
    for size in range(0, len(whole) - 1, 997):
        path.write_bytes(whole[:size])
        with pytest.raises(ConfigError):
            load_recording(path)
