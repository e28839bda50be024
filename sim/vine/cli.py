"""`prestress sim vine`: rolls out a batch of growing vines with a progress bar and writes a picture and a film."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import Progress

from onboard.errors import UsageError
from sim.vine.draw import draw, film
from sim.vine.evaluate import evaluate_vine
from sim.vine.kernels.work import COARSE, FULL, INFEASIBLE, OUT_OF_DOMAIN, UNCONVERGED
from sim.vine.robot import LAWS, Robot, paper_robot
from sim.vine.scene_file import load_scene
from sim.vine.simulator import Simulator
from sim.vine.state import Options

STATUS = {
    "unconverged": UNCONVERGED,
    "coarse": COARSE,
    "infeasible": INFEASIBLE,
    "links_used_up": FULL,
    "out_of_domain": OUT_OF_DOMAIN,
}


def sim_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that simulates."""
    parser.add_argument("--scene", default="clutter", help="a scene's name or TOML file")
    parser.add_argument("--batch", type=int, default=64, help="robots with random launch angles")
    parser.add_argument("--frames", type=int, default=0, help="frames of 1/90 s (default: the scene's)")
    parser.add_argument("--links", type=int, default=40, help="most links a robot may have")
    parser.add_argument("--law", choices=list(LAWS)[::2], default="linear", help="bending law")
    parser.add_argument("--pressure-kpa", type=float, default=10.0, help="pressure [kPa]")
    parser.add_argument("--friction", type=float, default=0.0, help="Coulomb friction coefficient")
    parser.add_argument("--reference", action="store_true", help="the paper's hard formulation and robot")
    parser.add_argument("--seed", type=int, default=0, help="seed of the launch angles")
    parser.add_argument("--quick", action="store_true", help="at most 60 frames and no film")
    parser.add_argument("--out", type=Path, default=Path("runs/vine"), help="folder for the picture, film and data")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Simulate, report, draw."""
    if not 1 <= args.batch <= 100_000:
        raise UsageError(f"--batch is {args.batch}: must lie in 1 .. 100000")
    if args.frames < 0:
        raise UsageError(f"--frames is {args.frames}: must not be negative")
    scene = load_scene(args.scene)
    frames = args.frames or scene.frames
    if args.quick:
        frames = min(frames, 60)
    if args.reference:
        robot, options = paper_robot(), Options.reference(links=args.links)
    else:
        robot = Robot(law=args.law, pressure_pa=1e3 * args.pressure_kpa, friction=args.friction)
        options = Options(links=args.links)
    sim = Simulator(robot, [scene] * args.batch, options)
    rng = np.random.default_rng(args.seed)
    state = sim.start(scene.heading_rad + scene.spread_rad * rng.uniform(-1, 1, args.batch))
    controls = sim.controls(frames, state)
    begin_s = time.monotonic()
    with Progress(transient=True) as bar:
        task = bar.add_task("growing", total=frames)
        made = sim.rollout(state, controls, progress=lambda done: bar.update(task, completed=done))
    took_s = time.monotonic() - begin_s
    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / f"{scene.name}.png"
    draw(made, picture)
    files = [str(picture)]
    if not args.quick:
        with Progress(transient=True) as bar:
            task = bar.add_task("filming", total=frames)
            film(made, args.out / f"{scene.name}.mp4", progress=lambda done: bar.update(task, completed=done))
        files.append(str(args.out / f"{scene.name}.mp4"))
    report = made.report
    result = {
        "scene": scene.name,
        "batch": args.batch,
        "frames": frames,
        **{name: int(np.sum((report.status & bit) > 0)) for name, bit in STATUS.items()},
        "max_penetration_mm": 1e3 * float(report.penetration_m.max()),
        "max_joint_error_mm": 1e3 * float(report.joint_error_m.max()),
        "mean_iterations": float(report.iterations.mean()),
        "mean_substeps": float(report.substeps.mean()),
        "mean_links": float(made.last.links.mean()),
        "ms_per_frame": 1e3 * took_s / frames,
        "files": files,
    }
    for key, value in result.items():
        print(f"{key:<20} {value}")
    if args.json:
        print(json.dumps(result))
    return 0 if result["unconverged"] == 0 else 1


def main() -> int:
    """The vine's verbs without the rest of the product: python -m sim.vine.cli sim|evaluate ..."""
    parser = argparse.ArgumentParser(prog="python -m sim.vine.cli")
    verbs = parser.add_subparsers(required=True)
    for name, declare in (("sim", sim_vine), ("evaluate", evaluate_vine)):
        verb = verbs.add_parser(name)
        verb.set_defaults(run=declare(verb))
    args = parser.parse_args()
    return int(args.run(args))


if __name__ == "__main__":
    raise SystemExit(main())
