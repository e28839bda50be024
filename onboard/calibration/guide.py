"""Guides a person through poses on a running, disarmed robot: says what to do, sees when a pose is held, records all of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onboard.clock import Clock, wait_s
from onboard.errors import CalibrationError
from onboard.messages import Floats
from onboard.robot import RobotSpec

POLL_S = 0.2
HELD_S = 3.5  # longer than the two seconds that count: the first may still swing
STILL_M = 0.002  # of the estimated tip, over HELD_S
APART_M = 0.02  # of the tip, from every earlier pose
Ask = Callable[..., dict[str, Any]]


def guide(
    spec: RobotSpec, path: Path, poses: int, limit_s: float, ask: Ask, clock: Clock, say: Callable[[str], None] = print
) -> None:
    """Record `poses` held poses to `path`. Raises CalibrationError when the robot is armed meanwhile or the time is up."""
    _disarmed(ask(do="frame"))
    ask(do="record", path=str(path))
    try:
        asyncio.run(_poses(spec, poses, limit_s, ask, clock, say))
    finally:
        ask(do="record_stop")


async def _poses(spec: RobotSpec, poses: int, limit_s: float, ask: Ask, clock: Clock, say: Callable[[str], None]) -> None:
    end_s = clock.now_s() + limit_s
    taken: list[Floats] = []
    recent: list[Floats] = []
    say(f"Pose 1 of {poses}: let {spec.name} stand upright by itself, and touch nothing.")
    while len(taken) < poses:
        await wait_s(POLL_S)
        if clock.now_s() > end_s:
            raise CalibrationError(f"only {len(taken)} of {poses} poses within {limit_s:.0f} s")
        frame = ask(do="frame")
        _disarmed(frame)
        if "position_m" not in frame or any(not math.isfinite(v) for v in frame["position_m"][-1]):
            recent.clear()
            continue
        tip = np.array(frame["position_m"][-1])
        recent = [*recent[-round(HELD_S / POLL_S) :], tip]
        held = len(recent) > HELD_S / POLL_S and float(np.ptp(np.array(recent), axis=0).max()) < STILL_M
        if held and all(float(np.linalg.norm(tip - old)) > APART_M for old in taken):
            taken.append(tip)
            recent.clear()
            if len(taken) < poses:
                say(f"Taken. Pose {len(taken) + 1} of {poses}: bend it by hand another way, 10 to 25 degrees, and hold it still.")
    say("Taken. That was the last one: let go.")


def _disarmed(frame: dict[str, Any]) -> None:
    if frame["state"] != "disarmed":
        raise CalibrationError(f"the robot is {frame['state']}: calibrate it disarmed, when nothing moves it but your hand")
