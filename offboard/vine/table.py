"""One idea: a table of numbers from a CSV or npz file, every fault named by file, column and row."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard.errors import ConfigError

Array = NDArray[np.float64]
UNITS_M = {"m": 1.0, "mm": 1e-3, "cm": 1e-2}


def read_table(path: Path, needed: Sequence[str] = ()) -> dict[str, Array]:
    """Columns of a CSV or npz file as float arrays of one length.

    Raises ConfigError for a file that is none, a column that is missing, given twice or of another length, and anything that is
    not a finite number.
    """
    if not path.is_file():
        raise ConfigError(str(path), "", "no such file")
    columns = _npz(path) if path.suffix == ".npz" else _csv(path)
    for name, column in columns.items():
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise ConfigError(str(path), name, f"not a finite number in row {int(bad[0]) + 1} of the data")
        if len(column) != len(next(iter(columns.values()))):
            raise ConfigError(str(path), name, "columns of different length")
    for name in needed:
        if name not in columns:
            raise ConfigError(str(path), name, "missing column")
    if not columns or not len(next(iter(columns.values()))):
        raise ConfigError(str(path), "", "has no rows")
    return columns


def _npz(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as data:
            return {name: np.asarray(data[name], float).ravel() for name in data.files}
    except (ValueError, TypeError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError(str(path), "", f"not an npz file of numbers: {error}") from error


def _csv(path: Path) -> dict[str, Array]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            rows = [row for row in csv.reader(handle) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(str(path), "", f"not a CSV file: {error}") from error
    if len(rows) < 2:
        raise ConfigError(str(path), "", "needs a header and at least one row")
    header = [name.strip() for name in rows[0]]
    for name in header:
        if header.count(name) > 1:
            raise ConfigError(str(path), name, "two columns of this name")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise ConfigError(str(path), f"line {number}", f"{len(row)} values for {len(header)} columns")
    try:
        values = np.array(rows[1:], dtype=float)
    except ValueError as error:
        raise ConfigError(str(path), "", f"not a number: {error}") from error
    return {name: values[:, k] for k, name in enumerate(header)}


def lengths(columns: dict[str, Array], names: Sequence[str], path: Path, scale: float | None) -> tuple[list[Any], bool]:
    """Columns of lengths in metres, and whether their scale is known; pixels without one stay pixels.

    Raises ConfigError when one is missing, comes in two units, or the columns differ in their unit.
    """
    units = []
    for name in names:
        here = [unit for unit in (*UNITS_M, "px") if f"{name}_{unit}" in columns]
        if not here:
            raise ConfigError(str(path), name, f"no column {name}_m, {name}_mm, {name}_cm or {name}_px")
        if len(here) > 1:
            raise ConfigError(str(path), name, f"given twice: {', '.join(f'{name}_{unit}' for unit in here)}")
        units += here
    if len(set(units)) > 1:
        raise ConfigError(str(path), ", ".join(names), f"one unit for all of them, not {', '.join(sorted(set(units)))}")
    factor = UNITS_M.get(units[0], 1.0 if scale is None else scale)
    return [columns[f"{name}_{units[0]}"] * factor for name in names], units[0] in UNITS_M or scale is not None
