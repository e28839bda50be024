"""A recording as tables for training and notebooks: one table a topic, one row a message, in Parquet files or one npz."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard.errors import MissingExtraError, RecordingError
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording

Table = dict[str, NDArray[Any]]
RAW = (schemas.PACKET,)  # undecoded bytes: only replay needs them


def tables(recording: Recording) -> dict[str, Table]:
    """Topic -> column -> values (rows,) or (rows, n). Missing numbers are NaN; texts are numpy strings.

    Raises RecordingError when a list changes its length within one recording.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for topic, fields in recording:
        if topic not in RAW:
            rows.setdefault(topic, []).append(fields)
    return {topic: _columns(recording.path, topic, found) for topic, found in rows.items()}


def _columns(path: Path, topic: str, rows: list[dict[str, Any]]) -> Table:
    names = dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, dict))
    return {name: _column(f"{path}: {topic}: {name}", [row.get(name) for row in rows]) for name in names}


def _column(where: str, values: list[Any]) -> NDArray[Any]:
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    if any(isinstance(value, list) for value in values):
        widths = {len(value) for value in values if value is not None}
        if len(widths) != 1:
            raise RecordingError(f"{where}: lists of {sorted(widths)} values do not make a table")
        gap = [math.nan] * widths.pop()
        return np.array([gap if value is None else [math.nan if v is None else v for v in value] for value in values], np.float64)
    if all(isinstance(value, bool | int) for value in values):
        return np.array(values)
    return np.array([math.nan if value is None else float(value) for value in values])


def export(recording: Recording, out: Path) -> dict[str, int]:
    """Write `out`: a file ending in .npz (keys `topic.column`), or a folder of Parquet files. Returns rows by topic."""
    found = {topic.strip("/").replace("/", "_"): table for topic, table in tables(recording).items()}
    if not found:
        raise RecordingError(f"{recording.path}: holds no messages to export")
    try:
        if out.suffix == ".npz":
            out.parent.mkdir(parents=True, exist_ok=True)
            flat: dict[str, Any] = {f"{topic}.{name}": values for topic, table in found.items() for name, values in table.items()}
            np.savez_compressed(out, **flat)
        else:
            _parquet(found, out, recording.metadata)
    except OSError as error:
        raise RecordingError(f"{out}: cannot be written: {error.strerror or error}") from error
    return {topic: len(next(iter(table.values()))) for topic, table in found.items()}


def _parquet(found: dict[str, Table], folder: Path, metadata: dict[str, str]) -> None:
    try:
        import pyarrow as pa  # an extra
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError("export to Parquet (an --out that ends in .npz needs nothing)", "parquet") from error
    folder.mkdir(parents=True, exist_ok=True)
    for topic, table in found.items():
        columns = {name: values if values.ndim == 1 else pa.array(list(values)) for name, values in table.items()}
        parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), folder / f"{topic}.parquet")
