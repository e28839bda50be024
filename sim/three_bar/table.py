"""The live table of a drive in the terminal; on a console that is no terminal a line every few seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sim.three_bar.rig import SimulatedStruts

LINE_S = 5.0


class LiveTable:
    """Shows what the daemon says, beside the true distance to the goal."""

    def __init__(self, robot: SimulatedStruts, console: Console) -> None:
        self._robot, self._console = robot, console
        self._period_s = 1.0 / robot.robot.rates.display_hz if console.is_terminal else LINE_S
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._start_s, self._next_s = time.monotonic(), 0.0

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, doing: str, status: dict[str, Any], distance_u: float) -> None:
        """Refresh when it is time. distance_u: the true one."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._period_s
        if self._live is not None:
            self._live.update(_table(self._robot, doing, status, distance_u, now_s - self._start_s), refresh=True)
            return
        planner = status["planner"]
        self._console.print(
            f"{now_s - self._start_s:6.1f} s  {status['state']:<9} {doing}, goal {distance_u:5.1f} u away, "
            f"{planner['plans']} plans of {planner['plan_ms']:.0f} ms  {' '.join(status['troubles'])}",
            highlight=False,
        )


def _table(robot: SimulatedStruts, doing: str, status: dict[str, Any], distance_u: float, elapsed_s: float) -> Table:
    table = Table(title=f"{robot.robot.robot.title} (simulation), {elapsed_s:.0f} s", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(min_width=86)
    planner, pose = status["planner"], status["pose"]
    rows = [("state", status["state"] + (f"  [red]{status['fault']}[/]" if status["fault"] else "")), ("now", doing)]
    if pose is not None:
        x, y, z = pose["centre_u"]
        rows.append(
            ("robot", f"({x:+.2f}, {y:+.2f}, {z:.2f}) u, axis {pose['axis_deg']:+.0f} deg, seen {pose['age_ms']:.0f} ms ago")
        )
    if status["goal"] is not None:
        said = f"estimated {status['distance_u']:.2f} u, true {distance_u:.2f} u"
        rows.append(("goal", f"({status['goal'][0]:g}, {status['goal'][1]:g}) u, {said} away"))
    counts = "{plans} plans, {gaits} gaits, {late} late, {restarts} restarts, last took {plan_ms:.0f} ms".format(**planner)
    rows.append(
        ("planner", f"{planner['controller']}, {counts}" + (f"  [yellow]{planner['problem']}[/]" if planner["problem"] else ""))
    )
    if status["rest_u"] is not None:
        rows.append(("cables", " ".join(f"{value:5.2f}" for value in status["rest_u"]) + " u"))
    for name, board in status["boards"].items():
        rows.append((name, "armed" if board["armed"] else "latched" if board["latched"] else "disarmed"))
    loops = (f"{one['name']} late p99 {one['late_p99_us'] / 1e3:.2f} ms, {one['overruns']} skipped" for one in status["loops"])
    rows += [("loops", "; ".join(loops)), ("process", "{cpu_pct:.0f} % of a core, {rss_mb:.0f} MB".format(**status["process"]))]
    if status["troubles"]:
        rows.append(("trouble", "[yellow]" + ", ".join(status["troubles"]) + "[/]"))
    for key, value in rows:
        table.add_row(key, value)
    return table
