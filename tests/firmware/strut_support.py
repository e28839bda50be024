"""A strut under test, and how to read the frames that it sends."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from onboard.link.wire import ticks_difference
from onboard.link.wire_types import ImuFlag, ImuFrame
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from tests.firmware.conftest import Broker, Feeder

PREFIX = "test/rig"
Make = Callable[..., VirtualBoard]
Feed = Callable[..., Feeder]


def strut(broker: Broker, **changes: object) -> BoardConfig:
    return BoardConfig("strut00", **({"prefix": PREFIX, "broker_port": broker.port, "keepalive_s": 2} | changes))  # type: ignore[arg-type]


def contiguous(frames: list[ImuFrame]) -> bool:
    """Every frame continues the sequence of the one before."""
    return all(
        later.sequence == (earlier.sequence + len(earlier.raw)) & 0xFFFFFFFF for earlier, later in itertools.pairwise(frames)
    )


def after_loss(frames: list[ImuFrame]) -> list[ImuFrame]:
    """The frames from the last one on that says that samples were lost; none when nothing was. By sequence: what a
    broker held for a session that is over comes when it likes."""
    frames = sorted(frames, key=lambda frame: frame.sequence)
    said = [index for index, frame in enumerate(frames) if frame.flags & ImuFlag.OVERFLOW]
    return frames[said[-1] :] if said else []


def sample_times_us(frames: list[ImuFrame]) -> np.ndarray:
    """Acquisition times of all samples, unwrapped, from the first frame's ticks."""
    start = frames[0].ticks_us
    offsets, last, total = [], start, 0
    for frame in frames:
        total += ticks_difference(frame.ticks_us, last)
        last = frame.ticks_us
        offsets.append(total + frame.elapsed_us)
    return np.concatenate(offsets)
