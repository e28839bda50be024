"""One strut's stream of IMU frames: boots, sequence, clock, age and scales. Pure state, driven by frames and receipt times."""

from __future__ import annotations

from collections import Counter, deque
from itertools import pairwise

import numpy as np

from onboard.link.board_json import Birth
from onboard.link.board_time import BoardTime
from onboard.link.wire_types import ImuFlag, ImuFrame, SyncResponse
from onboard.messages import Floats, ImuBatch, SensorFlag, frozen

FULL_SCALE = 32767
FUTURE_S = 0.02  # a sample may seem this much newer than its arrival before its clock is held to be wrong
LET_GO = 20  # refused in a row as duplicate or backwards: the accepted sequence itself must have been wrong
TWIN_FRAMES = 50  # of an earlier boot: more than can have been on their way
TWIN_GONE_S = 10.0  # without a sign of a second board
SEQUENCE_HALF = 1 << 31
SEQUENCE_MASK = (1 << 32) - 1
_BOARD_TROUBLE = ImuFlag.BUS_ERROR | ImuFlag.SENSOR_FAULT


class StrutStream:
    """Everything between a strut's decoded frames and its batches.

    packets, samples: accepted. lost: samples missing in the sequence. boots: births with a boot id never seen before.
    refused: frames refused, by reason (unborn, duplicate, backwards, stale, future, malformed).
    """

    def __init__(self, strut: int, max_age_s: float) -> None:
        self.strut = strut
        self.time = BoardTime()
        self.boot_id: int | None = None
        self.boots = 0
        self.two_boards = False
        self.birth_wanted = False  # its data cannot be read: the birth of this boot or configuration has not come
        self.packets = self.samples = self.lost = 0
        self.newest_s = float("-inf")
        self.refused: Counter[str] = Counter()
        self._max_age_s = max_age_s
        self._birth: Birth | None = None
        self._earlier_boots: deque[int] = deque(maxlen=4)
        self._next_sequence: int | None = None
        self._last_ticks = 0
        self._repeated = 0
        self._twin_frames = 0
        self._twin_s = float("-inf")
        self._spoken = False  # whether the present boot has sent anything but its birth

    def born(self, birth: Birth, received_s: float) -> None:
        """A birth that fits: its scales hold from now on; a new boot id starts sequence and clock anew."""
        if birth.boot_id != self.boot_id:
            if birth.boot_id in self._earlier_boots:
                self.two_boards, self._twin_s = True, received_s
            else:
                self.boots += 1
            self._twin_frames = 0
            if self.boot_id is not None and self.boot_id not in self._earlier_boots:
                self._earlier_boots.append(self.boot_id)
            self.boot_id = birth.boot_id
            self._spoken = False
            self._next_sequence = None
            self.time.restart()
        self._birth = birth
        self.birth_wanted = False

    def _watch_for_a_twin(self, boot_id: int, received_s: float) -> None:
        """Frames of an earlier boot that go on and on come from a second board of this name."""
        if boot_id in self._earlier_boots and boot_id != self.boot_id:
            self._twin_frames += 1
            self._twin_s = received_s
            self.two_boards = self.two_boards or self._twin_frames >= TWIN_FRAMES
        elif self.two_boards and received_s - self._twin_s > TWIN_GONE_S:
            self.two_boards = False

    @property
    def _usurped(self) -> bool:
        """Whether a birth has come that nothing follows, while the board from before sends on: then that one shall be heard."""
        return not self._spoken and self._twin_frames >= TWIN_FRAMES

    def distrust(self) -> None:
        """The board's newest birth is useless: accept nothing until a good one comes."""
        self._birth = None
        self.birth_wanted = True

    def sync(self, response: SyncResponse, received_s: float) -> None:
        """Take a clock exchange of the present boot; others are refused."""
        if response.boot_id != self.boot_id:
            self.refused["unborn"] += 1
        elif not self.time.sync.add(response, received_s):
            self.refused["slow_sync"] += 1

    def imu(self, frame: ImuFrame, received_s: float) -> ImuBatch | None:
        """The batch in `frame`, or None with a count of why not."""
        birth = self._birth
        self._watch_for_a_twin(frame.boot_id, received_s)
        if birth is None or frame.boot_id != birth.boot_id or frame.config_generation != birth.config_generation & 0xFF:
            self._refuse("unborn")
            # What an earlier boot sent may still be on its way; no birth would make it readable.
            self.birth_wanted = self.birth_wanted or frame.boot_id not in self._earlier_boots or self._usurped
            return None
        self._spoken = True
        elapsed_us: list[int] = frame.elapsed_us.tolist()
        count = len(elapsed_us)
        if any(later <= earlier for earlier, later in pairwise(elapsed_us)):
            self._refuse("malformed")
            return None
        missing = 0
        if self._next_sequence is not None:
            missing = ((frame.sequence - self._next_sequence + SEQUENCE_HALF) & SEQUENCE_MASK) - SEQUENCE_HALF
        if missing < 0:
            self._refuse_repeated("duplicate")
            return None
        newest_ticks = self.time.sync.unwrap(frame.ticks_us, received_s) + elapsed_us[-1]
        if self._next_sequence is not None and newest_ticks <= self._last_ticks:
            self._refuse_repeated("backwards")
            return None
        newest_s = self.time.host_s(newest_ticks, received_s)
        if newest_s - received_s > FUTURE_S:
            self._refuse("future")
            return None
        self._repeated = 0
        self.lost += missing
        self._next_sequence = (frame.sequence + count) & SEQUENCE_MASK
        self._last_ticks = newest_ticks
        if received_s - newest_s > self._max_age_s:
            self._refuse("stale")
            return None
        self.packets += 1
        self.samples += count
        self.newest_s = newest_s
        return self._batch(frame, birth, [newest_s - (elapsed_us[-1] - us) * 1e-6 for us in elapsed_us], received_s)

    def _batch(self, frame: ImuFrame, birth: Birth, t_s: list[float], received_s: float) -> ImuBatch:
        motion = frame.raw[:, :6]
        flags = SensorFlag.NONE
        if motion.max() >= FULL_SCALE or motion.min() <= -FULL_SCALE:
            flags |= SensorFlag.SATURATED
        if frame.flags & _BOARD_TROUBLE:
            flags |= SensorFlag.BUS_ERROR
        if not self.time.synchronised:
            flags |= SensorFlag.UNSYNCHRONISED
        acceleration: Floats = motion[:, :3] * np.float64(birth.accel_scale)
        rate: Floats = motion[:, 3:] * np.float64(birth.gyro_scale)
        acceleration.flags.writeable = rate.flags.writeable = False  # fresh arrays: no copy is needed to freeze them
        return ImuBatch(
            self.strut,
            frame.boot_id,
            frame.sequence,
            frozen(t_s),
            acceleration,
            rate,
            int(frame.raw[-1, 6]) * birth.temp_scale + birth.temp_offset,
            flags,
            received_s,
        )

    def _refuse(self, reason: str) -> None:
        self.refused[reason] += 1

    def _refuse_repeated(self, reason: str) -> None:
        """Refuse, but let go of a sequence that one damaged frame may have put out of reach."""
        self._repeated += 1
        if self._repeated >= LET_GO:
            self._next_sequence, self._repeated = None, 0
        self.refused[reason] += 1
