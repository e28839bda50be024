"""Finds the times at which every strut lay still in a stream of batches: the poses that a calibration stands on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onboard.errors import CalibrationError
from onboard.link.decode import Decoder
from onboard.messages import Floats, ImuBatch
from onboard.robot import RobotSpec
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording

BIN_S = 0.5
STILL_BINS = 4  # two seconds
STILL_RATE_RAD_S = 0.02  # spread of a channel within a bin: four times a sensor's own noise
STILL_FORCE_M_S2 = 0.15
CREEP_M_S2 = 0.035  # change of a mean from bin to bin: 0.2 degrees in half a second is motion; noise makes half of it
DIFFERENT_RAD = math.radians(2.0)  # poses closer together than this teach nothing new
Bin = dict[int, tuple[Floats, Floats, int]]


@dataclass(frozen=True, slots=True)
class Still:
    """One pose held: its start and end, host time [s]; means in sensor axes, force (n, 3) [m/s^2], rate (n, 3) [rad/s]."""

    start_s: float
    end_s: float
    force_m_s2: Floats
    rate_rad_s: Floats


class StillFinder:
    """Takes batches in any order of struts; `stills` says where all n struts lay still. Raises CalibrationError for NaN."""

    def __init__(self, struts: int) -> None:
        self._n = struts
        self._rows: dict[int, dict[int, list[Floats]]] = {}

    def add(self, batch: ImuBatch) -> None:
        """Take one batch of one strut."""
        values = np.concatenate([batch.acceleration_m_s2, batch.rate_rad_s], axis=1)
        if not (np.isfinite(values).all() and np.isfinite(batch.t_s).all()):
            raise CalibrationError(f"strut {batch.strut} sent a sample that is not a number: repair it before calibrating")
        for t_s, row in zip(batch.t_s.tolist(), values, strict=True):
            self._rows.setdefault(math.floor(t_s / BIN_S), {}).setdefault(batch.strut, []).append(row)

    def stills(self) -> list[Still]:
        """Poses of at least two seconds, in order; one that repeats an earlier pose is left out."""
        found: list[Still] = []
        run: list[tuple[int, Floats, Floats]] = []
        for number in [*sorted(self._rows), math.inf]:
            bin_ = self._quiet(int(number)) if math.isfinite(number) else None
            follows = bool(run) and bin_ is not None and number == run[-1][0] + 1
            if follows and bin_ is not None and float(np.abs(bin_[0] - run[-1][1]).max()) < CREEP_M_S2:
                run.append((int(number), *bin_))
                continue
            _keep(found, run)
            run = [(int(number), *bin_)] if bin_ is not None else []
        return found

    def _quiet(self, number: int) -> tuple[Floats, Floats] | None:
        struts = self._rows[number]
        if len(struts) < self._n:
            return None
        mean = np.empty((self._n, 6))
        for strut, rows in struts.items():
            values = np.array(rows)
            spread = values.std(axis=0)
            if len(values) < 5 or spread[:3].max() > STILL_FORCE_M_S2 or spread[3:].max() > STILL_RATE_RAD_S:
                return None
            mean[strut] = values.mean(axis=0)
        return mean[:, :3], mean[:, 3:]


def _keep(found: list[Still], run: list[tuple[int, Floats, Floats]]) -> None:
    if len(run) < STILL_BINS:
        return
    settled = run[1:]  # the first bin may still swing
    force = np.mean([row[1] for row in settled], axis=0)
    rate = np.mean([row[2] for row in settled], axis=0)
    unit = force / np.linalg.norm(force, axis=1, keepdims=True)
    for old in found:
        other = old.force_m_s2 / np.linalg.norm(old.force_m_s2, axis=1, keepdims=True)
        if float(np.arccos(np.clip((unit * other).sum(axis=1), -1.0, 1.0)).max()) < DIFFERENT_RAD:
            return
    found.append(Still(run[0][0] * BIN_S, (run[-1][0] + 1) * BIN_S, force, rate))


def stills_of(recording: Recording, spec: RobotSpec) -> list[Still]:
    """The poses held in a recording of `spec`; raises CalibrationError when it was armed: a robot may move by itself then."""
    finder = StillFinder(len(spec.struts))
    for batch in _batches(recording, spec):
        finder.add(batch)
    return finder.stills()


def _batches(recording: Recording, spec: RobotSpec) -> Iterator[ImuBatch]:
    decoder = Decoder(spec)
    for topic, fields in recording:
        if topic == schemas.COMMAND:
            raise CalibrationError(f"{recording.path}: the robot was armed: calibrate from a recording of a disarmed robot")
        if topic != schemas.PACKET:
            continue
        batch = decoder.packet(fields["strut"], fields["kind"], schemas.packet_payload(fields), fields["t_s"])
        if batch is not None:
            yield batch
