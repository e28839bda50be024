"""Commands of the suction worm: plan a crawl, judge it, draw it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onboard.clock import WallClock
from onboard.errors import PrestressError, UsageError
from onboard.planning.contact.guide import make_guide
from onboard.planning.contact.library import Library, load_library
from onboard.planning.contact.plan import Plan, save_plan
from onboard.planning.contact.retrieval import PrimitiveExpander
from onboard.planning.contact.search import search
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import WormSpec, load_worm
from onboard.resources import robot_file
from sim.worm.bench import bench_worm
from sim.worm.common import bar, find_scene, scene_names
from sim.worm.evaluate import evaluate_worm, library_file
from sim.worm.pictures import draw_plan
from sim.worm.primitives import primitives_worm
from sim.worm.tasks import draw_task

Run = Callable[[argparse.Namespace], int]


def plan_worm(parser: argparse.ArgumentParser) -> Run:
    """Arguments of `plan worm`."""
    parser.add_argument("--robot", default="worm", help="worm by name, or the path of its TOML file")
    parser.add_argument("--scene", default="floor_wall_ceiling", help=f"one of {', '.join(scene_names())}, or a TOML file")
    parser.add_argument("--goal", help="x,y,z of a point on a surface [m]; the seed's goal if left out")
    parser.add_argument("--seed", type=int, default=0, help="draws the start, and the goal if none is given")
    parser.add_argument("--straight", action="store_true", help="start with a straight body instead of a random shape")
    parser.add_argument("--method", choices=("pahs", "ikhs"), default="pahs", help="with or without motion primitives")
    parser.add_argument("--library", help="primitive library; the robot's own if left out, none where it has none")
    parser.add_argument("--budget", type=float, help="time limit of the search [s]; the robot's file if left out")
    parser.add_argument("--out", default="runs/plan_worm", help="folder for the plan and its pictures")
    parser.add_argument("--no-pictures", action="store_true", help="write the plan only")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _plan_worm


def _plan_worm(args: argparse.Namespace) -> int:
    spec, scene = load_worm(robot_file(args.robot)), find_scene(args.scene)
    task = draw_task(scene, spec, args.seed, straight=args.straight)
    goal = task.goal if args.goal is None else _point(args.goal)
    library = find_library(args, spec)
    clock = WallClock()
    began = clock.now_s()
    guide = make_guide(scene, spec, task.start.frames[:, :, 3], goal)
    guide_s = clock.now_s() - began
    with bar("planning", args.json) as told:
        plan = search(
            spec, scene, task.start, goal, clock, budget_s=args.budget, guide=guide,
            progress=lambda share, _: told(share),
            expand_with=None if library is None else lambda blocks: PrimitiveExpander(blocks, library),
        )  # fmt: skip
    plan.statistics["guide_s"] = guide_s
    plan.statistics["method"] = "ikhs" if library is None else "pahs"
    with bar("checking", args.json):
        broken = validate(spec, scene, plan)
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    save_plan(plan, folder / "plan.json")
    written = [folder / "plan.json"]
    if not args.no_pictures:
        with bar("drawing", args.json) as told:
            written += draw_plan(spec, scene, plan, guide.line, folder, told=told)
    if args.json:
        print(msgspec.json.encode(summary(plan, len(broken), [str(path) for path in written])).decode())
    else:
        _tell(plan, len(broken), written)
    return 0 if plan.complete and not broken else 1


def find_library(args: argparse.Namespace, spec: WormSpec) -> Library | None:
    """The primitives to plan with: those named, else the robot's own; None without any or with `--method ikhs`."""
    path = library_file(spec.robot.name) if args.library is None else Path(args.library)
    if args.method == "ikhs" or (args.library is None and not path.exists()):
        return None
    return load_library(path, spec)


def summary(plan: Plan, violations: int, files: list[str]) -> dict[str, Any]:
    """What `plan worm --json` prints."""
    return {
        "complete": plan.complete,
        "reason": plan.reason,
        "steps": len(plan.steps),
        "deformation": plan.deformation,
        "violations": violations,
        **plan.statistics,
        "files": files,
    }


def _tell(plan: Plan, violations: int, files: list[Path]) -> None:
    statistics = plan.statistics
    print("goal reached" if plan.complete else f"goal not reached: {plan.reason}; this is the best part of a plan")
    print(f"  steps        {len(plan.steps)}")
    opened, calls = statistics["expansions"], statistics["ik_calls"]
    print(f"  method       {statistics['method']}")
    print(f"  planning     {statistics['planning_s']:.2f} s, {opened} nodes opened, {calls} IK calls")
    print(f"  validator    {violations} constraints broken")
    refused = sorted(statistics["rejected"].items(), key=lambda item: -item[1])
    print("  binding      " + ", ".join(f"{name} {count}" for name, count in refused if count))
    print(f"  written      {files[0]}" + (f" and {len(files) - 1} pictures" if len(files) > 1 else ""))


def _point(text: str) -> np.ndarray:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3 or not np.all(np.isfinite(values)):
        raise UsageError(f"--goal is {text!r}, must be three numbers x,y,z in metres")
    return np.array(values)


COMMANDS = {"plan": plan_worm, "evaluate": evaluate_worm, "bench": bench_worm, "primitives": primitives_worm}


def main() -> int:
    """`python -m sim.worm.cli VERB ...`."""
    parser = argparse.ArgumentParser(prog="python -m sim.worm.cli")
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = {}
    for name, add in COMMANDS.items():
        runs[name] = add(verbs.add_parser(name, formatter_class=argparse.ArgumentDefaultsHelpFormatter))
    args = parser.parse_args()
    try:
        return runs[args.verb](args)
    except PrestressError as error:
        print(f"prestress: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
