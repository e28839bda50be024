"""The wire format v1 on the board's side; the host's side is onboard/link/wire.py, docs/protocol.md describes both."""

import struct

from common import ticks

VERSION = 1

# Message types on a serial line; over MQTT the topic says the same.
COMMAND = 0x01
ARM = 0x02
DISARM = 0x03
STOP = 0x04
SYNC_REQUEST = 0x05
CONFIG = 0x06
HELLO = 0x07
MAINTENANCE = 0x08
BUS_BEGIN = 0x10
BUS_SAMPLES = 0x11
BUS_FAULTS = 0x12
BUS_END = 0x13
TELEMETRY = 0x81
BIRTH = 0x82
SYNC_RESPONSE = 0x83
CONFIG_ACK = 0x84
HEALTH = 0x85
LOG = 0x86
BUS_STATE = 0x90
BUS_REPORT = 0x91

# IMU flags.
OVERFLOW = 1
BUS_ERROR = 2
SENSOR_FAULT = 4

# Reasons for refusing a frame, by number as telemetry carries them and by name as health counts them.
NONE = 0
R_VERSION = 1
R_LENGTH = 2
R_FLAGS = 3
R_BOOT_ID = 4
R_EPOCH = 5
R_SEQUENCE = 6
R_AGE = 7
R_FUTURE = 8
R_COUNT = 9
R_STATE = 10
R_UNCONFIGURED = 11
R_CRC = 12
R_TYPE = 13
REFUSALS = (
    "none",
    "version",
    "length",
    "flags",
    "boot_id",
    "epoch",
    "sequence",
    "age",
    "future",
    "count",
    "state",
    "unconfigured",
    "crc",
    "type",
)

# Types of telemetry channels.
CH_PRESSURE = 1
CH_SETPOINT = 2
CH_ENCODER = 3
CH_SEAL = 4
CH_BATTERY = 5
CH_TEMPERATURE = 6
CH_SPEED = 7
CH_CURRENT = 8

IMU_HEADER_SIZE = 16
IMU_SAMPLE_SIZE = 16
COMMAND_HEADER_SIZE = 22
TELEMETRY_HEADER_SIZE = 32


class Refused(Exception):
    """A frame that the board does not act on; `reason` is one of the R_ numbers."""

    def __init__(self, reason: int) -> None:
        super().__init__(REFUSALS[reason])
        self.reason = reason


class Command:
    """A decoded command, arm, disarm or stop."""

    def __init__(self, boot_id: int, epoch: int, sequence: int, issued: int, ttl_ms: int, setpoints: tuple[int, ...]):
        self.boot_id = boot_id
        self.epoch = epoch
        self.sequence = sequence
        self.issued = issued
        self.ttl_ms = ttl_ms
        self.setpoints = setpoints


def decode_command(data: bytes) -> Command:
    """Bytes to a command; raises Refused for another version, length or reserved bits."""
    if len(data) < 1:
        raise Refused(R_LENGTH)
    if data[0] != VERSION:
        raise Refused(R_VERSION)
    if len(data) < COMMAND_HEADER_SIZE:
        raise Refused(R_LENGTH)
    _, n, flags, boot_id, epoch, sequence, issued, ttl_ms = struct.unpack_from("<BBHIIIIH", data)
    if len(data) != COMMAND_HEADER_SIZE + 2 * n:
        raise Refused(R_LENGTH)
    if flags or issued > ticks.MASK:
        raise Refused(R_FLAGS)
    setpoints = struct.unpack_from("<%dh" % n, data, COMMAND_HEADER_SIZE)
    return Command(boot_id, epoch, sequence, issued, ttl_ms, setpoints)


def imu_header_into(out: bytearray, n: int, flags: int, generation: int, boot_id: int, sequence: int, ticks_us: int) -> None:
    """Write the header of a frame of n samples whose bytes start at IMU_HEADER_SIZE."""
    struct.pack_into(
        "<BBHIII",
        out,
        0,
        VERSION,
        n,
        flags | (generation & 0xFF) << 8,
        boot_id,
        sequence & 0xFFFFFFFF,
        ticks_us,
    )


def encode_telemetry(
    kind: int,
    state: int,
    cause: int,
    generation: int,
    faults: int,
    boot_id: int,
    epoch: int,
    sequence: int,
    ticks_us: int,
    last_command: int,
    refused: int,
    last_refusal: int,
    channels: list[tuple[int, int, int]],
) -> bytearray:
    """State of an actuator board; channels are (type, index, int16 value)."""
    out = bytearray(TELEMETRY_HEADER_SIZE + 4 * len(channels))
    struct.pack_into(
        "<BBBBBBHIIIIIHBB",
        out,
        0,
        VERSION,
        len(channels),
        kind,
        state,
        cause,
        generation & 0xFF,
        faults,
        boot_id,
        epoch,
        sequence & 0xFFFFFFFF,
        ticks_us,
        last_command,
        refused & 0xFFFF,
        last_refusal,
        0,
    )
    at = TELEMETRY_HEADER_SIZE
    for channel in channels:
        struct.pack_into("<BBh", out, at, channel[0], channel[1], channel[2])
        at += 4
    return out


def decode_sync_request(data: bytes) -> bytes:
    """The host's stamp as 8 opaque bytes (a board without 64-bit integers only echoes it); raises Refused."""
    if len(data) != 12:
        raise Refused(R_LENGTH)
    if data[0] != VERSION:
        raise Refused(R_VERSION)
    return data[4:12]


def encode_sync_response(stamp: bytes, boot_id: int, received: int, sent: int) -> bytes:
    """The host's stamp and the board's ticks at receipt and at sending."""
    return struct.pack("<BBH", VERSION, 0, 0) + stamp + struct.pack("<III", boot_id, received, sent)
