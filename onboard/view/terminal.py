"""The live view for a terminal: what `prestress status` says, refreshed, for a session over SSH."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from onboard.clock import WallClock
from onboard.errors import LinkError
from onboard.robot import RobotSpec
from onboard.runtime.control_socket import ask, socket_path


def show(spec: RobotSpec, duration_s: float | None) -> int:
    """Refresh at the file's display rate until Ctrl-C or the duration's end; on no terminal print once."""
    console = Console()
    path = socket_path(spec.name)
    if not console.is_terminal:
        console.print(table(spec, ask(path, {"do": "status"})["status"]))
        return 0
    clock, pause = WallClock(), threading.Event()
    end_s = None if duration_s is None else clock.now_s() + duration_s
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while end_s is None or clock.now_s() < end_s:
            try:
                live.update(table(spec, ask(path, {"do": "status"})["status"]), refresh=True)
            except LinkError as error:
                live.update(str(error), refresh=True)
            pause.wait(1.0 / spec.rates.display_hz)
    return 0


def table(spec: RobotSpec, status: dict[str, Any]) -> Table:
    """A status as a person reads it."""
    found = Table(title=f"{spec.robot.title}: {status['state']}" + (f" ({status['fault']})" if status["fault"] else ""))
    found.add_column("what")
    found.add_column("value")
    estimate, struts = status["estimate"], status["struts"]
    if estimate is not None:
        tip = ", ".join(f"{value:+.3f}" for value in estimate["tip_m"])
        found.add_row("tip", f"[{tip}] m, tilt {estimate['tilt_deg']:.1f} deg, +- {estimate['tip_sigma_mm']:.1f} mm")
        found.add_row("age", f"{estimate['age_ms']:.0f} ms {estimate['flags']}")
    goal = status["goal"]
    found.add_row("goal", f"{goal}, {status['goal_error_mm']:.0f} mm off" if goal and estimate else goal or "none")
    found.add_row("troubles", ", ".join(status["troubles"]) or "none")
    found.add_row(
        "struts", f"{struts['online']} of {len(spec.struts)} online, {struts['samples']} samples, {struts['lost']} lost"
    )
    found.add_row("flagged", ", ".join(f"{strut} {flag}" for strut, flag in struts["flagged"].items()) or "none")
    for board, report in status["boards"].items():
        pressures = " ".join(f"{value / 1000.0:.0f}" for value in report["measured_pa"])
        found.add_row(board, f"{'armed' if report['armed'] else 'latched' if report['latched'] else 'ready'}, kPa {pressures}")
    for loop in status["loops"]:
        found.add_row(
            loop["name"], f"{loop['rate_hz']:g} Hz, late {loop['late_p99_us'] / 1000.0:.2f} ms, {loop['overruns']} skipped"
        )
    return found
