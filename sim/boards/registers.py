"""The register file between plant and virtual board: sensor samples in, converter outputs out, faults on request.

One file a board, in its jail, mapped into the plant's memory. sim/boards/shims/registers.py is the board's side and
repeats the layout. A record that both sides touch carries its version at both ends; the writer writes the tail first
and the head last, the reader reads upwards and takes it only when both agree, so nobody ever sees half a sample.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

G = 9.80665  # m/s^2, standard gravity
SIZE = 2048
RING = 32  # samples that a sensor holds until they are read
MAX_CHANNELS = 16

_IMU_AT = 0
_IMU_BODY = struct.Struct("<I6hhHHHhH")  # counter, accel, gyro, temperature, faults, bus events, battery, rate, spare
_IMU_TAIL_AT = 4 + _IMU_BODY.size
_IMU_CONFIG_AT = 64
_IMU_CONFIG = struct.Struct("<HHHHfII")  # running, accel g, gyro dps, spare, rate Hz, reads, missed
_RING_AT = 1024
_SLOT = struct.Struct("<I7hHI")  # counter, accel, gyro, temperature, spare, counter
_SLOT_BODY = struct.Struct("<7h")
_WATCHDOG_AT = 128
_WATCHDOG = struct.Struct("<II")  # time-out ms (0: not started), feeds
_NETWORK_AT = 160
_VALVE_IN_AT = 192
_VALVE_IN_BODY = struct.Struct("<16HHH")  # pressure codes, stop input, faults
_VALVE_IN_TAIL_AT = _VALVE_IN_AT + 4 + _VALVE_IN_BODY.size
_VALVE_OUT_AT = 256
_VALVE_OUT = struct.Struct("<I16H")  # writes, set-point codes
MOTORS = 2
_MOTOR_IN_AT = 384
_MOTOR_IN_BODY = struct.Struct("<2i2HHH")  # encoder counts, current mA, stop input, spare
_MOTOR_IN_TAIL_AT = _MOTOR_IN_AT + 4 + _MOTOR_IN_BODY.size
_MOTOR_OUT_AT = 448
_MOTOR_OUT = struct.Struct("<I4HI")  # writes, duties of both inputs of every bridge, writes
_U32 = struct.Struct("<I")
_U16 = struct.Struct("<H")

FAULT_WRONG_ID = 1  # WHO_AM_I answers another number
FAULT_NO_ANSWER = 2  # every transfer fails

SETPOINT_PA_PER_CODE = 6000 * 100.0 / 4095  # firmware/valve/converters.py: 6000 counts of 100 Pa at full scale
MEASURED_PA_PER_CODE = 7000 * 100.0 / 4095

# sensitivity per count by range, from the data sheets; the firmware has its own copy and a test compares results
LSM6DSOX_ACCEL_G = {2: 0.061e-3, 4: 0.122e-3, 8: 0.244e-3, 16: 0.488e-3}
LSM6DSOX_GYRO_DPS = {125: 4.375e-3, 250: 8.75e-3, 500: 17.5e-3, 1000: 35e-3, 2000: 70e-3}


@dataclass(frozen=True, slots=True)
class ImuSetup:
    """What the firmware has configured in the sensor. reads and missed: samples taken, samples overwritten unread."""

    running: bool
    accel_range_g: int
    gyro_range_dps: int
    rate_hz: float
    reads: int
    missed: int


def create(path: Path) -> None:
    """A fresh register file of zeros; a running board that maps the old one does not see it."""
    path.write_bytes(bytes(SIZE))
    with BoardRegisters(path) as registers:
        registers.set_battery(4000)


class BoardRegisters:
    """What every board has: watchdog, network, bus faults. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._imu_version: int = _U32.unpack_from(self._map, _IMU_AT)[0]
        self._imu: list[int] = list(_IMU_BODY.unpack_from(self._map, _IMU_AT + 4))

    def __enter__(self) -> BoardRegisters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._map.close()

    def watchdog(self) -> tuple[int, int]:
        """(time-out [ms], feeds since the board's start); a time-out of 0 means not started."""
        timeout_ms, feeds = _WATCHDOG.unpack_from(self._map, _WATCHDOG_AT)
        return timeout_ms, feeds

    def clear_watchdog(self) -> None:
        """As after a reset."""
        _WATCHDOG.pack_into(self._map, _WATCHDOG_AT, 0, 0)

    def set_wifi(self, up: bool) -> None:
        """Take the board's network away or give it back."""
        _U16.pack_into(self._map, _NETWORK_AT, 0 if up else 1)

    def set_faults(self, bits: int) -> None:
        """FAULT_ bits that hold from now on."""
        self._imu[8] = bits
        self._commit_imu()

    def stick_data_line(self) -> None:
        """A slave holds SDA low until it has seen nine clocks."""
        self._imu[9] = (self._imu[9] + 1) & 0xFFFF
        self._commit_imu()

    def set_battery(self, millivolts: int) -> None:
        self._imu[10] = millivolts
        self._commit_imu()

    def _commit_imu(self) -> None:
        self._imu_version = (self._imu_version + 1) & 0xFFFFFFFF
        _U32.pack_into(self._map, _IMU_TAIL_AT, self._imu_version)
        _IMU_BODY.pack_into(self._map, _IMU_AT + 4, *self._imu)
        _U32.pack_into(self._map, _IMU_AT, self._imu_version)


class ImuRegisterFile(BoardRegisters):
    """The plant's pen for one strut's sensor; `sensor` is lsm6dsox or mpu6886."""

    def __init__(self, path: Path, sensor: str) -> None:
        super().__init__(path)
        self.sensor = sensor
        self._counter: int | None = None

    def write_sample(self, counter: int, accel: Sequence[int], gyro: Sequence[int], temperature: int) -> None:
        """A new sample of raw int16 counts into the sensor's FIFO; the `counter` of the last call again: no sample."""
        if counter == self._counter:
            return
        self._counter = counter
        body = self._imu
        body[0] = (body[0] + 1) & 0xFFFFFFFF  # the chip's own count, without gaps whatever the caller's does
        body[1], body[2], body[3] = accel
        body[4], body[5], body[6] = gyro
        body[7] = temperature
        slot = _RING_AT + body[0] % RING * _SLOT.size
        _U32.pack_into(self._map, slot + _SLOT.size - 4, body[0])
        _SLOT_BODY.pack_into(self._map, slot + 4, *body[1:8])
        _U32.pack_into(self._map, slot, body[0])
        self._commit_imu()

    def write_physical(
        self,
        counter: int,
        acceleration_m_s2: Sequence[float],
        rate_rad_s: Sequence[float],
        temperature_c: float = 25.0,
    ) -> None:
        """A new sample in SI units, quantised and saturated as the configured ranges do; NaN raises ValueError."""
        setup = self.setup()
        accel_unit, gyro_unit, temp_unit = self.scales(setup.accel_range_g, setup.gyro_range_dps)
        self.write_sample(
            counter,
            [saturate(value / accel_unit) for value in acceleration_m_s2],
            [saturate(value / gyro_unit) for value in rate_rad_s],
            saturate((temperature_c - 25.0) / temp_unit),
        )

    def scales(self, accel_range_g: int, gyro_range_dps: int) -> tuple[float, float, float]:
        """(m/s^2, rad/s, degrees Celsius) per count; ranges of 0 (not configured yet) count as 4 g and 500 dps."""
        accel_range_g, gyro_range_dps = accel_range_g or 4, gyro_range_dps or 500
        if self.sensor == "lsm6dsox":
            gyro = math.radians(LSM6DSOX_GYRO_DPS[gyro_range_dps])
            return LSM6DSOX_ACCEL_G[accel_range_g] * G, gyro, 1 / 256
        return accel_range_g * G / 32768, math.radians(gyro_range_dps) / 32768, 1 / 326.8

    def setup(self) -> ImuSetup:
        """What the firmware has configured, and how many samples it took."""
        running, accel, gyro, _, rate, reads, missed = _IMU_CONFIG.unpack_from(self._map, _IMU_CONFIG_AT)
        return ImuSetup(bool(running), accel, gyro, rate, reads, missed)

    def set_rate_correction(self, steps: int) -> None:
        """INTERNAL_FREQ_FINE of an LSM6DSOX: its real rate is 104 Hz * (1 + 0.0015 * steps), -128..127."""
        self._imu[11] = steps
        self._commit_imu()


class ValveRegisterFile(BoardRegisters):
    """The plant's side of a valve board's converters; n channels, pressures in Pa."""

    def __init__(self, path: Path, channels: int) -> None:
        super().__init__(path)
        self.channels = channels
        self._in_version: int = _U32.unpack_from(self._map, _VALVE_IN_AT)[0]
        self._in: list[int] = list(_VALVE_IN_BODY.unpack_from(self._map, _VALVE_IN_AT + 4))

    def outputs(self) -> list[float]:
        """The n pressures [Pa] that the valves are told to hold now."""
        codes = _VALVE_OUT.unpack_from(self._map, _VALVE_OUT_AT)[1 : 1 + self.channels]
        return [code * SETPOINT_PA_PER_CODE for code in codes]

    def output_writes(self) -> int:
        """How often the board has written its converters: zero means never since the file was made."""
        count: int = _U32.unpack_from(self._map, _VALVE_OUT_AT)[0]
        return count

    def write_pressures(self, pressures_pa: Sequence[float]) -> None:
        """The n measured pressures [Pa] as the board's converter will read them, saturated at 0.7 MPa."""
        for index in range(self.channels):
            value = pressures_pa[index] / MEASURED_PA_PER_CODE
            self._in[index] = min(max(saturate(value), 0), 4095)
        self._commit_in()

    def press_stop(self, pressed: bool) -> None:
        """Open (pressed, or a cut wire) or close the hard-wired stop."""
        self._in[16] = int(pressed)
        self._commit_in()

    def _commit_in(self) -> None:
        self._in_version = (self._in_version + 1) & 0xFFFFFFFF
        _U32.pack_into(self._map, _VALVE_IN_TAIL_AT, self._in_version)
        _VALVE_IN_BODY.pack_into(self._map, _VALVE_IN_AT + 4, *self._in)
        _U32.pack_into(self._map, _VALVE_IN_AT, self._in_version)


class MotorRegisterFile(ImuRegisterFile):
    """A motor board's parts: the IMU of a strut, two bridges, two encoders."""

    def __init__(self, path: Path, sensor: str) -> None:
        super().__init__(path, sensor)
        self._motor_version: int = _U32.unpack_from(self._map, _MOTOR_IN_AT)[0]
        self._motor: list[int] = list(_MOTOR_IN_BODY.unpack_from(self._map, _MOTOR_IN_AT + 4))
        self._duty: list[float] = [0.0] * MOTORS
        self._braked: list[bool] = [True] * MOTORS

    def bridges(self) -> tuple[list[float], list[bool]]:
        """(duty in -1 .. 1, whether the winding is shorted all the time) of every bridge, as the PWM inputs say now."""
        for _ in range(100):
            head, *inputs, tail = _MOTOR_OUT.unpack_from(self._map, _MOTOR_OUT_AT)
            if head == tail:
                for motor in range(MOTORS):
                    first, second = inputs[2 * motor], inputs[2 * motor + 1]
                    self._duty[motor] = (first - second) / 65535 if head else 0.0
                    self._braked[motor] = first == second
                break
        return list(self._duty), list(self._braked)

    def bridge_writes(self) -> int:
        """How often the board has written its bridges since it started."""
        count: int = _U32.unpack_from(self._map, _MOTOR_OUT_AT)[0]
        return count

    def write_motors(self, counts: Sequence[int], current_ma: Sequence[float]) -> None:
        """Positions of both encoders in counts, and currents [mA]."""
        self._motor[0:MOTORS] = [(count + 0x80000000 & 0xFFFFFFFF) - 0x80000000 for count in counts]
        self._motor[MOTORS : 2 * MOTORS] = [min(max(saturate(value), 0), 3300) for value in current_ma]
        self._commit_motor()

    def press_stop(self, pressed: bool) -> None:
        """Open (pressed, or a cut wire) or close the hard-wired stop."""
        self._motor[2 * MOTORS] = int(pressed)
        self._commit_motor()

    def power_off(self) -> None:
        """A board without power drives nothing."""
        _MOTOR_OUT.pack_into(self._map, _MOTOR_OUT_AT, 0, 0, 0, 0, 0, 0)

    def _commit_motor(self) -> None:
        self._motor_version = (self._motor_version + 1) & 0xFFFFFFFF
        _U32.pack_into(self._map, _MOTOR_IN_TAIL_AT, self._motor_version)
        _MOTOR_IN_BODY.pack_into(self._map, _MOTOR_IN_AT + 4, *self._motor)
        _U32.pack_into(self._map, _MOTOR_IN_AT, self._motor_version)


def saturate(counts: float) -> int:
    """To the nearest int16, at the ends of the range like a sensor; ValueError for NaN."""
    return round(min(max(counts, -32768.0), 32767.0)) if counts == counts else _refuse_nan()


def _refuse_nan() -> int:
    raise ValueError("a sample is not a number")
