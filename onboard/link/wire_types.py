"""The words of the wire format v1: message types, states, refusals, flags, and the frames as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

import numpy as np
import numpy.typing as npt

VERSION = 1
TICKS_PERIOD = 1 << 30
TICKS_MASK = TICKS_PERIOD - 1
SETPOINT_PA = 100.0  # one count of a pressure set-point or pressure channel [Pa]
MAX_IMU_SAMPLES = 32
MAX_CHANNELS = 32

Raw16 = npt.NDArray[np.int16]


class MessageType(IntEnum):
    """First byte of a serial frame; over MQTT the topic says the same."""

    COMMAND = 0x01
    ARM = 0x02
    DISARM = 0x03
    STOP = 0x04
    SYNC_REQUEST = 0x05
    CONFIG = 0x06
    HELLO = 0x07  # host -> board, empty: say your birth again
    MAINTENANCE = 0x08  # flasher -> board, empty: restart and wait for a flasher; refused while active
    BUS_BEGIN = 0x10  # simulation -> strut: take your samples from here instead of the sensor; refused while armed
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


class ImuFlag(IntFlag):
    """Low byte of an IMU frame's flags; the high byte is the configuration generation modulo 256."""

    OVERFLOW = 1  # samples were dropped on the board before this frame
    BUS_ERROR = 2  # an I2C transfer failed since the last frame
    SENSOR_FAULT = 4  # the sensor had to be set up again since the last frame


class BoardKind(IntEnum):
    STRUT = 0
    VALVE = 1
    MOTOR = 2
    SUCTION = 3


class BoardState(IntEnum):
    """What an actuator board does with commands. Only ACTIVE acts on them."""

    DISARMED = 0
    ACTIVE = 1
    LATCHED = 2


class LatchCause(IntEnum):
    """Why a board is (or was last) latched in its safe state."""

    NONE = 0
    SILENCE = 1  # no valid command within the deadline
    EXPIRED = 2  # the newest command outlived its ttl
    STOP_MESSAGE = 3
    STOP_INPUT = 4  # the hard-wired stop
    WATCHDOG = 5  # the board was reset by its watchdog
    CRASH = 6  # the application ended with an error
    OUTPUT_FAULT = 7  # the hardware that drives the outputs does not answer
    STALL = 8  # a motor was driven and did not turn
    OVERCURRENT = 9  # a motor drew more than its limit although it was held back


class BoardFault(IntFlag):
    """Fault bits of a telemetry frame."""

    NONE = 0
    UNCONFIGURED = 1  # no configuration: outputs at minimum, arming refused
    STOP_INPUT = 2  # the hard-wired stop is open now
    MEASUREMENT = 4  # measured channels cannot be read; their values are the last good ones
    NOT_FOLLOWING = 8  # at least one channel is further from its set-point than configured, for longer than configured
    OUTPUT = 16  # the output hardware does not answer
    CONFIG_UNREADABLE = 32  # a stored configuration was there but not valid
    STALL = 64  # a motor has stalled since the board was last armed
    OVERCURRENT = 128  # a motor has drawn too much since the board was last armed


class Refusal(IntEnum):
    """Why a board refused a frame; counted by reason in its health message."""

    NONE = 0
    VERSION = 1
    LENGTH = 2
    FLAGS = 3
    BOOT_ID = 4
    EPOCH = 5
    SEQUENCE = 6
    AGE = 7
    FUTURE = 8  # issued later than now by more than clock synchronisation explains
    COUNT = 9
    STATE = 10
    UNCONFIGURED = 11
    CRC = 12
    TYPE = 13


class ChannelType(IntEnum):
    """Type and unit of a telemetry channel's int16 value."""

    PRESSURE = 1  # 100 Pa, measured
    SETPOINT = 2  # in the unit of the command: what the outputs hold now
    ENCODER = 3  # counts, wraps at the encoder's own range
    SEAL = 4  # 0 open, 1 sealed
    BATTERY = 5  # mV
    TEMPERATURE = 6  # 0.01 degrees Celsius
    SPEED = 7  # encoder counts a second
    CURRENT = 8  # mA


@dataclass(frozen=True, slots=True)
class ImuFrame:
    """Raw samples of one strut.

    raw (n, 7) int16: ax ay az gx gy gz temperature; elapsed_us (n,): time since `ticks_us`.
    """

    boot_id: int
    sequence: int  # of the first sample; sample k has sequence + k (mod 2**32)
    ticks_us: int  # acquisition of the first sample, board clock
    flags: ImuFlag
    config_generation: int  # modulo 256
    elapsed_us: npt.NDArray[np.int64]
    raw: Raw16


@dataclass(frozen=True, slots=True)
class CommandFrame:
    """A command of n set-points (n,) int16 in the board's unit; with none, the body of arm, disarm or stop."""

    boot_id: int
    epoch: int
    sequence: int
    issued_ticks_us: int
    ttl_ms: int
    setpoints: Raw16


@dataclass(frozen=True, slots=True)
class TelemetryFrame:
    """State of an actuator board. channel_type, channel_index, channel_value (n,)."""

    kind: BoardKind
    state: BoardState
    cause: LatchCause
    config_generation: int  # modulo 256
    faults: BoardFault
    boot_id: int
    epoch: int
    sequence: int
    ticks_us: int
    last_command_sequence: int
    refused: int  # all refusals since boot, modulo 2**16
    last_refusal: Refusal
    channel_type: npt.NDArray[np.uint8]
    channel_index: npt.NDArray[np.uint8]
    channel_value: Raw16

    def values(self, kind: ChannelType) -> Raw16:
        """Values of one channel type, ordered by channel index (m,)."""
        chosen = self.channel_type == kind
        order = np.argsort(self.channel_index[chosen], kind="stable")
        found: Raw16 = self.channel_value[chosen][order]
        return found


@dataclass(frozen=True, slots=True)
class SyncResponse:
    """Answer to a sync request: the host's stamp as it came, the board's ticks at receipt and at sending."""

    host_ns: int
    boot_id: int
    received_ticks_us: int
    sent_ticks_us: int
