"""The plant's samples as it takes them, on a local datagram socket: to feed boards over USB, and to time all boards by."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onboard.clock import Clock
from onboard.errors import LinkError

if TYPE_CHECKING:  # the listening end needs no physics
    from sim.tower.coupling import ImuPort

SAMPLE, FAULTS = 0, 1
_HEAD = struct.Struct("<BHdi")  # kind, strut, host time [s], counter or value
_RAW = struct.Struct("<7h")
MAX_BYTES = 256


@dataclass(frozen=True, slots=True)
class Tapped:
    """kind: SAMPLE or FAULTS. t_s: host time [s]. value: the sample's counter, or the fault bits. raw: 14
    bytes in the drivers' order, of a sample."""

    kind: int
    strut: int
    t_s: float
    value: int
    raw: bytes


class TappedPort:
    """Registers of one strut's sensor that tell the tap first, at once, and never wait for it."""

    def __init__(self, inner: ImuPort, strut: int, line: socket.socket, path: str, clock: Clock) -> None:
        self._inner, self._strut, self._line, self._path, self._clock = inner, strut, line, path, clock

    def write_sample(self, counter: int, accel: Sequence[int], gyro: Sequence[int], temperature: int) -> None:
        """As ImuPort's."""
        self._tell(SAMPLE, counter, _RAW.pack(*accel, *gyro, temperature))
        self._inner.write_sample(counter, accel, gyro, temperature)

    def set_rate_correction(self, steps: int) -> None:
        """As ImuPort's."""
        self._inner.set_rate_correction(steps)

    def set_faults(self, bits: int) -> None:
        """As ImuPort's."""
        self._tell(FAULTS, bits)
        self._inner.set_faults(bits)

    def _tell(self, kind: int, value: int, raw: bytes = b"") -> None:
        with suppress(OSError):  # nobody listens, or is behind: the plant does not wait
            self._line.sendto(_HEAD.pack(kind, self._strut, self._clock.now_s(), value) + raw, self._path)


def tap_ports(
    ports: Mapping[str, ImuPort], order: Sequence[str], names: Sequence[str], path: Path, clock: Clock
) -> dict[str, ImuPort]:
    """`ports` with those of `names` telling the tap at `path`. order: the robot's struts, whose index is sent."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    line.setblocking(False)
    tapped = {name: TappedPort(ports[name], order.index(name), line, str(path), clock) for name in names}
    return {**ports, **tapped}


class TapReader:
    """The listening end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        mask = os.umask(0o177)
        try:
            self._socket.bind(str(path))
        except OSError as error:
            raise LinkError(f"{path}: cannot listen: {error}") from error
        finally:
            os.umask(mask)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """For add_reader."""
        return self._socket.fileno()

    def read(self) -> list[Tapped]:
        """What has come, oldest first."""
        found: list[Tapped] = []
        with suppress(BlockingIOError):
            while True:
                data = self._socket.recv(MAX_BYTES)
                if len(data) >= _HEAD.size:
                    found.append(Tapped(*_HEAD.unpack_from(data), data[_HEAD.size :]))
        return found

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        self.path.unlink(missing_ok=True)
