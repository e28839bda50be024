"""Recordings of one inertial sensor, to be played to a virtual strut: BROAD trials, their excerpts, and anybody's CSV.

A CSV has a header line and the columns t_s [s], ax ay az [m/s^2] (specific force: about +9.81 upwards at rest), gx gy gz
[rad/s], in sensor axes; and, for an evaluation, qw qx qy qz: the orientation of the sensor in a frame with z upwards.
"""

from __future__ import annotations

import csv
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onboard.errors import ConfigError, MissingExtraError
from onboard.messages import Bools, Floats

MOTION = ("t_s", "ax", "ay", "az", "gx", "gy", "gz")
TRUTH = ("qw", "qx", "qy", "qz")
MIN_SECONDS = 2.0
MAX_GAP_S = 0.5
MAX_ACCELERATION_M_S2 = 16 * 9.80665
MAX_RATE_RAD_S = math.radians(2000.0)
CALIBRATED = 1.2  # calibration may lift values a little above a sensor's range
MAX_SAMPLING_HZ = 100_000.0
# What numpy's and scipy's readers raise for files that are no archives, cut off, corrupt, or hold something else.
_UNREADABLE = (KeyError, ValueError, TypeError, IndexError, OSError, EOFError, NotImplementedError, MemoryError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error, struct.error)
G_LOOKS_LIKE_ONE = (0.5, 2.0)  # median norm of accelerations that were given in g


@dataclass(frozen=True, slots=True)
class Recording:
    """One sensor's motion. t_s (n,) from 0, increasing. acceleration_m_s2, rate_rad_s (n, 3): sensor axes.

    up (n, 3): the true upward direction in sensor axes, NaN where unknown; None without truth. movement (n,): samples that count.
    """

    name: str
    t_s: Floats
    acceleration_m_s2: Floats
    rate_rad_s: Floats
    up: Floats | None
    movement: Bools

    @property
    def duration_s(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.t_s[-1])

    def cut(self, seconds: float) -> Recording:
        """The first `seconds` of it."""
        keep = self.t_s <= seconds
        up = None if self.up is None else self.up[keep]
        return Recording(self.name, self.t_s[keep], self.acceleration_m_s2[keep], self.rate_rad_s[keep], up, self.movement[keep])

    def resample(self, rate_hz: float) -> tuple[Floats, Floats, Floats]:
        """As a sensor with this output rate gives it: times (k,), accelerations (k, 3), rates (k, 3).

        Each value is the mean over the sample's own period, so that no turn is lost and nothing is folded into lower frequencies.
        """
        edges = np.arange(0.0, self.duration_s, 1.0 / rate_hz)
        values = np.concatenate([self.acceleration_m_s2, self.rate_rad_s], axis=1)
        step = np.diff(self.t_s)[:, None] * values[1:]  # a sample speaks for the time since the one before
        total = np.concatenate([np.zeros((1, 6)), np.cumsum(step, axis=0)])
        at = np.stack([np.interp(edges, self.t_s, column) for column in total.T], axis=1)
        mean = np.diff(at, axis=0) * rate_hz
        return edges[1:], mean[:, :3], mean[:, 3:]


def load_recording(path: Path) -> Recording:
    """A recording from .mat (BROAD), .npz (this project's excerpts) or .csv; ConfigError names file, line and column."""
    if not path.is_file():
        raise ConfigError(str(path), "", "there is no such file")
    readers = {".mat": _read_broad, ".npz": _read_excerpt, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(str(path), "", f"must be one of {', '.join(readers)}")
    return reader(path)


def _read_broad(path: Path) -> Recording:
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading .mat files", "sim") from error
    try:
        raw = loadmat(str(path))
        rate_hz = float(raw["sampling_rate"].squeeze())
        gyro, acceleration, truth = (np.asarray(raw[key], dtype=np.float64) for key in ("imu_gyr", "imu_acc", "opt_quat"))
        movement = np.asarray(raw["movement"]).ravel().astype(bool)
        t_s = _times(len(gyro), rate_hz)
    except (*_UNREADABLE, MatReadError) as error:
        raise ConfigError(str(path), "", f"is not a BROAD trial: {error}") from error
    return _checked(path, t_s, acceleration, gyro, truth, movement)


def _read_excerpt(path: Path) -> Recording:
    try:
        with path.open("rb") as file, np.load(file) as raw:
            names = ("gyro_rad_s", "acceleration_m_s2", "truth_wxyz")
            gyro, acceleration, truth = (np.asarray(raw[name].real, dtype=np.float64) for name in names)
            movement = np.asarray(raw["movement"]).ravel().astype(bool)
            t_s = _times(len(gyro), float(raw["rate_hz"]))
    except _UNREADABLE as error:
        raise ConfigError(str(path), "", f"is not an excerpt: {error}") from error
    return _checked(path, t_s, acceleration, gyro, truth, movement)


def _times(count: int, rate_hz: float) -> Floats:
    """Sample times (count,) [s] from 0; ValueError for a rate that no sensor has."""
    if not 0.0 < rate_hz <= MAX_SAMPLING_HZ:
        raise ValueError(f"a sampling rate of {rate_hz:g} Hz; it must be above 0 and at most {MAX_SAMPLING_HZ:g}")
    times: Floats = np.arange(count) / rate_hz
    return times


def _read_csv(path: Path) -> Recording:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "", f"cannot be read as UTF-8: {error}") from error
    try:
        rows = iter(list(csv.reader(text.splitlines())))
    except csv.Error as error:
        raise ConfigError(str(path), "", f"is not a CSV: {error}") from error
    header = [name.strip() for name in next(rows, [])]
    for name in MOTION:
        if name not in header:
            raise ConfigError(str(path), f"line 1, column {name}", f"is missing; the header must hold {', '.join(MOTION)}")
    with_truth = any(name in header for name in TRUTH)
    columns = MOTION + (TRUTH if with_truth else ())
    for name in header:
        if name not in MOTION + TRUTH:
            raise ConfigError(str(path), f"line 1, column {name}", f"is unknown; known are {', '.join(MOTION + TRUTH)}")
        if header.count(name) > 1:
            raise ConfigError(str(path), f"line 1, column {name}", "is there twice")
    if with_truth and (missing := [name for name in TRUTH if name not in header]):
        raise ConfigError(str(path), f"line 1, column {missing[0]}", "is missing: truth needs qw, qx, qy and qz")
    places = [header.index(name) for name in columns]
    table: list[list[float]] = []
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise ConfigError(str(path), f"line {number}", f"has {len(row)} columns, the header has {len(header)}")
        table.append([_number(path, number, columns[k], row[place]) for k, place in enumerate(places)])
        if len(table) > 1 and not 0.0 < table[-1][0] - table[-2][0] <= MAX_GAP_S:
            gap = table[-1][0] - table[-2][0]
            raise ConfigError(str(path), f"line {number}, column t_s", f"steps by {gap:g} s: must grow, by {MAX_GAP_S} s at most")
    if len(table) < 2:
        raise ConfigError(str(path), "", "holds no motion")
    data = np.array(table)
    truth = data[:, 7:11] if with_truth else None
    return _checked(path, data[:, 0] - data[0, 0], data[:, 1:4], data[:, 4:7], truth, np.ones(len(data), dtype=bool))


def _number(path: Path, line: int, column: str, text: str) -> float:
    where = f"line {line}, column {column}"
    if not text.strip() and column in TRUTH:
        return math.nan  # the truth may have gaps, the motion may not
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(str(path), where, f"is {text.strip()[:40]!r}: must be a number") from None
    if not math.isfinite(value):
        if column in TRUTH:
            return math.nan
        raise ConfigError(str(path), where, f"is {text.strip()}: must be a finite number")
    limit = MAX_ACCELERATION_M_S2 if column[0] == "a" else MAX_RATE_RAD_S if column[0] == "g" else math.inf
    if abs(value) > limit:
        unit = "m/s^2" if column[0] == "a" else "rad/s"
        raise ConfigError(str(path), where, f"is {value:g}: no sensor goes beyond {limit:.1f} {unit}; is the unit right?")
    return value


def _checked(
    path: Path, t_s: Floats, acceleration: Floats, rate: Floats, truth: Floats | None, movement: npt.NDArray[np.bool_]
) -> Recording:
    if (
        not len(t_s) == len(acceleration) == len(rate) == len(movement)
        or acceleration.shape[1:] != (3,)
        or rate.shape[1:] != (3,)
    ):
        raise ConfigError(str(path), "", "has columns of different lengths")
    if len(t_s) < 2:
        raise ConfigError(str(path), "", "holds no motion")
    if t_s[-1] < MIN_SECONDS:
        raise ConfigError(str(path), "", f"lasts {t_s[-1]:.2f} s; at least {MIN_SECONDS:.0f} s are needed")
    if not (np.isfinite(acceleration).all() and np.isfinite(rate).all()):
        raise ConfigError(str(path), "", "holds motion that is not a number")
    for what, values, limit in (("acceleration", acceleration, MAX_ACCELERATION_M_S2), ("rate", rate, MAX_RATE_RAD_S)):
        if np.abs(values).max() > CALIBRATED * limit:
            raise ConfigError(str(path), what, f"reaches {np.abs(values).max():g}: no sensor goes beyond {limit:.1f}")
    norm = float(np.median(np.linalg.norm(acceleration, axis=1)))
    if G_LOOKS_LIKE_ONE[0] < norm < G_LOOKS_LIKE_ONE[1]:
        raise ConfigError(str(path), "columns ax ay az", f"have a median norm of {norm:.2f}: they seem to be in g, not in m/s^2")
    return Recording(path.name, t_s, acceleration, rate, None if truth is None else _up(path, truth, len(t_s)), movement)


def _up(path: Path, truth: Floats, count: int) -> Floats:
    """World z in sensor axes, from unit quaternions (count, 4), w first; rows that are not a number stay so."""
    if truth.shape != (count, 4):
        raise ConfigError(str(path), "", f"has truth of shape {truth.shape}, must be ({count}, 4)")
    with np.errstate(over="ignore"):
        norm = np.linalg.norm(truth, axis=1)
    norm[np.isinf(norm)] = np.finfo(float).max  # too large is wrong, not missing
    wrong = np.flatnonzero(np.isfinite(norm) & (np.abs(norm - 1.0) > 0.05))
    if len(wrong):
        raise ConfigError(str(path), f"sample {wrong[0] + 1}, columns qw qx qy qz", f"have norm {norm[wrong[0]]:.3f}, must be 1")
    w, x, y, z = (truth / norm[:, None]).T
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)
