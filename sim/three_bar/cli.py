"""One idea: `sim three_bar`: let the robot run a gait on a course and show it. Runnable as python -m sim.three_bar.cli."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from onboard.errors import PrestressError, UsageError
from sim.three_bar.course import COURSES, load_course, scene_of
from sim.three_bar.gait import run_primitive
from sim.three_bar.plant import Plant, flat_scene
from sim.three_bar.pose import centre_of_mass
from sim.three_bar.robot_file import ThreeBar, load_robot
from sim.three_bar.view import save

Run = Callable[[argparse.Namespace], int]


def sim_three_bar(parser: argparse.ArgumentParser) -> Run:
    """Add the arguments of `sim three_bar` and return what runs them."""
    parser.add_argument("--gait", default="roll", help="primitive of the robot's file (default: roll)")
    parser.add_argument("--cycles", type=int, default=3, help="how often the gait runs, 1..200 (default: 3)")
    parser.add_argument("--course", choices=("flat", *COURSES), default="flat", help="where (default: flat ground)")
    parser.add_argument("--yaw-deg", type=float, default=None, help="start direction (default: drawn from the seed)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the start pose")
    parser.add_argument("--out", type=Path, default=Path("runs/three_bar_gait.png"), help=".png or .mp4 to write")
    parser.add_argument("--window", action="store_true", help="show it in a window instead (needs a display)")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run_sim


def make_plant(spec: ThreeBar, course_name: str, rng: np.random.Generator, yaw_rad: float | None) -> Plant:
    """The robot at a drawn start of a course ("flat" for level ground), settled."""
    yaw = float(rng.uniform(-np.pi, np.pi)) if yaw_rad is None else yaw_rad
    if course_name == "flat":
        plant = Plant(spec, flat_scene(spec))
        plant.reset(yaw_rad=yaw)
    else:
        course = load_course(course_name)
        plant = Plant(spec, scene_of(course))
        offset = rng.uniform(-1.0, 1.0, 2) * course.start.spread_u
        plant.reset(course.start.x_u + offset[0], course.start.y_u + offset[1], yaw)
    plant.settle()
    return plant


def run_sim(args: argparse.Namespace) -> int:
    """Run the gait; print what it did."""
    if not 1 <= args.cycles <= 200:
        raise UsageError(f"--cycles {args.cycles}: must be 1..200")
    if args.yaw_deg is not None and not np.isfinite(args.yaw_deg):
        raise UsageError(f"--yaw-deg {args.yaw_deg}: must be finite")
    spec = load_robot()
    primitive = spec.primitive(args.gait)
    yaw = None if args.yaw_deg is None else float(np.radians(args.yaw_deg))
    plant = make_plant(spec, args.course, np.random.default_rng(args.seed), yaw)
    if args.window:
        return _window(plant, args)
    caps = [plant.caps()]
    effects = [run_primitive(plant, primitive, lambda p: caps.append(p.caps())) for _ in range(args.cycles)]
    trace = np.array(caps)
    travelled = float(np.linalg.norm((centre_of_mass(trace[-1]) - centre_of_mass(trace[0]))[:2]))
    save(args.out, spec, plant.scene, trace, f"{args.gait} x {args.cycles}, {args.course} (simulation)")
    for index, effect in enumerate(effects):
        if not args.json:
            print(
                f"cycle {index + 1}: {effect.distance_u:.2f} u, turn {np.degrees(effect.turn_rad):+.1f} deg, "
                f"{effect.seconds:.1f} s" + (f", {effect.timeouts} steps timed out" if effect.timeouts else "")
            )
    if args.json:
        result = {
            "gait": args.gait,
            "course": args.course,
            "travelled_u": round(travelled, 4),
            "cycles": [
                {
                    "dx_u": e.dx_u,
                    "dy_u": e.dy_u,
                    "turn_deg": float(np.degrees(e.turn_rad)),
                    "seconds": e.seconds,
                    "timeouts": e.timeouts,
                }
                for e in effects
            ],
            "out": str(args.out),
        }
        print(json.dumps(result))
    else:
        print(f"{travelled:.2f} u in all; picture: {args.out}")
    return 0


def _window(plant: Plant, args: argparse.Namespace) -> int:
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise UsageError("--window needs a display; leave it out to get a PNG or an MP4 (--out run.mp4)")
    from mujoco import viewer

    from onboard.clock import WallClock, wait_s

    clock = WallClock()
    start_s, start_sim_s = clock.now_s(), plant.time_s
    with viewer.launch_passive(plant.model, plant.data) as window:

        def show(p: Plant) -> None:
            ahead_s = (p.time_s - start_sim_s) - (clock.now_s() - start_s)
            if ahead_s > 0.0:
                asyncio.run(wait_s(ahead_s))
            window.sync()

        for _ in range(args.cycles):
            if window.is_running():
                run_primitive(plant, plant.spec.primitive(args.gait), show)
    return 0


def main() -> int:
    """Entry point of python -m sim.three_bar.cli."""
    parser = argparse.ArgumentParser(prog="python -m sim.three_bar.cli", description=__doc__)
    run = sim_three_bar(parser)
    try:
        return run(parser.parse_args())
    except PrestressError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
