"""`prestress struts ROBOT`: what the broker knows of each strut, which of the robot's file are missing, and strangers."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import os
from contextlib import suppress
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onboard.cli.catalog import Run
from onboard.cli.run import BROKER_VARIABLE
from onboard.clock import WallClock, wait_s
from onboard.errors import LinkError, UsageError
from onboard.flash.robot_boards import BoardRobot, load_boards
from onboard.link.decode import Decoder, StrutStatus
from onboard.link.endpoint import parse_endpoint
from onboard.link.motor_boards import MotorDecoder
from onboard.link.motor_spec import MotorRobot
from onboard.link.session import Session
from onboard.resources import robot_file

CONNECT_S = 5.0
MAX_LISTEN_S = 3600.0
LOOK_S = 0.05
MIN_HEARD_S = 0.2  # for a rate


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file")
    parser.add_argument("--broker", metavar="URL", help=f"mqtt://[user:password@]host[:port] (else ${BROKER_VARIABLE})")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to listen; clock drift takes ten seconds to tell")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Listen, then print; exit status 1 when a strut is missing or has a fault, 4 when the broker cannot be reached."""
    spec = load_boards(robot_file(args.robot))
    url = args.broker or os.environ.get(BROKER_VARIABLE)
    if not url:
        raise UsageError(f"struts needs the broker: --broker mqtt://host:1883, or ${BROKER_VARIABLE}")
    if not 0.5 <= args.seconds <= MAX_LISTEN_S:
        raise UsageError(f"--seconds {args.seconds}: must lie in 0.5 .. {MAX_LISTEN_S:.0f}")
    log = logging.getLogger("prestress.link")
    before = log.level
    log.setLevel(logging.ERROR)  # the result says it all
    try:
        with Console(stderr=True).status(f"listening for {args.seconds:g} s"):
            rows, strangers = asyncio.run(listen(spec, url, args.seconds))
    finally:
        log.setLevel(before)
    missing = [row["id"] for row in rows if not row["online"]]
    if args.json:
        table = {"robot": spec.name, "struts": rows, "missing": missing, "strangers": strangers}
        print(msgspec.json.encode(table).decode())
    else:
        _show(rows, missing, strangers)
    return 1 if missing or any(row["fault"] for row in rows) else 0


async def listen(spec: BoardRobot, url: str, seconds: float) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a strut of the robot's file, and the names of boards that it does not have; LinkError without a broker."""
    clock = WallClock()
    decoder: Decoder = MotorDecoder(spec) if isinstance(spec, MotorRobot) else Decoder(spec)
    first: dict[int, tuple[float, int]] = {}  # of each strut: when the first batch came, and samples until then

    def take(strut: int, kind: str, payload: bytes, received_s: float) -> None:
        if decoder.packet(strut, kind, payload, received_s) is not None:
            first.setdefault(strut, (received_s, decoder.status(strut).samples))

    session = Session(spec, parse_endpoint(url), clock, take, decoder)
    task = asyncio.create_task(session.run())
    try:
        end_s = clock.now_s() + CONNECT_S
        while not session.connected:
            if task.done():
                task.result()
            if clock.now_s() > end_s:
                raise LinkError(f"the broker is not reached: {session.last_error or session.endpoint}")
            await wait_s(LOOK_S)
        await wait_s(seconds)
        if not session.connected:
            raise LinkError(f"the broker was lost: {session.last_error or session.endpoint}")
        now_s = clock.now_s()
        newest_s: list[float] = decoder.newest_s().tolist()
        rows = []
        for index in range(len(spec.struts)):
            status = decoder.status(index)
            since_s, before = first.get(index, (now_s, 0))
            rate_hz = (status.samples - before) / (now_s - since_s) if now_s - since_s > MIN_HEARD_S else None
            age_ms = (now_s - newest_s[index]) * 1e3 if math.isfinite(newest_s[index]) else None
            rows.append(_row(status, rate_hz, age_ms))
        return rows, sorted(session.strangers)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _row(status: StrutStatus, rate_hz: float | None, age_ms: float | None) -> dict[str, Any]:
    """Everything known of one strut, None where nothing is; age_ms: of the newest sample; drift: host against board."""
    birth, health = status.birth, status.health
    fault = status.problem or (birth.crash if birth else "") or (health.sensor_fault if health else "")
    return {
        "id": status.strut,
        "online": status.online,
        "chip_id": birth.board_id if birth else "",
        "board": birth.board if birth else "",
        "firmware": birth.firmware if birth else "",
        "interpreter": birth.interpreter if birth else "",
        "sensor": birth.sensor if birth else "",
        "rate_hz": None if rate_hz is None else round(rate_hz, 1),
        "drift_ppm": round(status.drift_ppm, 1) if status.synchronised else None,
        "rssi_dbm": health.rssi_dbm if health else None,
        "battery_mv": health.battery_mv if health else None,
        "age_ms": None if age_ms is None else round(age_ms, 1),
        "lost": status.lost,
        "fault": fault,
    }


def _show(rows: list[dict[str, Any]], missing: list[str], strangers: list[str]) -> None:
    table = Table(box=None)
    for title in ("strut", "chip", "board", "firmware", "sensor", "Hz", "drift ppm", "dBm", "age ms", "lost", "last fault"):
        table.add_column(title)
    for row in rows:
        if row["online"] or row["chip_id"]:
            keys = ("id", "chip_id", "board", "firmware", "sensor", "rate_hz", "drift_ppm", "rssi_dbm", "age_ms", "lost", "fault")
            table.add_row(*("-" if row[key] is None else escape(str(row[key])) for key in keys))
    console = Console()
    console.print(table)
    # Names from the network are shown as ASCII with escapes: they could hold anything.
    console.print(f"missing: {', '.join(missing) or 'none'}", markup=False, soft_wrap=True)
    console.print(f"strangers: {', '.join(map(ascii, strangers)) or 'none'}", markup=False, soft_wrap=True)
