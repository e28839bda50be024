"""Host and board agree on every byte: one table, checked on CPython and on MicroPython."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.errors import NotANumberError, WireError
from onboard.link import serial_frame, wire
from onboard.link.wire_types import (
    BoardFault,
    BoardKind,
    BoardState,
    ImuFlag,
    ImuFrame,
    LatchCause,
    Refusal,
    SyncResponse,
    TelemetryFrame,
)
from tests.firmware.board_script import run_script

TABLE: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "golden_frames.json").read_text())

BOARD_SIDE = """
import binascii, json, struct
from common import cobs, frames

def imu(f):
    n = len(f["dt_us"])
    out = bytearray(16 + 16 * n)
    frames.imu_header_into(out, n, f["flags"], f["config_generation"], f["boot_id"], f["sequence"], f["ticks_us"])
    for k in range(n):
        struct.pack_into("<H7h", out, 16 + 16 * k, f["dt_us"][k], *f["raw"][k])
    return out

def command(f, data):
    c = frames.decode_command(data)
    return {"boot_id": c.boot_id, "epoch": c.epoch, "sequence": c.sequence, "issued_ticks_us": c.issued,
            "ttl_ms": c.ttl_ms, "setpoints": list(c.setpoints)} == f

def telemetry(f):
    return frames.encode_telemetry(f["board"], f["state"], f["cause"], f["config_generation"], f["faults"], f["boot_id"],
        f["epoch"], f["sequence"], f["ticks_us"], f["last_command_sequence"], f["refused"], f["last_refusal"],
        [tuple(c) for c in f["channels"]])

def check(kind, f, data):
    if kind == "imu":
        return imu(f) == data
    if kind == "command":
        return command(f, data)
    if kind == "telemetry":
        return telemetry(f) == data
    if kind == "sync_request":
        return frames.decode_sync_request(data) == f["host_ns"].to_bytes(8, "little")
    if kind == "sync_response":
        stamp = f["host_ns"].to_bytes(8, "little")
        return frames.encode_sync_response(stamp, f["boot_id"], f["received_ticks_us"], f["sent_ticks_us"]) == data
    if kind == "serial":
        payload = binascii.unhexlify(f["payload"])
        return cobs.encode_frame(f["type"], payload) == data and cobs.FrameReader().feed(data) == [(f["type"], payload)]

with open("/golden.json") as file:
    table = json.load(file)
print(json.dumps([bool(check(row["kind"], row["fields"], binascii.unhexlify(row["hex"]))) for row in table]))
"""


def test_the_board_reads_and_writes_every_golden_frame(tmp_path: Path) -> None:
    source = BOARD_SIDE.replace('open("/golden.json")', 'open("/sim/golden.json")')
    folder = tmp_path / "jail" / "sim"
    folder.mkdir(parents=True)
    (folder / "golden.json").write_text(json.dumps(TABLE))
    passed = json.loads(run_script(tmp_path, source))
    assert len(passed) == len(TABLE)
    assert [row["name"] for row, good in zip(TABLE, passed, strict=True) if not good] == []


def host_encodes(kind: str, fields: dict[str, Any]) -> bytes:
    f = dict(fields)
    if kind == "imu":
        elapsed = np.cumsum(f["dt_us"])
        raw = np.array(f["raw"], dtype=np.int16)
        frame = ImuFrame(f["boot_id"], f["sequence"], f["ticks_us"], ImuFlag(f["flags"]), f["config_generation"], elapsed, raw)
        return wire.encode_imu(frame)
    if kind == "command":
        return wire.encode_command(
            *(f[key] for key in ("boot_id", "epoch", "sequence", "issued_ticks_us", "ttl_ms", "setpoints"))
        )
    if kind == "telemetry":
        channels = np.array(f.pop("channels"), dtype=np.int64).reshape(-1, 3)
        return wire.encode_telemetry(
            TelemetryFrame(
                BoardKind(f["board"]),
                BoardState(f["state"]),
                LatchCause(f["cause"]),
                f["config_generation"],
                BoardFault(f["faults"]),
                f["boot_id"],
                f["epoch"],
                f["sequence"],
                f["ticks_us"],
                f["last_command_sequence"],
                f["refused"],
                Refusal(f["last_refusal"]),
                channels[:, 0].astype(np.uint8),
                channels[:, 1].astype(np.uint8),
                channels[:, 2].astype(np.int16),
            )
        )
    if kind == "sync_request":
        return wire.encode_sync_request(f["host_ns"])
    if kind == "sync_response":
        return wire.encode_sync_response(SyncResponse(**f))
    return serial_frame.encode_frame(f["type"], bytes.fromhex(f["payload"]))


def host_decodes(kind: str, data: bytes) -> dict[str, Any]:
    if kind == "imu":
        imu = wire.decode_imu(data)
        return {
            "flags": int(imu.flags),
            "config_generation": imu.config_generation,
            "boot_id": imu.boot_id,
            "sequence": imu.sequence,
            "ticks_us": imu.ticks_us,
            "dt_us": np.diff(imu.elapsed_us, prepend=0).tolist(),
            "raw": imu.raw.tolist(),
        }
    if kind == "command":
        command = wire.decode_command(data)
        return {name: getattr(command, name) for name in command.__slots__} | {"setpoints": command.setpoints.tolist()}
    if kind == "telemetry":
        report = wire.decode_telemetry(data)
        fields = {name: getattr(report, name) for name in report.__slots__ if not name.startswith("channel_")}
        fields = {name: int(value) for name, value in fields.items()}
        fields["board"] = fields.pop("kind")
        columns = zip(report.channel_type, report.channel_index, report.channel_value, strict=True)
        return fields | {"channels": [[int(value) for value in row] for row in columns]}
    if kind == "sync_request":
        return {"host_ns": wire.decode_sync_request(data)}
    if kind == "sync_response":
        response = wire.decode_sync_response(data)
        return {name: getattr(response, name) for name in response.__slots__}
    (frame,) = serial_frame.FrameReader().feed(data)
    return {"type": frame.kind, "payload": frame.payload.hex()}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['kind']}: {row['name']}")
def test_the_host_reads_and_writes_every_golden_frame(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    assert host_encodes(row["kind"], row["fields"]) == data
    assert host_decodes(row["kind"], data) == row["fields"]


DECODERS = {
    "imu": wire.decode_imu,
    "command": wire.decode_command,
    "telemetry": wire.decode_telemetry,
    "sync_request": wire.decode_sync_request,
    "sync_response": wire.decode_sync_response,
}
FRAMES = [(row["kind"], bytes.fromhex(row["hex"])) for row in TABLE if row["kind"] in DECODERS]


@pytest.mark.parametrize(("kind", "data"), FRAMES)
def test_every_cut_every_extra_byte_and_every_other_version_is_refused(kind: str, data: bytes) -> None:
    decode = DECODERS[kind]
    for size in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:size])
    with pytest.raises(WireError):
        decode(data + b"\0")
    with pytest.raises(WireError, match="version"):
        decode(bytes([2]) + data[1:])


@given(st.binary(max_size=200), st.sampled_from(sorted(DECODERS)))
@settings(max_examples=300, deadline=None)
def test_random_bytes_never_do_more_than_raise_a_wire_error(data: bytes, kind: str) -> None:
    for candidate in (data, b"\x01" + data):
        try:
            DECODERS[kind](candidate)
        except WireError:
            continue


@given(st.binary(max_size=1024), st.integers(0, 255), st.binary(max_size=40), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_serial_frames_survive_any_cut_and_any_noise_before_them(payload: bytes, kind: int, noise: bytes, step: int) -> None:
    line = noise + serial_frame.encode_frame(kind, payload) + serial_frame.encode_frame(7, b"end")
    reader = serial_frame.FrameReader()
    found = [frame for at in range(0, len(line), step) for frame in reader.feed(line[at : at + step])]
    assert serial_frame.SerialFrame(kind, payload) in found
    assert found[-1] == serial_frame.SerialFrame(7, b"end")


@given(st.binary(min_size=1, max_size=100), st.data())
@settings(max_examples=200, deadline=None)
def test_a_flipped_bit_never_gives_another_frame(payload: bytes, data: st.DataObject) -> None:
    line = bytearray(serial_frame.encode_frame(1, payload))
    at = data.draw(st.integers(1, len(line) - 2))
    line[at] ^= 1 << data.draw(st.integers(0, 7))
    reader = serial_frame.FrameReader()
    assert reader.feed(bytes(line)) == []
    assert reader.crc_errors >= 1


def test_memory_stays_bounded_without_a_delimiter() -> None:
    reader = serial_frame.FrameReader()
    for _ in range(100):
        assert reader.feed(b"\x05" * 1000) == []
    assert len(reader._buffer) <= 2000
    assert reader.oversized == 1
    frame = serial_frame.SerialFrame(7, b"")
    assert reader.feed(serial_frame.encode_frame(7, b"")) == [frame]


def test_set_points_never_wrap_and_never_hide_a_nan() -> None:
    assert wire.to_counts([350_000.0, 0.0, -100.0]).tolist() == [3500, 0, -1]
    with pytest.raises(NotANumberError):
        wire.to_counts([1.0, float("nan")])
    for value in (3_276_751.0, -3_276_900.0, float("inf")):
        with pytest.raises((WireError, NotANumberError)):
            wire.to_counts([value])


@pytest.mark.parametrize(
    ("later", "earlier", "expected"), [(5, 3, 2), (3, 5, -2), (1, (1 << 30) - 1, 2), (0, 1 << 29, -(1 << 29))]
)
def test_tick_differences_hold_across_the_wrap(later: int, earlier: int, expected: int) -> None:
    assert wire.ticks_difference(later, earlier) == expected
