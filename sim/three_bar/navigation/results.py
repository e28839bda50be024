"""One idea: every trial is one row of a JSON Lines file, written and flushed as it ends; what is there is not done again."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import RecordingError

FORMAT = 1
Finite = Annotated[float, Meta(ge=-1e9, le=1e9)]


class Row(Section, frozen=True):
    """One trial.

    time_s: to the goal, or the limit. settings, model_hash: what it was made with; settings is the digest and what was exchanged.
    plan_ms_p50: wall time, so not part of what a seed repeats. counts: plans, gaits, times without a pose, escapes and the like.
    """

    format: Literal[1]
    course: str
    controller: str
    model: str
    model_hash: str
    iteration: int
    conditions: str
    settings: str
    seed: int
    limit_s: Finite
    success: bool
    time_s: Finite
    end: str
    final_distance_u: Finite
    decisions: int
    plan_ms_p50: Finite
    counts: dict[str, int]


def results_path(folder: Path, course: str, controller: str, model: str, conditions: str) -> Path:
    """The file of one cell of the table."""
    tag = f"{controller}_{Path(model).stem}" if model else controller
    suffix = "" if conditions == "usual" else f"_{conditions}"
    return folder / f"{course}_{tag}{suffix}.jsonl"


def read_rows(path: Path) -> list[Row]:
    """All rows; a last line that was cut off by an interruption is left out.

    Raises RecordingError for any other damage.
    """
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            rows.append(msgspec.json.decode(line, type=Row, strict=True))
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(lines):  # no newline behind it: the write was interrupted
                break
            raise RecordingError(f"{path}: line {number} is no result of format {FORMAT}: {error}") from error
    return rows


def append_row(path: Path, row: Row) -> None:
    """Add one row and make sure it is on the disk. A half line that an interruption left is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("ab+") as file:
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
            file.write(json.dumps(msgspec.to_builtins(row), sort_keys=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error


def matching(rows: Sequence[Row], like: Row) -> dict[int, Row]:
    """Rows by seed that were made with the same course, controller, model, conditions, settings and limit as `like`."""
    keys = ("course", "controller", "model_hash", "iteration", "conditions", "settings", "limit_s")
    return {row.seed: row for row in rows if all(getattr(row, key) == getattr(like, key) for key in keys)}


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Success, mean time with failures at the limit (as in the paper), and the median of the rows' median planning times."""
    times = [row.time_s for row in rows]
    return {
        "success_pct": round(100.0 * float(np.mean([row.success for row in rows])), 1),
        "trials": len(rows),
        "mean_time_s": round(float(np.mean(times)), 2),
        "times_s": times,
        "plan_ms_p50": round(float(np.median([row.plan_ms_p50 for row in rows])), 2),
        "failures": [
            {"seed": row.seed, "end": row.end, "final_distance_u": row.final_distance_u} for row in rows if not row.success
        ],
    }
