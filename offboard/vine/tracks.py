"""Tracked centre lines over time as they come from video: reading, checking, padding.

A data file is a CSV with a header, or an npz with arrays of the same names, one row a tracked point, in order from base
to tip: `trial, time_s, x_<unit>, y_<unit>` with the unit `m`, `mm`, `cm` or `px`. Frames may be missing and may have
any number of points from two up. Beside it may lie `<name>.base.csv` (`trial, time_s, x_<unit>, y_<unit>, heading_rad`,
the base's pose over time; without it the base rests at the first frame's first point) and `<name>.walls.csv`
(`x1_<unit>, y1_<unit>, x2_<unit>, y2_<unit>`, wall segments). Pixels need `scale_m_per_px`.
"""

from __future__ import annotations

import csv
import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offboard.vine.shape import Target
from offboard.vine.table import lengths, read_table
from onboard.errors import ConfigError
from sim.vine import Obstacle, UnitsWarning, VineError, wall
from sim.vine.robot import finite

Array = NDArray[np.float64]
LONGEST_S = 600.0  # a growth tracked for longer was probably timed in milliseconds


@dataclass(frozen=True)
class Trial:
    """One growth tracked over time: times (F,) [s], the points of each frame, the base over time, walls.

    base_times (K,) [s] and base (K, 3) [m, m, rad] are interpolated; scale_known is False for pixel data, whose lengths
    are pixels.
    """

    name: str
    times_s: Array
    target: Target
    base_times_s: Array
    base: Array
    walls: tuple[Obstacle, ...] = ()
    scale_known: bool = True

    def __post_init__(self) -> None:
        for name in ("times_s", "base_times_s", "base"):
            finite(f"trial {self.name}: {name}", getattr(self, name))
        finite(f"trial {self.name}: points", self.target.points)
        if len(self.times_s) != len(self.target.counts) or np.any(np.diff(self.times_s) <= 0) or np.any(self.target.counts < 2):
            raise VineError(f"trial {self.name}: frames in order of time, each with two points or more")

    def base_at(self, times_s: Array) -> Array:
        """Base poses (T, 3) at some times."""
        return np.stack([np.interp(times_s, self.base_times_s, self.base[:, k]) for k in range(3)], axis=1)

    def length_m(self, frame: int = 0) -> float:
        """Distance between the ends of a frame's tracked line; noise does not lengthen it as it does the line."""
        return float(np.hypot(*(self.target.points[frame, self.target.counts[frame] - 1] - self.target.points[frame, 0])))


def pad(frames: list[Array]) -> Target:
    """Frames of points, each (K, 2), as one padded target."""
    counts = np.array([len(f) for f in frames], dtype=np.int64)
    points = np.zeros((len(frames), int(counts.max()), 2))
    for k, frame in enumerate(frames):
        points[k, : len(frame)] = frame
    return Target(points, counts)


def load(path: Path, scale_m_per_px: float | None = None) -> list[Trial]:
    """All trials of a data file, in order of their numbers; ConfigError says what is wrong and where."""
    if scale_m_per_px is not None and not (math.isfinite(scale_m_per_px) and scale_m_per_px > 0):
        raise ConfigError(str(path), "scale_m_per_px", f"{scale_m_per_px} must be positive")
    columns = read_table(path, ("trial", "time_s"))
    (x, y), known = lengths(columns, ("x", "y"), path, scale_m_per_px)
    walls = _walls(path.with_suffix(".walls.csv"), scale_m_per_px, known)
    bases = _bases(path.with_suffix(".base.csv"), scale_m_per_px, known)
    trials = []
    for number in np.unique(columns["trial"]):
        mine = columns["trial"] == number
        times, frames = np.unique(columns["time_s"][mine]), []
        for time_s in times:
            here = mine & (columns["time_s"] == time_s)
            frames.append(np.stack([x[here], y[here]], axis=1))
        enough = np.array([len(f) >= 2 for f in frames])
        if enough.sum() < 3:
            raise ConfigError(str(path), f"trial {number:g}", "fewer than three frames with two points or more")
        frames = [f for f, good in zip(frames, enough, strict=True) if good]
        times = times[enough]
        if all(np.ptp(f, axis=0).max() == 0.0 for f in frames):
            raise ConfigError(str(path), f"trial {number:g}", "has no length: all points of every frame lie in one place")
        if bases is None:
            first = frames[0]
            heading = math.atan2(*(first[-1] - first[0])[::-1])
            base_times, base = times[:1], np.array([[*first[0], heading]])
        elif number in bases:
            base_times, base = bases[number]
        else:
            raise ConfigError(str(path.with_suffix(".base.csv")), f"trial {number:g}", "has no rows")
        trial = Trial(f"{number:g}", times, pad(frames), base_times, base, walls, known)
        _doubt(trial)
        trials.append(trial)
    return trials


def _walls(path: Path, scale: float | None, known: bool) -> tuple[Obstacle, ...]:
    """Wall segments beside the data, none without a file."""
    if not path.exists():
        return ()
    ends, theirs = lengths(read_table(path), ("x1", "y1", "x2", "y2"), path, scale)
    if theirs != known:
        raise ConfigError(str(path), "x1, y1, x2, y2", "pixels and metres mixed with the tracked points: give the scale")
    made = []
    for row, (a, b, c, d) in enumerate(zip(*ends, strict=True), 1):
        try:
            made.append(wall((a, b), (c, d)))
        except VineError as error:
            raise ConfigError(str(path), f"row {row} of the data", str(error)) from error
    for row, item in enumerate(made):
        for other in range(row):
            if _crossing(*item.corners, *made[other].corners):
                raise ConfigError(
                    str(path), f"row {row + 1} of the data", f"crosses the wall of row {other + 1}: end both where they meet"
                )
    return tuple(made)


def _crossing(a: Array, b: Array, c: Array, d: Array) -> bool:
    """Whether the inside of segment a-b crosses the inside of c-d; walls may meet at an end."""

    def side(p: Array, s: Array, e: Array) -> float:
        across = (e[0] - s[0]) * (p[1] - s[1]) - (e[1] - s[1]) * (p[0] - s[0])
        return 0.0 if abs(across) < 1e-9 * np.hypot(*(e - s)) * max(np.hypot(*(e - s)), np.hypot(*(p - s))) else float(across)

    return side(a, c, d) * side(b, c, d) < 0.0 and side(c, a, b) * side(d, a, b) < 0.0


def _bases(path: Path, scale: float | None, known: bool) -> dict[float, tuple[Array, Array]] | None:
    """Base poses over time by trial; None without a file."""
    if not path.exists():
        return None
    columns = read_table(path, ("trial", "time_s", "heading_rad"))
    (x, y), theirs = lengths(columns, ("x", "y"), path, scale)
    if theirs != known:
        raise ConfigError(str(path), "x, y", "pixels and metres mixed with the tracked points: give the scale")
    poses, made = np.stack([x, y, columns["heading_rad"]], axis=1), {}
    for number in np.unique(columns["trial"]):
        own = np.flatnonzero(columns["trial"] == number)
        own = own[np.argsort(columns["time_s"][own], kind="stable")]
        made[float(number)] = (columns["time_s"][own], poses[own])
    return made


def _doubt(trial: Trial) -> None:
    """Warns of what is possible but looks like another unit."""
    end = trial.length_m(len(trial.times_s) - 1)
    span = trial.times_s[-1] - trial.times_s[0]
    doubts = []
    if trial.scale_known and not 1e-2 < end < 20.0:
        doubts.append(f"is {end:g} m long at its end (units?)")
    if span > LONGEST_S:
        doubts.append(f"lasts {span:g} s (milliseconds?)")
    if len(trial.base_times_s) > 1 and not (
        trial.base_times_s[0] < trial.times_s[-1] and trial.times_s[0] < trial.base_times_s[-1]
    ):
        doubts.append("has a base whose times lie apart from its own (units?)")
    if np.abs(trial.base[:, 2]).max() > 20.0:
        doubts.append(f"has a base that turns to {np.abs(trial.base[:, 2]).max():g} rad (degrees?)")
    if trial.scale_known and trial.walls:
        far = min(float(np.abs(w.corners - trial.base[0, :2]).max()) for w in trial.walls)
        if far > 20.0:
            doubts.append(f"has its nearest wall {far:g} m away (units?)")
    for doubt in doubts:
        warnings.warn(f"trial {trial.name} {doubt}", UnitsWarning, stacklevel=3)


def save(path: Path, trials: list[Trial]) -> None:
    """Writes trials in millimetres as the CSV files `load` reads."""
    with path.open("w", newline="", encoding="utf-8") as handle:
        out = csv.writer(handle)
        out.writerow(["trial", "time_s", "x_mm", "y_mm"])
        for k, trial in enumerate(trials):
            for frame, time_s in enumerate(trial.times_s):
                for point in trial.target.points[frame, : trial.target.counts[frame]]:
                    out.writerow([k, f"{time_s:.6f}", *(f"{1e3 * v:.6f}" for v in point)])
    with path.with_suffix(".base.csv").open("w", newline="", encoding="utf-8") as handle:
        out = csv.writer(handle)
        out.writerow(["trial", "time_s", "x_mm", "y_mm", "heading_rad"])
        for k, trial in enumerate(trials):
            for time_s, pose in zip(trial.base_times_s, trial.base, strict=True):
                out.writerow([k, f"{time_s:.6f}", *(f"{1e3 * v:.6f}" for v in pose[:2]), f"{pose[2]:.9f}"])
    walls = trials[0].walls
    if walls:
        with path.with_suffix(".walls.csv").open("w", newline="", encoding="utf-8") as handle:
            out = csv.writer(handle)
            out.writerow(["x1_mm", "y1_mm", "x2_mm", "y2_mm"])
            for item in walls:
                out.writerow([f"{1e3 * v:.6f}" for v in item.corners[[0, -1]].ravel()])
