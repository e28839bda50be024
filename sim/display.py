"""The live table of a run in the terminal: state, shape, boards, loops; refreshed from the daemon's own status."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from onboard.errors import PrestressError
from sim.rig import SimulatedRobot
from sim.tower.feed import Report


class LiveTable:
    """Shows what the daemon says at a few hertz; on a console that is no terminal it prints a line every few seconds."""

    def __init__(self, robot: SimulatedRobot, console: Console) -> None:
        self._robot, self._console = robot, console
        self._period_s = 1.0 / robot.spec.rates.display_hz if console.is_terminal else 3.0
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._next_s = 0.0
        self._start_s = time.monotonic()

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def poll(self, doing: str) -> None:
        """Refresh when it is time."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._period_s
        try:
            status = self._robot.status()
        except PrestressError:
            return  # the daemon is starting or ending; who waits for it says so
        if self._live is not None:
            latest = self._robot.plant.latest if self._robot.plant else None
            self._live.update(_table(self._robot, status, doing, latest, now_s - self._start_s), refresh=True)
        else:
            estimate = status["estimate"] or {"tip_m": [], "tilt_deg": 0.0}
            tip = ", ".join(f"{value:+.3f}" for value in estimate["tip_m"])
            self._console.print(
                f"{now_s - self._start_s:5.1f} s  {status['state']:<9} tip [{tip}] m  "
                f"tilt {estimate['tilt_deg']:4.1f} deg  {doing}",
                highlight=False,
            )


def _table(robot: SimulatedRobot, status: dict[str, Any], doing: str, truth: Report | None, elapsed_s: float) -> Table:
    table = Table(title=f"{robot.spec.robot.title} (simulation), {elapsed_s:.0f} s", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(min_width=86)
    for key, value in _rows(status, truth):
        table.add_row(key, value)
    table.add_row("now", doing)
    return table


def _rows(status: dict[str, Any], truth: Report | None) -> list[tuple[str, str]]:
    rows = [("state", status["state"] + (f"  [red]{status['fault']}[/]" if status["fault"] else ""))]
    estimate = status["estimate"]
    if estimate:
        tip = ", ".join(f"{value:+.3f}" for value in estimate["tip_m"])
        shape = "+-{tip_sigma_mm:.0f} mm, tilt {tilt_deg:.1f} deg, age {age_ms:.0f} ms".format(**estimate)
        rows.append(("tip", f"{tip} m, {shape}"))
        if truth is not None and truth.position_m:
            true = truth.position_m[-1]
            off = 1000.0 * sum((a - b) ** 2 for a, b in zip(true, estimate["tip_m"], strict=True)) ** 0.5
            rows.append(("true tip", ", ".join(f"{value:+.3f}" for value in true) + f" m, estimate off by {off:.0f} mm"))
    if status["goal"]:
        rows.append(("goal", f"{status['goal']}, {status['goal_error_mm']:.0f} mm away"))
    struts = status["struts"]
    rows.append(("struts", f"{struts['online']} online, {struts['lost']} of {struts['samples'] + struts['lost']} samples lost"))
    for name, board in status["boards"].items():
        pressures = " ".join(f"{value / 1000.0:4.0f}" for value in board["measured_pa"])
        condition = "armed" if board["armed"] else "latched" if board["latched"] else "disarmed"
        rows.append((name, f"{pressures} kPa  {condition}"))
    loops = (
        f"{loop['name']} {loop['rate_hz']:g} Hz, late p99 {loop['late_p99_us'] / 1000.0:.2f} ms, {loop['overruns']} skipped"
        for loop in status["loops"]
    )
    rows += [("loops", "; ".join(loops)), ("process", "{cpu_pct:.0f} % of a core, {rss_mb:.0f} MB".format(**status["process"]))]
    if status["troubles"]:
        rows.append(("trouble", "[yellow]" + ", ".join(status["troubles"]) + "[/]"))
    return rows
