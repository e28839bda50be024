"""What the messages of a recording must hold: a foreign or damaged one is refused by topic and field where it is read."""

from __future__ import annotations

from typing import Any

import msgspec

from onboard.telemetry import schemas

Number = float | None  # not-a-number is null in JSON


class _Message(msgspec.Struct):
    t_s: float


class _Packet(_Message):
    strut: int
    kind: str
    data: str


class _Report(_Message, forbid_unknown_fields=True):
    board: str
    boot_id: int
    epoch: int
    armed: bool
    latched: bool
    stop_input: bool
    fault: int
    last_sequence: int
    measured: list[Number]
    refused: dict[str, int] = {}
    ready: bool = True


class _Posture(msgspec.Struct):
    name: str
    cable_length_m: list[Number]
    pressure_pa: list[Number]
    tip_m: list[Number]
    taught_wall_ns: int


class _Request(_Message):
    request: str
    posture: _Posture | None = None


class _Tick(_Message):
    loop: str
    skipped: int


class _SupervisorTick(_Tick):
    ticks: int
    overruns: int
    link_down: bool
    recorder_failed: bool


class _Estimate(_Message):
    tip_m: list[Number]
    position_m: list[Number] = []
    rotation: list[Number] = []
    cable_length_m: list[Number] = []


class _Command(_Message):
    value: list[Number]
    source: str


class _Transition(_Message):
    state: str
    previous: str
    line: str


_KINDS: dict[str, type[_Message]] = {
    schemas.PACKET: _Packet,
    schemas.REPORT: _Report,
    schemas.REQUEST: _Request,
    schemas.TICK: _Tick,
    schemas.ESTIMATE: _Estimate,
    schemas.COMMAND: _Command,
    schemas.TRANSITION: _Transition,
}


def check(topic: str, fields: dict[str, Any]) -> str:
    """What is wrong with a message of one of this project's topics: a field that is missing or of another type; or nothing."""
    kind = _KINDS.get(topic, _Message)
    if topic == schemas.TICK and fields.get("loop") == "supervisor":
        kind = _SupervisorTick
    try:
        msgspec.convert(fields, kind, strict=True)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
