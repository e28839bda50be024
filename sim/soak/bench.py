"""`prestress bench soak`: a simulated robot in operation for long, broken at random again and again; every command judged."""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from onboard.errors import PrestressError, SafetyError, UsageError
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.telemetry import schemas
from onboard.telemetry.reader import open_recording
from sim.soak.faults import faults_for
from sim.soak.robot import SoakRobot, pause
from sim.soak.trend import Trend

QUICK_MINUTES = 1.0
BRING_UP_S = 60.0
WELL_AGAIN_S = 40.0  # for the robot to be in operation again after a fault is mended
POSTURE = "rest"


@dataclass(slots=True)
class Tally:
    """What happened: faults by name, those after which the robot did not come back in time, states that faults led to."""

    injected: Counter[str] = field(default_factory=Counter)
    not_recovered: list[str] = field(default_factory=list)
    led_to: Counter[str] = field(default_factory=Counter)
    ended: str = ""


def bench_soak(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the soak and gives the exit status."""
    parser.add_argument("--robot", default="manipulator", help="a robot's name or the path of its TOML file")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, from when the robot is in operation")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MINUTES:g} minute, the same keys")
    parser.add_argument("--seed", type=int, default=0, help="of the faults, their order and lengths, and of the plant")
    parser.add_argument("--no-realtime", action="store_true", help="do not ask for realtime priority")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and recording there")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Soak; exit status 1 when a command was unsafe, the daemon or the plant ended, or the robot did not come back."""
    minutes = QUICK_MINUTES if args.quick else args.minutes
    if not (math.isfinite(minutes) and 0.1 <= minutes <= 10_000.0):
        raise UsageError(f"--minutes {minutes}: must lie in 0.1 .. 10000")
    path = robot_file(args.robot)
    load_robot(path)
    if args.keep is not None and args.keep.exists():
        raise UsageError(f"--keep {args.keep}: exists already; name a new folder")
    scratch = Path(tempfile.mkdtemp(prefix="prestress-soak-"))
    scratch.chmod(0o711)  # boards run as another user
    try:
        with Progress(*Progress.get_default_columns()[:2], TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task("bringing the robot up", total=60.0 * minutes)
            result = soak(
                path,
                scratch / "run",
                60.0 * minutes,
                args.seed,
                not args.no_realtime,
                lambda done_s, what: bar.update(task, completed=done_s, description=what),
            )
    finally:
        if args.keep is not None:
            shutil.move(scratch, args.keep)
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    good = not (result["unsafe_commands"] or result["ended"] or result["not_recovered"])
    if args.json:
        print(json.dumps(result))
    else:
        width = max(len(key) for key in result)
        print("\n".join(f"{key:<{width}}  {value}" for key, value in result.items()))
    return 0 if good else 1


def soak(
    path: Path,
    folder: Path,
    seconds: float,
    seed: int,
    realtime: bool,
    say: Callable[[float, str], None] = lambda done_s, what: None,
) -> dict[str, Any]:
    """The figures of one soak in `folder` (new): see docs/soak.md. Raises PrestressError when the robot does not come up."""
    spec, rng, tally, trend = load_robot(path), random.Random(seed), Tally(), Trend()
    options = () if realtime else ("--no-realtime",)
    with SoakRobot(path, spec, folder, seed=seed, runtime=folder, daemon_options=options) as robot:
        in_operation(robot, BRING_UP_S)
        start_s = time.monotonic()
        say(0.0, "in operation")
        try:
            _break_and_mend(robot, rng, tally, trend, start_s, seconds, say)
        except PrestressError as error:
            tally.ended = str(error)
        elapsed_s = time.monotonic() - start_s
        status = robot.stop_daemon()
        transitions = [
            (float(fields["t_s"]), str(fields["state"]))
            for topic, fields in open_recording(robot.recording)
            if topic == schemas.TRANSITION
        ]
        for watch in robot.watches.values():
            watch.judge_states(transitions)
        verdicts = [watch.verdict for watch in robot.watches.values()]
    unsafe = sum((verdict.unsafe for verdict in verdicts), Counter())
    return {
        "robot": spec.name,
        "minutes": round(elapsed_s / 60.0, 2),
        "unsafe_commands": sum(unsafe.values()),
        "unsafe": dict(unsafe),
        "cases": [case for verdict in verdicts for case in verdict.cases][:20],
        "commands": sum(verdict.commands for verdict in verdicts),
        "memory_slope_mb_per_h": _rounded(trend.memory_slope_mb_per_h()),
        "memory_mb": round(trend.memory_mb[-1], 1) if trend.memory_mb else None,
        "rate_drift_pct": _rounded(trend.rate_drift_pct()),
        "rate_loss_pct": _rounded(trend.rate_loss_pct()),
        "faults": dict(tally.injected),
        "fault_count": sum(tally.injected.values()),
        "led_to": dict(tally.led_to),
        "not_recovered": tally.not_recovered,
        "transitions": len(transitions),
        "ended": tally.ended,
        "daemon_exit": status,
        "seed": seed,
        "clock": "wall",
        "simulation": True,
    }


def _break_and_mend(
    robot: SoakRobot,
    rng: random.Random,
    tally: Tally,
    trend: Trend,
    start_s: float,
    seconds: float,
    say: Callable[[float, str], None],
) -> None:
    """Every fault once in a drawn order, then again in another, until the time is over."""
    end_s, deck = start_s + seconds, []
    while time.monotonic() < end_s:
        trend.add(time.monotonic(), robot.memory_mb(), robot.status()["loops"])
        deck = deck or rng.sample(faults_for(robot), k=len(faults_for(robot)))
        fault = deck.pop()
        say(time.monotonic() - start_s, fault.name)
        fault.begin(robot, rng)
        tally.injected[fault.name] += 1
        pause(robot, rng.uniform(fault.least_s, fault.most_s))
        robot.heal()
        pause(robot, 0.2)
        tally.led_to[robot.status()["state"]] += 1
        try:
            in_operation(robot, WELL_AGAIN_S)
        except SafetyError as error:
            tally.not_recovered.append(f"{fault.name}: {error}")
        pause(robot, rng.uniform(0.5, 2.0))
    trend.add(time.monotonic(), robot.memory_mb(), robot.status()["loops"])


def in_operation(robot: SoakRobot, limit_s: float) -> None:
    """What a person does after a fault: reset, arm, go to the posture; without actuators: wait until all is well.

    Raises SafetyError after `limit_s`."""
    end_s = time.monotonic() + limit_s
    while not _step(robot):
        robot.look()
        if time.monotonic() > end_s:
            status = robot.status()
            raise SafetyError(
                f"not in operation after {limit_s:.0f} s: {status['state']}, {', '.join(status['troubles']) or 'no trouble'}"
            )


def _step(robot: SoakRobot) -> bool:
    """One step towards operation; True when it is reached."""
    status = robot.status()
    state, troubles = status["state"], set(status["troubles"])
    ready = status["struts"]["synchronised"] == len(robot.spec.struts) and status["estimate"]
    if not robot.cables:
        return bool(ready and not troubles)
    try:
        if state in ("safe", "fault"):
            robot.ask("reset")
        elif state == "disarmed" and ready and not troubles - {"board_latched"}:
            robot.ask("arm")
        elif state == "teaching" and not troubles:
            robot.ask("teach", name=POSTURE)
            robot.ask("go", name=POSTURE)
        elif state == "active" and not troubles:
            if status["goal"] is not None:
                return True
            known = any(one["name"] == POSTURE for one in robot.ask("postures")["postures"])
            robot.ask("go", name=POSTURE) if known else robot.ask("hand")
    except SafetyError:
        return False  # it says no as long as something is wrong; ask again
    return False


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
