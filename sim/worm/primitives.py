"""`primitives worm`: plans on training tasks, kept as a library of motion primitives."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import msgspec

from onboard.planning.contact.guide import Guide, make_guide
from onboard.planning.contact.library import collect, save_library
from onboard.planning.contact.plan import Plan, load_plan, save_plan
from onboard.planning.contact.search import search
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import load_worm
from onboard.resources import robot_file
from sim.worm.common import bar, choose_clock, find_scene
from sim.worm.evaluate import SCENES, library_file
from sim.worm.tasks import TRAINING_SEED, draw_task


def primitives_worm(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of `primitives worm`."""
    parser.add_argument("--robot", default="worm", help="worm by name, or the path of its TOML file")
    parser.add_argument("--episodes", type=int, default=15, help="plans a scene")
    parser.add_argument("--scenes", default=",".join(SCENES.values()), help="scenes to learn in, comma-separated")
    parser.add_argument("--seed", type=int, default=TRAINING_SEED, help="seed of the first training task")
    parser.add_argument("--cap", type=float, default=30.0, help="time limit of a task [s]")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="what the limit is measured in")
    parser.add_argument("--out", help="library to write; the robot's own if left out")
    parser.add_argument("--plans", help="folder that keeps every plan; a collection that stopped goes on from there")
    parser.add_argument("--quick", action="store_true", help="two plans a scene")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _primitives_worm


def _primitives_worm(args: argparse.Namespace) -> int:
    spec, clock = load_worm(robot_file(args.robot)), choose_clock(args.clock)
    episodes = 2 if args.quick else args.episodes
    names = [name for name in args.scenes.split(",") if name]
    rollouts: list[tuple[Plan, Guide]] = []
    failed = 0
    with bar("collecting", args.json) as told:
        for index in range(episodes * len(names)):
            scene = find_scene(names[index % len(names)])
            task = draw_task(scene, spec, args.seed + index // len(names))
            guide = make_guide(scene, spec, task.start.frames[:, :, 3], task.goal)
            kept = Path(args.plans) / f"{scene.name}_{task.seed}.json" if args.plans else None
            if kept is not None and kept.is_file():
                plan = load_plan(kept)
            else:
                plan = search(spec, scene, task.start, task.goal, clock, budget_s=args.cap, guide=guide)
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    save_plan(plan, kept)
            if plan.complete and not validate(spec, scene, plan):
                rollouts.append((plan, guide))
            else:
                failed += 1
            told((index + 1) / (episodes * len(names)))
    library = collect(spec, rollouts)
    path = Path(args.out) if args.out else library_file(spec.robot.name)
    save_library(library, path)
    result = {"plans": len(rollouts), "failed": failed, "primitives": len(library.keys), "file": str(path), "seed": args.seed}
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        print(f"{len(library.keys)} primitives from {len(rollouts)} plans ({failed} tasks failed) written to {path}")
    return 0
