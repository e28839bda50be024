"""`prestress arm|disarm|stop|reset|status ROBOT`: short requests to a running daemon."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from onboard.cli.catalog import Run
from onboard.errors import UsageError
from onboard.runtime.control_socket import ask, socket_path


def robot_argument(parser: argparse.ArgumentParser) -> None:
    """The robot whose daemon is asked, and --json."""
    parser.add_argument("robot", help="name of the robot whose daemon runs on this computer")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def request(args: argparse.Namespace, **fields: Any) -> dict[str, Any]:
    """Ask the robot's daemon; raises LinkError when there is none and SafetyError when it refuses."""
    if "/" in args.robot or not args.robot:
        raise UsageError("name the robot as its daemon does, such as 'manipulator'")
    return ask(socket_path(args.robot), fields)


def show(args: argparse.Namespace, reply: dict[str, Any]) -> int:
    """Print a reply as its line, or as JSON."""
    print(msgspec.json.encode(reply).decode() if args.json else reply.get("line", ""))
    return 0


def _plain(what: str) -> Any:
    def add(parser: argparse.ArgumentParser) -> Run:
        robot_argument(parser)
        return lambda args: show(args, request(args, do=what))

    return add


add_arm = _plain("arm")
add_disarm = _plain("disarm")
add_stop = _plain("stop")
add_reset = _plain("reset")


def add_status(parser: argparse.ArgumentParser) -> Run:
    """Arguments of `status`."""
    robot_argument(parser)
    return _status


def _status(args: argparse.Namespace) -> int:
    status = request(args, do="status")["status"]
    if args.json:
        print(msgspec.json.encode(status).decode())
        return 0
    for key, value in (status.get("lines") or _tower_lines(status)).items():
        print(f"{key:<9} {value}")
    return 0


def _tower_lines(status: dict[str, Any]) -> dict[str, str]:
    estimate = status["estimate"] or {}
    tip = ", ".join(f"{value:.3f}" for value in estimate.get("tip_m", []))
    return {
        "state": status["state"] + (f" ({status['fault']})" if status["fault"] else ""),
        "tip [m]": f"{tip}  +-{estimate.get('tip_sigma_mm', 0):.0f} mm, age {estimate.get('age_ms', 0):.0f} ms"
        if tip
        else "none",
        "struts": "{online} online, {lost} samples lost of {samples}".format(**status["struts"]),
        "boards": ", ".join(
            f"{name} {'armed' if b['armed'] else 'latched' if b['latched'] else 'disarmed'}"
            for name, b in status["boards"].items()
        )
        or "none",
        "link": f"{status['link']['broker']} {'connected' if status['link']['connected'] else 'NOT connected'}",
        "loops": ", ".join(
            f"{loop['name']} {loop['rate_hz']:g} Hz late p99 {loop['late_p99_us'] / 1000:.2f} ms" for loop in status["loops"]
        ),
        "process": f"{status['process']['cpu_pct']:.0f} % of a core, {status['process']['rss_mb']:.0f} MB",
        "troubles": ", ".join(status["troubles"]) or "none",
    }
