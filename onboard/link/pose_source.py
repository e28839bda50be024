"""One idea: positions of markers from outside (motion capture, a camera) as datagrams on a local socket.

A datagram says how old its positions are when it is sent, so no clock has to be shared. Little-endian: "PO", version, count,
u32 boot id, u32 sequence, u32 age [us], then x, y, z a marker as f32 [m].
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections import Counter
from pathlib import Path

import numpy as np

from onboard.errors import LinkError, WireError
from onboard.messages import Floats

HEAD = struct.Struct("<2sBBIII")
MAGIC, VERSION = b"PO", 1
MAX_MARKERS = 64
MAX_AGE_US = 10_000_000
MOST_A_POLL = 64


def encode_pose(boot_id: int, sequence: int, age_s: float, markers_m: Floats) -> bytes:
    """One datagram of markers (n, 3) [m]."""
    head = HEAD.pack(MAGIC, VERSION, len(markers_m), boot_id, sequence, round(1e6 * age_s))
    return head + np.asarray(markers_m, dtype="<f4").tobytes()


def decode_pose(data: bytes) -> tuple[int, int, float, Floats]:
    """(boot id, sequence, age [s], markers (n, 3) [m]); raises WireError for what is none."""
    if len(data) < HEAD.size:
        raise WireError(f"a pose of {len(data)} bytes")
    magic, version, count, boot_id, sequence, age_us = HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise WireError(f"a pose of version {version}, or none at all")
    if not 1 <= count <= MAX_MARKERS or len(data) != HEAD.size + 12 * count:
        raise WireError(f"a pose of {count} markers in {len(data)} bytes")
    if age_us > MAX_AGE_US:
        raise WireError(f"a pose {age_us} us old")
    markers = np.frombuffer(data, dtype="<f4", offset=HEAD.size).astype(np.float64).reshape(count, 3)
    if not np.isfinite(markers).all():
        raise WireError("a pose that is not finite")
    return boot_id, sequence, 1e-6 * age_us, markers


class PoseSource:
    """Listens at `path`. refused: datagrams by reason; only newer ones of the same sender count."""

    def __init__(self, path: Path, markers: int) -> None:
        self.path, self.markers = path, markers
        self.refused: Counter[str] = Counter()
        self.received = 0
        self._boot_id, self._sequence = -1, -1
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        mask = os.umask(0o177)
        try:
            self._socket.bind(str(path))
        except OSError as error:
            raise LinkError(f"{path}: cannot listen for poses: {error.strerror or error}") from error
        finally:
            os.umask(mask)

    def poll(self, now_s: float) -> list[tuple[float, Floats]]:
        """What has come: (when it was true, markers (n, 3) [m]), oldest first."""
        found: list[tuple[float, Floats]] = []
        for _ in range(MOST_A_POLL):
            try:
                data = self._socket.recv(4096)
            except BlockingIOError:
                break
            try:
                boot_id, sequence, age_s, markers = decode_pose(data)
            except WireError:
                self.refused["malformed"] += 1
                continue
            if len(markers) != self.markers:
                self.refused["other_count"] += 1
            elif boot_id == self._boot_id and sequence <= self._sequence:
                self.refused["sequence"] += 1
            else:
                self._boot_id, self._sequence = boot_id, sequence
                self.received += 1
                found.append((now_s - age_s, markers))
        return found

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
