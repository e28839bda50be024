"""What the worm's commands share: scenes by name, clocks, progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from onboard.clock import Clock, WallClock, process_cpu_s
from onboard.errors import UsageError
from onboard.planning.contact.scene import Scene, load_scene
from onboard.resources import root


class ProcessorClock:
    """Processor time of this process: planning times that other programs on the computer do not stretch."""

    def now_s(self) -> float:
        return process_cpu_s()

    def wall_ns(self) -> int:
        return WallClock().wall_ns()


def scene_names() -> list[str]:
    """Names of the scenes that come with the project."""
    return sorted(path.stem.removeprefix("worm_") for path in (root() / "robots" / "scenes").glob("worm_*.toml"))


def find_scene(name: str) -> Scene:
    """A scene by name or by path of its TOML file; UsageError when there is none."""
    path = Path(name) if name.endswith(".toml") or "/" in name else root() / "robots" / "scenes" / f"worm_{name}.toml"
    if not path.is_file():
        raise UsageError(f"there is no scene {name!r}; known are {', '.join(scene_names())}, or give the path of a TOML file")
    return load_scene(path)


def choose_clock(kind: str) -> Clock:
    """Wall clock, or processor time where other programs share the computer."""
    return ProcessorClock() if kind == "cpu" else WallClock()


@contextmanager
def bar(title: str, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr, told shares of the work done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, disable=quiet or not sys.stderr.isatty(), transient=True) as display:
        item = display.add_task(title, total=1.0)
        yield lambda share: display.update(item, completed=share)
