"""Whatever bytes arrive, every decoder of the host refuses them with its declared error or reads them: none crashes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.calibration.file import Calibration, StrutCalibration
from onboard.calibration.file import decode as decode_calibration
from onboard.calibration.file import encode as encode_calibration
from onboard.clock import WallClock
from onboard.config import parse_toml
from onboard.errors import PrestressError
from onboard.link import board_json, wire
from onboard.link.decode import Decoder
from onboard.link.serial_frame import FrameReader, cobs_decode, cobs_encode, encode_frame
from onboard.link.topics import Topics
from onboard.models.manifest import load_model_file
from onboard.robot import RobotSpec, build_spec
from onboard.runtime.control_socket import parse
from onboard.telemetry import schemas
from onboard.telemetry.reader import open_recording
from onboard.telemetry.recorder import McapRecorder
from tests.link_support import birth
from tests.unit.estimation_support import robot

ROOT = Path(__file__).resolve().parents[2]
SAMPLE, FULL = 100, 10_000
HANGS_S = 20.0  # for one input, also on a busy computer
KINDS = ("imu", "state", "health", "cfg/ack", "sync/rsp")
MODELS = ROOT / "models_onnx" / "three_bar"
Decode = Callable[[bytes], object]


@cache
def golden() -> list[bytes]:
    """Every frame, hexadecimal in the file, that both interpreters must make and read alike."""
    found: list[bytes] = []

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)
        elif isinstance(value, str) and len(value) >= 8:
            try:
                found.append(bytes.fromhex(value))
            except ValueError:
                return

    walk(json.loads((ROOT / "tests" / "data" / "golden_frames.json").read_text()))
    assert found
    return found


def spoiled(rng: np.random.Generator, seeds: list[bytes]) -> bytes:
    """A good input cut, stretched, doubled or with bytes changed; one in eight is nothing but noise."""
    if rng.random() < 0.125:
        return rng.bytes(int(rng.integers(0, 200)))
    data = bytearray(seeds[int(rng.integers(len(seeds)))])
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data) + 1))
        match int(rng.integers(5)):
            case 0:
                del data[at : at + int(rng.integers(1, 9))]
            case 1:
                data[at:at] = rng.bytes(int(rng.integers(1, 9)))
            case 2 if at < len(data):
                data[at] = int(rng.integers(256))
            case 3 if at < len(data):
                data[at] ^= 1 << int(rng.integers(8))
            case _:
                other = int(rng.integers(0, len(data) + 1))
                data[at:at] = data[min(at, other) : max(at, other)][:200]
    return bytes(data)


def robot_toml(data: bytes) -> object:
    return build_spec("fuzz.toml", parse_toml("fuzz.toml", data.decode("utf-8", "replace")))


@cache
def rig() -> RobotSpec:
    return robot(name="module_rig")


def whole_strut(data: bytes) -> object:
    decoder = Decoder(rig())
    for kind in KINDS:
        decoder.packet(0, kind, data, 1.0)
    return decoder


HEALTH = msgspec.json.encode(
    board_json.Health(7, 12.5, 90_000, {"stale": 2}, 1200, 1, 2, 3, 4, "", -61, 3900, "active", "", [1, 2], 5, 6, 17)
)
ANSWERS = [msgspec.json.encode(board_json.ConfigAck(7, 3, True)), msgspec.json.encode(board_json.ConfigAck(7, 4, False, "no"))]


@cache
def calibration() -> bytes:
    """A file that this very robot would take."""
    spec = rig()
    strut = StrutCalibration(axis=(0.0, 0.0, 1.0), accel_bias_m_s2=(0.1, 0.0, -0.1), gyro_bias_rad_s=(0.0, 0.01, 0.0))
    whole = Calibration(
        format=1,
        robot=spec.name,
        physics_hash=spec.physics_hash,
        sensor=spec.imu.sensor,
        mounting_wxyz=spec.imu.mounting_wxyz,
        made="2026-01-01T00:00:00Z",
        poses=8,
        residual_before_deg=0.5,
        residual_after_deg=0.1,
        struts=dict.fromkeys(spec.struts, strut),
    )
    return encode_calibration(whole)


CASES: dict[str, tuple[Decode, Callable[[], list[bytes]]]] = {
    "wire imu": (wire.decode_imu, golden),
    "wire command": (wire.decode_command, golden),
    "wire telemetry": (wire.decode_telemetry, golden),
    "wire sync request": (wire.decode_sync_request, golden),
    "wire sync response": (wire.decode_sync_response, golden),
    "birth": (board_json.decode_birth, lambda: [birth()]),
    "health": (board_json.decode_health, lambda: [HEALTH]),
    "configuration's answer": (board_json.decode_config_ack, lambda: ANSWERS),
    "a strut's packets": (whole_strut, lambda: [*golden(), birth(), HEALTH, *ANSWERS]),
    "COBS": (cobs_decode, lambda: [cobs_encode(one) for one in golden()]),
    "serial line": (lambda data: FrameReader().feed(data), lambda: [encode_frame(1, one) for one in golden() if len(one) < 200]),
    "topics": (
        lambda data: Topics("prestress/x").parse(data.decode("utf-8", "replace")),
        lambda: [f"prestress/x/v1/strut00/{kind}".encode() for kind in KINDS],
    ),
    "robot's TOML": (robot_toml, lambda: [(ROOT / "robots" / "module_rig.toml").read_bytes()]),
    "control socket": (parse, lambda: [b'{"do": "go", "name": "left"}', b'{"do":"record","path":"/x"}', b'{"do": "stop"}']),
    "calibration": (lambda data: decode_calibration("fuzz", data, rig()), lambda: [calibration()]),
}


@contextmanager
def at_most(seconds: float, data: bytes) -> Iterator[None]:
    """Fails the test when what is within takes longer: a decoder that hangs is as bad as one that crashes."""

    def hangs(number: int, frame: object) -> None:
        pytest.fail(f"still busy after {seconds:g} s with {data!r}")

    before = signal.signal(signal.SIGALRM, hangs)
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left_s)  # the test's own time-out, where it has one


def run(decode: Decode, seeds: list[bytes], count: int) -> dict[str, int]:
    """Feed `count` spoiled inputs; returns how many were read and how many refused with a declared error."""
    rng = np.random.default_rng(0xF022)
    totals = {"read": 0, "refused": 0}
    for _ in range(count):
        data = spoiled(rng, seeds)
        try:
            with at_most(HANGS_S, data):
                decode(data)
        except PrestressError:
            totals["refused"] += 1
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {error}: for {data!r}")
        else:
            totals["read"] += 1
    return totals


def in_file(path: Path, decode: Callable[[Path], object]) -> Decode:
    def written(data: bytes) -> object:
        path.write_bytes(data)
        return decode(path)

    return written


def files(tmp_path: Path) -> dict[str, tuple[Decode, list[bytes]]]:
    """Decoders that read a file."""
    whole = tmp_path / "whole.mcap"
    recorder = McapRecorder(whole, WallClock(), {"robot": "module_rig"})
    for k in range(20):
        recorder.write(schemas.PACKET, float(k), schemas.packet(k % 4, "imu", golden()[0], float(k)))
    recorder.close()
    (tmp_path / "contact.onnx").write_bytes((MODELS / "contact.onnx").read_bytes())
    recording = in_file(tmp_path / "x.mcap", lambda path: list(open_recording(path)))
    manifest = in_file(tmp_path / "contact.json", lambda path: load_model_file(path, "three_bar", ""))
    return {
        "recording": (recording, [whole.read_bytes()]),
        "model's manifest": (manifest, [(MODELS / "contact.json").read_bytes()]),
    }


@pytest.mark.parametrize("name", CASES)
def test_what_is_spoiled_was_good_before(name):
    """Otherwise the fuzz would never get past the outermost check."""
    decode, seeds = CASES[name]
    good = 0
    for data in seeds():
        try:
            decode(data)
            good += 1
        except PrestressError:
            continue
    assert good


def test_a_decoder_that_hangs_is_found():
    def hangs(data: bytes) -> None:
        while True:
            pass

    with pytest.raises(pytest.fail.Exception, match="still busy"), at_most(0.05, b"x"):
        hangs(b"x")


@pytest.mark.parametrize("name", CASES)
def test_a_sample_of_spoiled_inputs_crashes_no_decoder(name):
    decode, seeds = CASES[name]
    assert sum(run(decode, seeds(), SAMPLE).values()) == SAMPLE


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_spoiled_inputs_crash_no_decoder(name, capsys):
    decode, seeds = CASES[name]
    totals = run(decode, seeds(), FULL)
    with capsys.disabled():
        print(f"\n{name}: {FULL} inputs, {totals['read']} read, {totals['refused']} refused, 0 crashed")
    assert sum(totals.values()) == FULL


@pytest.mark.parametrize(("name", "count"), [("recording", SAMPLE), ("model's manifest", SAMPLE)])
def test_a_sample_of_spoiled_files_crashes_no_reader(name, count, tmp_path):
    assert sum(run(*files(tmp_path)[name], count).values()) == count


@pytest.mark.long
@pytest.mark.parametrize("name", ["recording", "model's manifest"])
def test_ten_thousand_spoiled_files_crash_no_reader(name, tmp_path, capsys):
    totals = run(*files(tmp_path)[name], FULL)
    with capsys.disabled():
        print(f"\n{name}: {FULL} inputs, {totals['read']} read, {totals['refused']} refused, 0 crashed")
    assert sum(totals.values()) == FULL
