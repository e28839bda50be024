"""The JSON messages of boards (birth, health, configuration and its acknowledgement), strictly typed."""

from __future__ import annotations

import math
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from onboard.errors import NotANumberError, WireError
from onboard.link.wire_types import VERSION

Count = Annotated[int, Meta(ge=0)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
T = TypeVar("T")
Int16 = Annotated[int, Meta(ge=-32768, le=32767)]


class Birth(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """Who a board is; retained on `state` (MQTT) or sent at start and on HELLO (serial).

    With `online` false it is the last will: only v, boot_id and name mean anything. accel_scale [m/s^2 per count],
    gyro_scale [rad/s per count], temperature = raw * temp_scale + temp_offset [degrees Celsius].
    """

    v: int
    online: bool
    boot_id: U32
    name: str
    board_id: str = ""  # the chip's unique id, hexadecimal; also the MQTT client id
    app: str = ""  # strut, valve, ...
    board: str = ""  # nano_rp2040, m5stickc_plus
    firmware: str = ""
    interpreter: str = ""
    reset_cause: str = ""  # power_on, hard, watchdog, deep_sleep, soft, unknown
    crash: str = ""  # last line of the error that ended the previous run, if one did
    config_generation: int = 0
    # struts
    sensor: str = ""
    bus: str = "i2c"  # where samples come from: i2c, the sensor; usb, a simulation
    sensor_fault: str = ""  # empty when the sensor answers as it should
    rate_hz: float = 0.0
    batch: int = 0
    accel_scale: float = 0.0
    gyro_scale: float = 0.0
    temp_scale: float = 0.0
    temp_offset: float = 0.0
    # actuator boards
    channels: int = 0
    unit_pa: float = 0.0  # one count of a set-point
    full_scale: int = 0  # largest set-point the outputs can make, in counts
    latched: str = ""  # why the board started latched: watchdog, crash, or empty


class Health(msgspec.Struct, frozen=True):
    """Once a second. Counters run since boot."""

    boot_id: U32
    uptime_s: float
    free_bytes: int
    refused: dict[str, Count] = {}
    samples: Count = 0
    dropped: Count = 0
    bus_errors: Count = 0
    recoveries: Count = 0
    reconnects: Count = 0
    sensor_fault: str = ""
    rssi_dbm: int | None = None
    battery_mv: int | None = None
    state: str = ""
    cause: str = ""
    not_following: list[int] = []
    crc_errors: Count = 0
    oversized: Count = 0
    loop_max_ms: int = 0


class ConfigAck(msgspec.Struct, frozen=True):
    """A board's answer to a configuration; `error` says what to change when `ok` is false."""

    boot_id: U32
    generation: int
    ok: bool
    error: str = ""


class StrutConfig(msgspec.Struct, frozen=True):
    """What a strut may be told; retained on `cfg`."""

    generation: Annotated[int, Meta(ge=1, le=65535)]
    batch: Annotated[int, Meta(ge=1, le=8)] = 2
    accel_range_g: int = 4
    gyro_range_dps: int = 500


class ActuatorChannel(msgspec.Struct, frozen=True):
    """Limits of one output, in counts of the board's unit. slew: counts per second towards an active command."""

    safe: Int16
    min: Int16
    max: Int16
    slew: Annotated[int, Meta(ge=1, le=10_000_000)]


class ActuatorConfig(msgspec.Struct, frozen=True):
    """What an actuator board must be told before it can be armed; the board keeps it. follow_*: 0 switches it off."""

    generation: Annotated[int, Meta(ge=1, le=65535)]
    deadline_ms: Annotated[int, Meta(ge=20, le=10_000)]
    channels: list[ActuatorChannel]
    follow_tolerance: Annotated[int, Meta(ge=0, le=32767)] = 0
    follow_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0


def encode_config(config: StrutConfig | ActuatorConfig) -> bytes:
    """JSON for `cfg` or a CONFIG frame."""
    return msgspec.json.encode(config)


def decode_birth(data: bytes) -> Birth:
    """A birth or last will; WireError for another version or shape, NotANumberError for a useless scale."""
    birth = _decode(data, Birth, "birth")
    if birth.v != VERSION:
        raise WireError(f"birth: wire version {birth.v}, this side speaks {VERSION}")
    scales = (birth.accel_scale, birth.gyro_scale, birth.temp_scale, birth.temp_offset, birth.rate_hz, birth.unit_pa)
    if not all(math.isfinite(value) for value in scales):
        raise NotANumberError(f"birth of {birth.name}: a scale is not finite")
    return birth


def decode_health(data: bytes) -> Health:
    """A health message; raises WireError."""
    return _decode(data, Health, "health")


def decode_config_ack(data: bytes) -> ConfigAck:
    """An acknowledgement; raises WireError."""
    return _decode(data, ConfigAck, "configuration acknowledgement")


def _decode(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"{what}: {error}") from error
