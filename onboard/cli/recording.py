"""`prestress recording info|plot|export FILE`: what a recording holds, as a picture, as tables."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import msgspec

from onboard.cli.catalog import Run
from onboard.errors import UsageError
from onboard.runtime.replay import recorded_spec
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording, open_recording


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("action", choices=("info", "plot", "export"), help="say what it holds, draw it, or write tables")
    parser.add_argument("file", type=Path, help="a recording (.mcap)")
    parser.add_argument("--out", type=Path, help="plot: a .png; export: a .npz file, or a folder for Parquet files")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Do it; RecordingError (exit status 7) when the file is none of ours or cannot be read or written."""
    recording = open_recording(args.file)
    if args.action == "info":
        summary = info(recording)
    elif args.action == "plot":
        from onboard.telemetry.plots import plot_recording  # matplotlib is an extra

        out = args.out or args.file.with_suffix(".png")
        if out.suffix != ".png":
            raise UsageError(f"--out {out}: a picture's name ends in .png")
        plot_recording(recording, recorded_spec(recording), out)
        summary = {"picture": str(out)}
    else:
        from onboard.telemetry.export import export

        out = args.out or args.file.with_suffix("")
        summary = {"out": str(out), "rows": export(recording, out)}
    summary["truncated"] = recording.truncated
    if args.json:
        print(msgspec.json.encode(summary).decode())
    else:
        print("\n".join(f"{key:<12}{_text(value)}" for key, value in summary.items() if value is not None))
    return 0


def info(recording: Recording) -> dict[str, object]:
    """Robot, version, length, messages by topic, states it went through."""
    counts: Counter[str] = Counter()
    first_s = last_s = None
    states: list[str] = []
    for topic, fields in recording:
        counts[topic] += 1
        last_s = float(fields["t_s"])
        first_s = last_s if first_s is None else first_s
        if topic == schemas.TRANSITION:
            states.append(str(fields["state"]))
    return {
        "file": str(recording.path),
        "robot": recording.metadata.get("robot"),
        "version": recording.metadata.get("version"),
        "seconds": round(last_s - first_s, 3) if first_s is not None and last_s is not None else 0.0,
        "part": recording.part or None,
        "messages": dict(counts),
        "states": states,
    }


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
    if isinstance(value, list):
        return " -> ".join(map(str, value)) or "none"
    return str(value)
