"""The board's side of the register file (sim/boards/registers.py has the layout); runs on MicroPython."""

# ruff: noqa: PTH123, SIM115 (MicroPython has no pathlib)

import struct

PATH = "/sim/registers.bin"
IMU_AT = 0
IMU_SIZE = 36
IMU_CONFIG_AT = 64
WATCHDOG_AT = 128
NETWORK_AT = 160
VALVE_IN_AT = 192
VALVE_IN_SIZE = 44
VALVE_OUT_AT = 256
MOTOR_IN_AT = 384
MOTOR_IN_SIZE = 24
MOTOR_OUT_AT = 448
RING_AT = 1024
RING = 32
SLOT = 24

_file = open(PATH, "r+b")


def write(at: int, layout: str, *values) -> None:
    """Pack values into the file."""
    _file.seek(at)
    _file.write(struct.pack(layout, *values))


class Record:
    """A record with its version at both ends; `data` is the last one that was whole."""

    def __init__(self, at: int, size: int) -> None:
        self._at = at
        self._size = size
        self._buffer = bytearray(size)
        self.data = bytearray(size)

    def load(self) -> bytearray:
        """Read until head and tail agree; a writer that died half way leaves the last whole record in use."""
        buffer = self._buffer
        tail = self._size - 4
        for _ in range(100):
            _file.seek(self._at)
            _file.readinto(buffer)
            if buffer[0:4] == buffer[tail:]:
                self._buffer = self.data
                self.data = buffer
                break
        return self.data


_ring = bytearray(RING * SLOT)


def load_ring() -> bytearray:
    """All samples that the sensor holds, newest and oldest side by side; `slot` finds one."""
    _file.seek(RING_AT)
    _file.readinto(_ring)
    return _ring


def slot(counter: int) -> int:
    """Where sample `counter` lies in the loaded ring; -1 when it has been overwritten or is half written."""
    at = counter % RING * SLOT
    head = struct.unpack_from("<I", _ring, at)[0]
    return at if head == counter and _ring[at : at + 4] == _ring[at + 20 : at + 24] else -1


imu = Record(IMU_AT, IMU_SIZE)
valve_in = Record(VALVE_IN_AT, VALVE_IN_SIZE)
motor_in = Record(MOTOR_IN_AT, MOTOR_IN_SIZE)


def network_up() -> bool:
    """False while the simulation has taken the network away."""
    _file.seek(NETWORK_AT)
    return _file.read(1) == b"\0"
