"""Channels of a recording: topic, JSON schema and the encoding that gives every float back bit for bit."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np

from onboard.errors import RecordingError
from onboard.messages import BoardReport, PoseEstimate, Setpoints

PACKET = "/link/packet"
REPORT = "/link/report"
REQUEST = "/console/request"
TICK = "/runtime/tick"
ESTIMATE = "/estimate"
COMMAND = "/command"
TRANSITION = "/supervisor/transition"
LOG = "/log"
POSE = "/pose"
DECISION = "/plan"
STATE = "/state"
MISSION = "/mission"

_NUMBER: dict[str, Any] = {"type": "number"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_TEXT: dict[str, Any] = {"type": "string"}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}


def _object(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"t_s": _NUMBER, **fields}}


SCHEMAS: dict[str, dict[str, Any]] = {
    PACKET: _object(strut=_INTEGER, kind=_TEXT, data={"type": "string", "contentEncoding": "base64"}),
    REPORT: _object(board=_TEXT, measured=_NUMBERS, armed={"type": "boolean"}, latched={"type": "boolean"}, fault=_INTEGER),
    REQUEST: _object(request=_TEXT, argument=_TEXT),
    TICK: _object(loop=_TEXT, skipped=_INTEGER),
    ESTIMATE: _object(
        tip_m=_NUMBERS,
        position_m=_NUMBERS,
        rotation=_NUMBERS,
        cable_length_m=_NUMBERS,
        tip_sigma_m=_NUMBER,
        age_s=_NUMBER,
        flags=_INTEGER,
        strut_flags=_NUMBERS,
    ),
    COMMAND: _object(value=_NUMBERS, source=_TEXT),
    TRANSITION: _object(state=_TEXT, previous=_TEXT, line=_TEXT),
    LOG: _object(line=_TEXT),
    POSE: _object(caps=_NUMBERS, received_s=_NUMBER),
    DECISION: _object(kind=_TEXT, start_s=_NUMBER, value=_NUMBERS, cost=_NUMBER),
    MISSION: _object(data=_TEXT),
    STATE: _object(centre=_NUMBERS, axis_rad=_NUMBER, distance=_NUMBER, rest=_NUMBERS, age_s=_NUMBER),
}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(fields: dict[str, Any]) -> bytes:
    """JSON with shortest-repr floats, so that decoding returns the same bits."""
    return _encoder.encode(fields)


def decode(payload: bytes) -> dict[str, Any]:
    """The fields of a recorded message; raises msgspec.DecodeError for what is not one."""
    fields = _decoder.decode(payload)
    if not isinstance(fields, dict):
        raise msgspec.DecodeError("a recorded message is a JSON object")
    return fields


def packet(strut: int, kind: str, payload: bytes, received_s: float) -> bytes:
    """A raw packet of a strut's board as it arrived."""
    return encode({"t_s": received_s, "strut": strut, "kind": kind, "data": base64.b64encode(payload).decode()})


def packet_payload(fields: dict[str, Any]) -> bytes:
    """The raw bytes of a recorded packet; raises RecordingError when they are not base64."""
    try:
        return base64.b64decode(fields["data"], validate=True)
    except ValueError as error:
        raise RecordingError(f"a message on {PACKET} holds no packet: {error}") from error


def report(r: BoardReport) -> bytes:
    """An actuator board's telemetry."""
    return encode(
        {
            "t_s": r.t_s,
            "board": r.board,
            "boot_id": r.boot_id,
            "epoch": r.epoch,
            "armed": r.armed,
            "latched": r.latched,
            "stop_input": r.stop_input,
            "fault": r.fault,
            "last_sequence": r.last_sequence,
            "measured": r.measured.tolist(),
            "refused": r.refused,
            "ready": r.ready,
        }
    )


def report_from(fields: dict[str, Any]) -> BoardReport:
    """The inverse of `report`."""
    return BoardReport(**{**fields, "measured": np.asarray(fields["measured"], dtype=np.float64)})


def estimate(e: PoseEstimate) -> bytes:
    """A pose estimate; the covariance shrinks to the tip's standard deviation."""
    return encode(
        {
            "t_s": e.t_s,
            "tip_m": e.tip_m.tolist(),
            "position_m": e.position_m.ravel().tolist(),
            "rotation": e.rotation.ravel().tolist(),
            "cable_length_m": e.cable_length_m.tolist(),
            "tip_sigma_m": e.tip_sigma_m,
            "age_s": e.age_s,
            "flags": int(e.flags),
            "strut_flags": e.strut_flags.tolist(),
        }
    )


def command(s: Setpoints) -> bytes:
    """Set-points as the governor let them out."""
    return encode({"t_s": s.t_s, "value": s.value.tolist(), "source": s.source})
