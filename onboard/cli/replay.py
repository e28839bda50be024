"""`prestress replay FILE`: the recorded packets through estimator and control again; says whether the results are the same."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress

from onboard.cli.catalog import Run
from onboard.errors import UsageError
from onboard.resources import robot_file
from onboard.robot import TOWER, kind_of, load_robot
from onboard.runtime.replay import ReplayResult, recorded_spec, replay
from onboard.telemetry.reader import Recording, open_recording
from onboard.three_bar_robot import load_robot as load_three_bar

THREE_BAR = "three_bar"
OnMessage = Callable[[str, dict[str, Any]], None]


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("file", type=Path, help="a recording (.mcap)")
    parser.add_argument("--robot", help="another robot's file than the recorded one, to see what it would have done")
    parser.add_argument("--plot", type=Path, help="write a PNG of tip, cable lengths and pressures over time")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Replay and compare; exit status 1 when something differs."""
    recording = open_recording(args.file)
    if recording_kind(recording) == THREE_BAR:
        if args.plot:
            raise UsageError("--plot draws towers; 'prestress run three_bar' leaves a picture of its own")
        from onboard.navigation import replay as rolling

        robot = load_three_bar(robot_file(args.robot)) if args.robot else rolling.recorded_robot(recording)
        return _replayed(args, recording, lambda seen: rolling.replay(recording, robot, seen))
    spec = load_robot(robot_file(args.robot)) if args.robot else recorded_spec(recording)
    status = _replayed(args, recording, lambda seen: replay(recording, spec, seen))
    if args.plot:
        from onboard.telemetry.plots import plot_recording  # matplotlib is an extra

        plot_recording(recording, spec, args.plot)
    return status


def recording_kind(recording: Recording) -> str:
    """What kind of robot a recording is of, by the robot's file in it; a damaged one counts as a tower's, which then says so."""
    try:
        return kind_of(str(recording.path), tomllib.loads(recording.metadata.get("robot_toml", "")))
    except ValueError:
        return TOWER


def _replayed(args: argparse.Namespace, recording: Recording, through: Callable[[OnMessage], ReplayResult]) -> int:
    size = args.file.stat().st_size
    with Progress(console=Console(stderr=True), transient=True) as bar:
        # 120 bytes a message on disk is what recordings of ours come to; the bar need not be exact.
        task = bar.add_task("replaying", total=max(1, size // 120))
        result = through(lambda topic, fields: bar.advance(task))
    summary = {
        "identical": result.identical,
        "messages": result.messages,
        "compared": result.compared,
        "different": result.different,
        "first_difference": result.first_difference,
        "truncated": result.truncated,
    }
    if args.json:
        print(msgspec.json.encode(summary).decode())
    else:
        print(_words(args.file, summary))
    return 0 if result.identical else 1


def _words(path: Path, summary: dict[str, object]) -> str:
    compared = ", ".join(f"{count} of {topic}" for topic, count in dict(summary["compared"]).items())  # type: ignore[call-overload]
    lines = [f"{path}: {summary['messages']} messages; compared {compared}"]
    if summary["truncated"]:
        lines.append(f"the recording is cut off: {summary['truncated']}")
    if summary["identical"]:
        lines.append("identical, bit for bit")
    else:
        lines.append(f"different: {summary['first_difference'] or 'the recording holds nothing to compare'}")
    return "\n".join(lines)
