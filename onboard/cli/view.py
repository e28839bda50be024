"""`prestress view ROBOT`: a page on this computer, or a table in the terminal, that shows a running robot."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import secrets
import signal
from pathlib import Path

import msgspec

from onboard.cli.catalog import Run
from onboard.clock import WallClock, process_cpu_s, wait_s
from onboard.errors import MissingExtraError, UsageError
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from onboard.runtime.control_socket import socket_path

PORT = 8910
TOKEN_BYTES = 16


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file")
    parser.add_argument("--terminal", action="store_true", help="a table in this terminal instead of a page")
    parser.add_argument("--address", default="127.0.0.1", help="address to listen on; another one opens the page to the network")
    parser.add_argument("--port", type=int, default=PORT, help="port of the page (0: any free one)")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="with --address: names browsers use for it")
    parser.add_argument("--rate", type=float, default=25.0, metavar="HZ", help="frames a second")
    parser.add_argument("--truth", type=Path, metavar="SOCKET", help="simulation: the plant's socket, to draw the true shape too")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many seconds (default: Ctrl-C)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end: frames a second, processor share")
    return run


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or the duration's end."""
    spec = load_robot(robot_file(args.robot))
    if not 1.0 <= args.rate <= 60.0:
        raise UsageError(f"--rate {args.rate}: must lie in 1 .. 60")
    if args.duration is not None and not 0.0 < args.duration <= 1e6:
        raise UsageError(f"--duration {args.duration}: must be above 0 and at most 1000000 s")
    if args.terminal:
        from onboard.view.terminal import show

        return show(spec, args.duration)
    if not 0 <= args.port <= 65_535:
        raise UsageError(f"--port {args.port}: must lie in 0 .. 65535")
    try:
        address = ipaddress.ip_address(args.address)
    except ValueError as error:
        raise UsageError(f"--address {args.address}: must be an IP address of this computer") from error
    if not address.is_loopback and not args.host:
        raise UsageError(f"--address {args.address} opens the page to the network: name it with --host, as browsers will")
    return asyncio.run(_serve(args, spec, str(address)))


async def _serve(args: argparse.Namespace, spec: RobotSpec, address: str) -> int:
    try:
        from onboard.view.server import LOCAL_NAMES, ViewServer
    except ModuleNotFoundError as error:
        raise MissingExtraError("the live view", "view") from error
    from onboard.view.geometry import scene
    from onboard.view.source import DaemonLine, Truth

    token, clock, ended = secrets.token_urlsafe(TOKEN_BYTES), WallClock(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    names = [*LOCAL_NAMES, *args.host]
    daemon = DaemonLine(socket_path(spec.name))
    server = ViewServer(scene(spec), daemon, Truth(args.truth), clock, names, token, args.rate)
    start_s, start_cpu_s = clock.now_s(), process_cpu_s()
    async with server.serving(address, args.port) as port:
        name = args.host[0] if args.host else "127.0.0.1"
        print(f"http://{name}:{port}/#token={token}", flush=True)
        print("Whoever has this address may arm the robot; without the token one may only look, and stop it.", flush=True)
        if args.duration is None:
            await ended.wait()
        else:
            while not ended.is_set() and clock.now_s() - start_s < args.duration:
                await wait_s(min(0.1, args.duration))
    daemon.close()
    if args.json:
        took_s = clock.now_s() - start_s
        share = 100.0 * (process_cpu_s() - start_cpu_s) / took_s
        print(msgspec.json.encode({"hz": round(server.frames / took_s, 2), "cpu_pct": round(share, 1)}).decode())
    return 0
