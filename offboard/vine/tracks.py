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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offboard.vine.shape import Target
from onboard.errors import ConfigError
from sim.vine import Obstacle, UnitsWarning, wall

Array = NDArray[np.float64]
UNITS_M = {"m": 1.0, "mm": 1e-3, "cm": 1e-2}


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


def _table(path: Path) -> dict[str, Array]:
    """Columns of a CSV or npz file as float arrays; ConfigError names file, column and row."""
    if not path.exists():
        raise ConfigError(str(path), "", "no such file")
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as data:
            columns = {name: np.asarray(data[name], float).ravel() for name in data.files}
    else:
        with path.open(newline="", encoding="utf-8") as handle:
            rows = [row for row in csv.reader(handle) if row]
        if len(rows) < 2:
            raise ConfigError(str(path), "", "needs a header and at least one row")
        header = [name.strip() for name in rows[0]]
        for number, row in enumerate(rows[1:], 2):
            if len(row) != len(header):
                raise ConfigError(str(path), f"line {number}", f"{len(row)} values for {len(header)} columns")
        try:
            values = np.array(rows[1:], dtype=float)
        except ValueError as error:
            raise ConfigError(str(path), "", f"not a number: {error}") from error
        columns = {name: values[:, k] for k, name in enumerate(header)}
    for name, column in columns.items():
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise ConfigError(str(path), name, f"not a finite number in row {int(bad[0]) + 1} of the data")
        if len(column) != len(next(iter(columns.values()))):
            raise ConfigError(str(path), name, "columns of different length")
    return columns


def _length(columns: dict[str, Array], name: str, path: Path, scale: float | None) -> tuple[Array, bool]:
    """A length column in metres whatever its unit, and whether its scale is known."""
    for unit, factor in UNITS_M.items():
        if f"{name}_{unit}" in columns:
            return columns[f"{name}_{unit}"] * factor, True
    if f"{name}_px" in columns:
        return columns[f"{name}_px"] * (scale if scale is not None else 1.0), scale is not None
    raise ConfigError(str(path), name, f"no column {name}_m, {name}_mm, {name}_cm or {name}_px")


def load(path: Path, scale_m_per_px: float | None = None) -> list[Trial]:
    """All trials of a data file, in order of their numbers; ConfigError says what is wrong and where."""
    columns = _table(path)
    for name in ("trial", "time_s"):
        if name not in columns:
            raise ConfigError(str(path), name, "missing column")
    if scale_m_per_px is not None and not (math.isfinite(scale_m_per_px) and scale_m_per_px > 0):
        raise ConfigError(str(path), "scale_m_per_px", f"{scale_m_per_px} must be positive")
    x, known = _length(columns, "x", path, scale_m_per_px)
    y, _ = _length(columns, "y", path, scale_m_per_px)
    walls: list[Obstacle] = []
    side = path.with_suffix(".walls.csv")
    if side.exists():
        table = _table(side)
        ends = [_length(table, name, side, scale_m_per_px)[0] for name in ("x1", "y1", "x2", "y2")]
        walls = [wall((a, b), (c, d)) for a, b, c, d in zip(*ends, strict=True)]
    bases: dict[str, Any] = {}
    side = path.with_suffix(".base.csv")
    if side.exists():
        bases = _table(side)
        bases["x"], bases["y"] = (_length(bases, name, side, scale_m_per_px)[0] for name in ("x", "y"))
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
        if bases:
            own = bases["trial"] == number
            order = np.argsort(bases["time_s"][own])
            base_times = bases["time_s"][own][order]
            base = np.stack([bases[name][own][order] for name in ("x", "y", "heading_rad")], axis=1)
        else:
            first = frames[0]
            heading = math.atan2(*(first[-1] - first[0])[::-1])
            base_times, base = times[:1], np.array([[*first[0], heading]])
        trial = Trial(f"{number:g}", times, pad(frames), base_times, base, tuple(walls), known)
        if known and not 1e-2 < trial.length_m(len(times) - 1) < 20.0:
            length = trial.length_m(len(times) - 1)
            warnings.warn(f"trial {number:g} is {length:g} m long at its end (units?)", UnitsWarning, stacklevel=2)
        trials.append(trial)
    return trials


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
