"""`prestress bench link`: every strut of a robot as a virtual board with the real firmware, through a broker to the daemon; with
--struts many more on one broker, without firmware and estimator."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from onboard.errors import LinkError, UsageError
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet

TARGET_AGE_MS = 40.0
TARGET_CPU_PCT = 50.0
QUICK_S = 12.0
CROWD_BATCH = 8  # samples a packet: what docs/link.md advises for many struts
CROWD_AGE_MS = 130.0  # a batch of eight is up to 77 ms old when it leaves


def bench_link(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.add_argument("robot", nargs="?", default="manipulator", help="a robot's name or the path of its TOML file")
    parser.add_argument("--struts", type=int, help="this many struts without firmware, for the link alone (such as 200)")
    parser.add_argument("--batch", type=int, default=CROWD_BATCH, help="with --struts: samples a packet, 1 .. 8")
    parser.add_argument(
        "--broker", metavar="URL", help="with --struts: mqtt://host:port of a broker without passwords (else embedded)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="measuring time")
    parser.add_argument("--quick", action="store_true", help=f"measure for {QUICK_S:.0f} s")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sensors and of the boards' clocks")
    parser.add_argument("--no-realtime", action="store_true", help="do not ask for realtime priority")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Start broker, boards, sensors and daemon; print the figures. Exit status 1 when a target is missed."""
    seconds = QUICK_S if args.quick else float(args.seconds)
    if not 1.0 <= seconds <= 86_400.0:
        raise UsageError(f"--seconds is {seconds}: must lie in 1 .. 86400")
    if args.struts is not None and not 1 <= args.struts <= 1000:
        raise UsageError(f"--struts is {args.struts}: must lie in 1 .. 1000")
    if not 1 <= args.batch <= 8:
        raise UsageError(f"--batch is {args.batch}: must lie in 1 .. 8")
    if args.broker and args.struts is None:
        raise UsageError("--broker needs --struts: boards with firmware bring their own broker")
    endpoint = parse_endpoint(args.broker) if args.broker else None
    path = robot_file(args.robot).resolve()
    console = Console(stderr=True)
    with console.status(f"measuring {path.stem} for {seconds:.0f} s"):
        spec = load_robot(path)
        if args.struts is None:
            result = measure(path, spec, seconds, args.seed, realtime=not args.no_realtime)
        else:
            with ExitStack() as stack:
                pid = None
                if endpoint is None:
                    embedded = stack.enter_context(EmbeddedBroker(spec.link.prefix, 0))
                    endpoint, pid = embedded.endpoint, embedded.pid
                crowd = Crowd(path, args.struts, args.batch, endpoint, pid)
                result = measure_crowd(crowd, seconds, args.seed, realtime=not args.no_realtime)
    result |= {"seed": args.seed, "simulation": True}
    age_ms = TARGET_AGE_MS if args.struts is None else CROWD_AGE_MS
    good = result["lost"] == 0 and result["age_p99_ms"] <= age_ms and result["daemon_cpu_pct"] < TARGET_CPU_PCT
    if args.json:
        print(json.dumps(result))
    else:
        width = max(len(key) for key in result)
        print("\n".join(f"{key:<{width}}  {value}" for key, value in result.items()))
        print(f"targets (lost 0, age p99 <= {age_ms:.0f} ms, daemon < {TARGET_CPU_PCT:.0f} %): {'met' if good else 'MISSED'}")
    return 0 if good else 1


def measure(path: Path, spec: RobotSpec, seconds: float, seed: int, *, realtime: bool = True) -> dict[str, Any]:
    """Figures of one run (see docs/link.md); raises LinkError when boards stay silent."""
    with tempfile.TemporaryDirectory(prefix="prestress-link-") as scratch, EmbeddedBroker(spec.link.prefix, 0) as broker:
        Path(scratch).chmod(0o755)  # the boards run as another user
        boards = Path(scratch) / "boards"
        with BoardFleet(_configs(spec, broker.port, seed), boards) as fleet:
            sensors = _spawn("sensors", {"robot": str(path), "boards": str(boards), "seed": seed})
            try:
                fleet.start()
                settings = {
                    "robot": str(path),
                    "host": "127.0.0.1",
                    "port": broker.port,
                    "seconds": seconds,
                    "realtime": realtime,
                }
                daemon = _spawn("daemon", settings)
                output, _ = daemon.communicate()
            finally:
                sensors.kill()
                sensors.communicate()
            missed = sum(board.imu.setup().missed for board in fleet.boards.values())
    return _figures(daemon, output) | {"firmware": True, "sensor_missed_since_start": missed}


class Crowd(NamedTuple):
    """The robot whose link it is, how many struts send how many samples a packet, and the broker (its process, if ours)."""

    robot: Path
    struts: int
    batch: int
    broker: Endpoint
    broker_pid: int | None


def measure_crowd(crowd: Crowd, seconds: float, seed: int, *, realtime: bool = True) -> dict[str, Any]:
    """Figures of the link alone (see docs/link.md); broker_cpu_pct: of one core, None for a broker that is not ours."""
    common = {"robot": str(crowd.robot), "host": crowd.broker.host, "port": crowd.broker.port}
    common |= {"struts": crowd.struts, "batch": crowd.batch}
    with subprocess.Popen([sys.executable, "-m", "sim.link_crowd", json.dumps(common | {"seed": seed})]) as boards:
        try:
            daemon = _spawn("daemon", common | {"seconds": seconds, "realtime": realtime})
            before_s, start_s = _cpu_s(crowd.broker_pid), time.monotonic()
            output, _ = daemon.communicate()
            share = 100.0 * (_cpu_s(crowd.broker_pid) - before_s) / (time.monotonic() - start_s)
        finally:
            boards.kill()
    own = {"broker_cpu_pct": round(share, 1) if crowd.broker_pid else None}
    return _figures(daemon, output) | {"firmware": False, "batch": crowd.batch, **own}


def _cpu_s(pid: int | None) -> float:
    """Processor time that a process has used (Linux, proc(5): fields 14 and 15 of stat)."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(daemon: subprocess.Popen[str], output: str) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise LinkError(f"the measuring daemon failed with exit status {daemon.returncode}") from error
    if "error" in result:
        raise LinkError(f"boards {result['error']}")
    return result


def _configs(spec: RobotSpec, port: int, seed: int) -> list[BoardConfig]:
    """One configuration a strut: clocks that start anywhere (the first third wraps within a minute) and drift either way."""
    drift = round(spec.simulation.imu.clock_drift_ppm)
    imu = {"batch": spec.imu.batch, "accel_range_g": spec.imu.accel_range_g, "gyro_range_dps": spec.imu.gyro_range_dps}
    return [
        BoardConfig(
            id=name,
            board=spec.imu.board,
            prefix=spec.link.prefix,
            broker_port=port,
            keepalive_s=spec.link.keepalive_s,
            imu=imu,
            tick_offset_us=(1 << 30) - 30_000_000 if k % 3 == 0 else (seed * 7919 + k * 104_729_000) % (1 << 30),
            drift_ppm=drift if k % 2 else -drift,
        )
        for k, name in enumerate(spec.struts)
    ]


def _spawn(role: str, settings: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sim.link_bench_parts", role, json.dumps(settings)], stdout=subprocess.PIPE, text=True
    )
