"""The wire format v1 (docs/protocol.md): bytes to records and back, as pure functions without I/O.

All integers are little endian. Board times are `ticks_us`: microseconds modulo 2**30, of the board's own clock.
A frame that breaks any rule of the page raises WireError; nothing is repaired or guessed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onboard.errors import NotANumberError, WireError
from onboard.link.wire_types import (
    MAX_CHANNELS,
    MAX_IMU_SAMPLES,
    SETPOINT_PA,
    TICKS_MASK,
    TICKS_PERIOD,
    VERSION,
    BoardFault,
    BoardKind,
    BoardState,
    CommandFrame,
    ImuFlag,
    ImuFrame,
    LatchCause,
    Raw16,
    Refusal,
    SyncResponse,
    TelemetryFrame,
)

_IMU_HEADER = struct.Struct("<BBHIII")
_IMU_SAMPLE = np.dtype([("dt_us", "<u2"), ("raw", "<i2", (7,))])
_COMMAND_HEADER = struct.Struct("<BBHIIIIH")
_TELEMETRY_HEADER = struct.Struct("<BBBBBBHIIIIIHBB")
_CHANNEL = np.dtype([("type", "u1"), ("index", "u1"), ("value", "<i2")])
_SYNC_REQUEST = struct.Struct("<BBHQ")
_SYNC_RESPONSE = struct.Struct("<BBHQIII")


def ticks_difference(later: int, earlier: int) -> int:
    """Signed difference of two board times [us]; right while they lie within 8.9 minutes of each other."""
    return ((later - earlier + TICKS_PERIOD // 2) & TICKS_MASK) - TICKS_PERIOD // 2


def to_counts(values: Sequence[float] | npt.NDArray[np.float64], unit: float = SETPOINT_PA) -> Raw16:
    """Physical values (n,) as int16 counts of `unit`; raises NotANumberError or WireError, never wraps."""
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise NotANumberError(f"a set-point is not finite: {array.tolist()}")
    counts = np.rint(array / unit)
    if np.any(np.abs(counts) > 32767):
        raise WireError(f"a set-point does not fit into 16 bits of {unit:g}: {array.tolist()}")
    return counts.astype(np.int16)


def _header(layout: struct.Struct, data: bytes, what: str) -> tuple[int, ...]:
    if len(data) < layout.size:
        raise WireError(f"{what}: {len(data)} bytes, the header alone has {layout.size}")
    fields = layout.unpack_from(data)
    if fields[0] != VERSION:
        raise WireError(f"{what}: wire version {fields[0]}, this side speaks {VERSION}")
    return fields


def _body(data: bytes, header: int, count: int, item: np.dtype[np.void], what: str) -> npt.NDArray[np.void]:
    expected = header + count * item.itemsize
    if len(data) != expected:
        raise WireError(f"{what}: {len(data)} bytes, {count} items need {expected}")
    return np.frombuffer(data, dtype=item, count=count, offset=header)


def _ticks(value: int, what: str) -> int:
    if value > TICKS_MASK:
        raise WireError(f"{what}: ticks {value} exceed 30 bits")
    return value


def decode_imu(data: bytes) -> ImuFrame:
    """Bytes of an `imu` message to a frame of 1..32 samples; raises WireError."""
    _, count, flags, boot_id, sequence, ticks_us = _header(_IMU_HEADER, data, "imu frame")
    if not 1 <= count <= MAX_IMU_SAMPLES:
        raise WireError(f"imu frame: {count} samples, allowed are 1..{MAX_IMU_SAMPLES}")
    items = _body(data, _IMU_HEADER.size, count, _IMU_SAMPLE, "imu frame")
    elapsed = np.cumsum(items["dt_us"], dtype=np.int64)
    if items["dt_us"][0] != 0:
        raise WireError("imu frame: the first sample's dt is not zero")
    return ImuFrame(
        boot_id,
        sequence,
        _ticks(ticks_us, "imu frame"),
        ImuFlag(flags & 0xFF),
        flags >> 8,
        elapsed,
        np.ascontiguousarray(items["raw"], dtype=np.int16),
    )


def encode_imu(frame: ImuFrame) -> bytes:
    """A frame to bytes, for virtual boards and tests."""
    items = np.zeros(len(frame.raw), dtype=_IMU_SAMPLE)
    items["dt_us"] = np.diff(frame.elapsed_us, prepend=frame.elapsed_us[:1])
    items["raw"] = frame.raw
    flags = int(frame.flags) | (frame.config_generation & 0xFF) << 8
    head = _IMU_HEADER.pack(VERSION, len(items), flags, frame.boot_id, frame.sequence, frame.ticks_us)
    return head + items.tobytes()


def encode_command(
    boot_id: int,
    epoch: int,
    sequence: int,
    issued_ticks_us: int,
    ttl_ms: int,
    setpoints: Raw16 | Sequence[int] = (),
) -> bytes:
    """A command of n set-points; without any, the body of ARM, DISARM or STOP. WireError out of range."""
    if len(setpoints) > MAX_CHANNELS:
        raise WireError(f"command: {len(setpoints)} set-points, at most {MAX_CHANNELS}")
    try:
        head = _COMMAND_HEADER.pack(
            VERSION,
            len(setpoints),
            0,
            boot_id,
            epoch,
            sequence & 0xFFFFFFFF,
            issued_ticks_us & TICKS_MASK,
            ttl_ms,
        )
        return head + struct.pack(f"<{len(setpoints)}h", *(int(value) for value in setpoints))
    except struct.error as error:
        raise WireError(f"command: {error}") from error


def decode_command(data: bytes) -> CommandFrame:
    """Bytes of a command, arm, disarm or stop to a frame; raises WireError."""
    _, count, flags, boot_id, epoch, sequence, issued, ttl_ms = _header(_COMMAND_HEADER, data, "command")
    if flags:
        raise WireError(f"command: flags {flags:#x} are reserved")
    if count > MAX_CHANNELS or len(data) != _COMMAND_HEADER.size + 2 * count:
        raise WireError(f"command: {len(data)} bytes for {count} set-points")
    raw = np.frombuffer(data, dtype="<i2", count=count, offset=_COMMAND_HEADER.size).astype(np.int16)
    return CommandFrame(boot_id, epoch, sequence, _ticks(issued, "command"), ttl_ms, raw)


def decode_telemetry(data: bytes) -> TelemetryFrame:
    """Bytes of a `tlm` message to a frame; WireError also for states that this version does not know."""
    what = "telemetry"
    fields = _header(_TELEMETRY_HEADER, data, what)
    (
        _,
        count,
        kind,
        state,
        cause,
        generation,
        faults,
        boot_id,
        epoch,
        sequence,
        ticks_us,
        last,
        refused,
        why,
        _,
    ) = fields
    if count > 2 * MAX_CHANNELS:
        raise WireError(f"{what}: {count} channels, at most {2 * MAX_CHANNELS}")
    items = _body(data, _TELEMETRY_HEADER.size, count, _CHANNEL, what)
    try:
        return TelemetryFrame(
            BoardKind(kind),
            BoardState(state),
            LatchCause(cause),
            generation,
            BoardFault(faults),
            boot_id,
            epoch,
            sequence,
            _ticks(ticks_us, what),
            last,
            refused,
            Refusal(why),
            items["type"].copy(),
            items["index"].copy(),
            items["value"].astype(np.int16),
        )
    except ValueError as error:
        raise WireError(f"{what}: {error}") from error


def encode_telemetry(frame: TelemetryFrame) -> bytes:
    """A frame to bytes, for virtual boards and tests."""
    items = np.zeros(len(frame.channel_value), dtype=_CHANNEL)
    items["type"], items["index"], items["value"] = (
        frame.channel_type,
        frame.channel_index,
        frame.channel_value,
    )
    head = _TELEMETRY_HEADER.pack(
        VERSION,
        len(items),
        frame.kind,
        frame.state,
        frame.cause,
        frame.config_generation & 0xFF,
        int(frame.faults),
        frame.boot_id,
        frame.epoch,
        frame.sequence,
        frame.ticks_us,
        frame.last_command_sequence,
        frame.refused & 0xFFFF,
        frame.last_refusal,
        0,
    )
    return head + items.tobytes()


def encode_sync_request(host_ns: int) -> bytes:
    """The host's stamp [ns, any clock: the board only echoes it]."""
    return _SYNC_REQUEST.pack(VERSION, 0, 0, host_ns & 0xFFFFFFFFFFFFFFFF)


def decode_sync_request(data: bytes) -> int:
    """The host's stamp of a sync request; raises WireError."""
    fields = _header(_SYNC_REQUEST, data, "sync request")
    if len(data) != _SYNC_REQUEST.size:
        raise WireError(f"sync request: {len(data)} bytes, not {_SYNC_REQUEST.size}")
    return fields[3]


def decode_sync_response(data: bytes) -> SyncResponse:
    """Bytes of a sync response; raises WireError."""
    fields = _header(_SYNC_RESPONSE, data, "sync response")
    if len(data) != _SYNC_RESPONSE.size:
        raise WireError(f"sync response: {len(data)} bytes, not {_SYNC_RESPONSE.size}")
    return SyncResponse(fields[3], fields[4], _ticks(fields[5], "sync response"), _ticks(fields[6], "sync response"))


def encode_sync_response(response: SyncResponse) -> bytes:
    """A response to bytes, for virtual boards and tests."""
    return _SYNC_RESPONSE.pack(
        VERSION, 0, 0, response.host_ns, response.boot_id, response.received_ticks_us, response.sent_ticks_us
    )
