"""Raw packets of struts to IMU batches in SI units and host time: pure, so that a recording replays to the same bits.

Everything depends on the packets, their order and their times of receipt alone. Nothing is repaired: a packet that breaks a
rule is refused and counted by reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from onboard.errors import NotANumberError, WireError
from onboard.link.board_json import Birth, ConfigAck, Health, decode_birth, decode_config_ack, decode_health
from onboard.link.board_time import BoardTime
from onboard.link.reached import Reached
from onboard.link.strut_stream import StrutStream
from onboard.link.wire import decode_imu, decode_sync_response
from onboard.messages import Floats, ImuBatch

G_M_S2 = 9.80665
FAST_SYNC_S = 0.1  # between exchanges until a board's clock is known
SCALE_MARGIN = 1.25  # real sensors' scales stray from range/32768 (the LSM6DSOX gyro's by 14.7 %)
ACCEL_SCALES = (2.0 * G_M_S2 / 32768 / SCALE_MARGIN, 16.0 * G_M_S2 / 32768 * SCALE_MARGIN)
GYRO_SCALES = (np.radians(125.0) / 32768 / SCALE_MARGIN, np.radians(2000.0) / 32768 * SCALE_MARGIN)


@dataclass(frozen=True, slots=True)
class StrutStatus:
    """What is known of one strut's board. refused: packets and messages refused, by reason."""

    strut: str
    online: bool
    synchronised: bool
    drift_ppm: float
    round_trip_ms: float
    boots: int
    two_boards: bool
    packets: int
    samples: int
    lost: int
    refused: dict[str, int]
    problem: str
    birth: Birth | None
    health: Health | None
    ack: ConfigAck | None


class Decoder:
    """Takes every packet of every strut, in order of arrival, and gives back the batches that can be trusted.

    Raises nothing for bad packets: see `status`. `strangers` counts calls for struts that the robot's file does not have.
    """

    app = "strut"  # the firmware that these boards run

    def __init__(self, spec: Reached) -> None:
        self._spec = spec
        max_age_s = spec.imu.max_age_ms / 1000.0
        self._streams = [StrutStream(index, max_age_s) for index in range(len(spec.struts))]
        self._births: list[Birth | None] = [None] * len(spec.struts)
        self._health: list[Health | None] = [None] * len(spec.struts)
        self._acks: list[ConfigAck | None] = [None] * len(spec.struts)
        self._online = [False] * len(spec.struts)
        self._problems = [""] * len(spec.struts)
        self._refused: list[Counter[str]] = [Counter() for _ in spec.struts]
        self._sync_period_s = spec.link.sync_period_ms / 1000.0
        self.strangers = 0

    def packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> ImuBatch | None:
        """Take one packet: topic kind `imu`, `state`, `health`, `cfg/ack` or `sync/rsp`. The batch, if it holds one."""
        if not 0 <= strut < len(self._streams):
            self.strangers += 1
            return None
        try:
            if kind == "imu":
                return self._imu(strut, payload, received_s)
            if not payload:
                raise WireError(f"{kind}: empty")
            if kind == "sync/rsp":
                self._streams[strut].sync(decode_sync_response(payload), received_s)
            elif kind == "state":
                self._state(strut, decode_birth(payload), received_s)
            elif kind == "health":
                self._health[strut] = decode_health(payload)
            elif kind == "cfg/ack":
                self._ack(strut, decode_config_ack(payload))
            else:
                raise WireError(f"unknown kind of message {kind!r}")
        except WireError as error:
            # Data come again by themselves; a birth that cannot be read is for people.
            self._refuse(strut, "malformed", str(error) if kind == "state" else "")
            self._streams[strut].birth_wanted |= kind == "state"
        except NotANumberError as error:
            self._streams[strut].distrust()
            self._refuse(strut, "not_finite", str(error))
        return None

    def _imu(self, strut: int, payload: bytes, received_s: float) -> ImuBatch | None:
        batch = self._streams[strut].imu(decode_imu(payload), received_s)
        if batch is not None:
            # A last will may arrive after the birth of the same boot (take-over at the broker): data speak louder.
            self._online[strut] = True
        return batch

    def _state(self, strut: int, birth: Birth, received_s: float) -> None:
        name = self._spec.struts[strut]
        stream = self._streams[strut]
        if birth.name != name:
            stream.birth_wanted = True  # the right board's answer says that all is well again
            self._refuse(strut, "foreign", f"a board that calls itself {birth.name!a} writes on the topics of {name}")
        elif not birth.online:
            if birth.boot_id == stream.boot_id:
                self._online[strut] = False
            else:
                self._refuse(strut, "old_will", "")
        elif problem := self._unfit(birth):
            stream.distrust()
            self._refuse(strut, "unfit", problem)
        else:
            stream.born(birth, received_s)
            self._births[strut], self._online[strut] = birth, True
            self._problems[strut] = f"sensor: {birth.sensor_fault}" if birth.sensor_fault else ""

    def _unfit(self, birth: Birth) -> str:
        """Why a birth cannot be worked with, or an empty string."""
        if birth.app != self.app:
            return f"runs {birth.app!a} firmware, not a {self.app}'s"
        if birth.sensor != self._spec.imu.sensor:
            return f"has sensor {birth.sensor!a}, the robot's file says {self._spec.imu.sensor}"
        for key, value, (low, high) in (
            ("accel_scale", birth.accel_scale, ACCEL_SCALES),
            ("gyro_scale", birth.gyro_scale, GYRO_SCALES),
        ):
            if not low <= value <= high:
                return f"{key} is {value:g}: no range of such a sensor gives less than {low:.3g} or more than {high:.3g}"
        return ""

    def _ack(self, strut: int, ack: ConfigAck) -> None:
        self._acks[strut] = ack
        if not ack.ok:
            self._problems[strut] = f"configuration {ack.generation} refused: {ack.error}"

    def _refuse(self, strut: int, reason: str, problem: str) -> None:
        self._refused[strut][reason] += 1
        if problem:
            self._problems[strut] = problem

    def time(self, strut: int) -> BoardTime:
        """The clock of one board, for whatever else comes from it."""
        return self._streams[strut].time

    def synchronised(self, strut: int) -> bool:
        """True when sample times come from exchanges with the board, not from arrivals."""
        return self._streams[strut].time.synchronised

    def sync_interval_s(self, strut: int) -> float:
        """How long to wait before the next clock exchange with a board: short while its clock is unknown."""
        stream = self._streams[strut]
        waiting = stream.boot_id is not None and not stream.time.synchronised
        return min(FAST_SYNC_S, self._sync_period_s) if waiting else self._sync_period_s

    def birth_wanted(self, strut: int) -> bool:
        """True while a board sends what cannot be read without a birth message that has not come."""
        return self._streams[strut].birth_wanted

    def problems(self) -> dict[str, str]:
        """What a person must see to, by strut; without those that have no problem."""
        found = {name: self._problem(strut) for strut, name in enumerate(self._spec.struts)}
        return {name: problem for name, problem in found.items() if problem}

    def _problem(self, strut: int) -> str:
        if self._streams[strut].two_boards:
            return f"two boards send under the name {self._spec.struts[strut]}: give one of them another name"
        return self._problems[strut]

    @property
    def refused_total(self) -> int:
        """Packets and messages refused since the start, all struts and reasons together."""
        own = sum(counts.total() for counts in self._refused)
        return self.strangers + own + sum(stream.refused.total() for stream in self._streams)

    def newest_s(self) -> Floats:
        """Acquisition time of every strut's newest accepted sample (n,) [s]; minus infinity where there is none."""
        return np.array([stream.newest_s for stream in self._streams])

    def status(self, strut: int) -> StrutStatus:
        """All that is known of one strut's board."""
        stream, name = self._streams[strut], self._spec.struts[strut]
        return StrutStatus(
            name,
            self._online[strut],
            stream.time.synchronised,
            stream.time.sync.drift_ppm,
            stream.time.sync.round_trip_s * 1e3,
            stream.boots,
            stream.two_boards,
            stream.packets,
            stream.samples,
            stream.lost,
            dict(self._refused[strut] + stream.refused),
            self._problem(strut),
            self._births[strut],
            self._health[strut],
            self._acks[strut],
        )
