"""`prestress fit vine DATA`: physical parameters from tracked centre lines, with their uncertainty."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

from rich.progress import Progress

from offboard.vine.bench import bench_vine
from offboard.vine.evaluate import evaluate_vine
from offboard.vine.fit import fit
from offboard.vine.problem import PHYSICAL, USUAL
from offboard.vine.tracks import load
from offboard.vine.write_model import write_models
from onboard.errors import UsageError
from onboard.resources import robot_file, root
from onboard.vine_robot import load_vine
from sim.vine import Robot
from sim.vine.robot import LAWS


def fit_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that fits."""
    parser.add_argument("data", type=Path, help="CSV or npz of tracked centre lines (docs/vine.md has the format)")
    parser.add_argument("--law", choices=list(LAWS), default="linear", help="bending law")
    parser.add_argument("--free", default="", help=f"unknowns, comma separated, of {', '.join(PHYSICAL)}")
    parser.add_argument("--growth-mm-s", type=float, default=150.0, help="growth rate to start from, or the known one")
    parser.add_argument("--half-length-mm", type=float, default=9.0, help="half a simulated link")
    parser.add_argument("--radius-mm", type=float, default=12.0, help="tube radius")
    parser.add_argument("--mass-g", type=float, default=1.0, help="mass of a link")
    parser.add_argument("--inertia-kg-mm2", type=float, default=0.1, help="moment of inertia of a link")
    parser.add_argument("--stiffness-nm", type=float, default=0.03, help="bending stiffness of a joint to start from")
    parser.add_argument("--pressure-kpa", type=float, default=10.0, help="pressure to start from")
    parser.add_argument("--scale-mm-px", type=float, default=None, help="millimetres a pixel, for pixel data")
    parser.add_argument("--heading", action="store_true", help="fit each trial's heading too")
    parser.add_argument("--time", action="store_true", help="fit each trial's time offset too")
    parser.add_argument("--starts", type=int, default=3, help="starting points, for confidence")
    parser.add_argument("--seed", type=int, default=0, help="seed of the starting points")
    parser.add_argument("--quick", action="store_true", help="one start")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Fit, print each value with its uncertainty and whether the data identify it."""
    if not 1 <= args.starts <= 100:
        raise UsageError(f"--starts is {args.starts}: must lie in 1 .. 100")
    scale = None if args.scale_mm_px is None else 1e-3 * args.scale_mm_px
    trials = load(args.data, scale)
    robot = Robot(
        half_length_m=1e-3 * args.half_length_mm,
        radius_m=1e-3 * args.radius_mm,
        mass_kg=1e-3 * args.mass_g,
        inertia_kg_m2=1e-6 * args.inertia_kg_mm2,
        stiffness_nm=args.stiffness_nm,
        pressure_pa=1e3 * args.pressure_kpa,
        law=args.law,
    )
    free = tuple(name.strip() for name in args.free.split(",")) if args.free else USUAL[args.law]
    starts = 1 if args.quick else args.starts
    with Progress(transient=True) as bar:
        task = bar.add_task("fitting", total=None)
        found = fit(
            trials,
            robot,
            1e-3 * args.growth_mm_s,
            free,
            starts,
            args.seed,
            args.heading,
            args.time,
            lambda text, loss: bar.update(task, description=f"{text}, {loss:.4f} mm^2"),
        )
    for name, value in found.values.items():
        doubt = "" if found.identified[name] else "   NOT identified by these data"
        print(f"{name:<14} {value:.6g}  +- {100 * found.uncertainty[name]:.2f} %{doubt}")
    held = "" if math.isnan(found.validation_error_m) else f", {1e3 * found.validation_error_m:.3f} mm held out"
    print(f"mean distance  {1e3 * found.train_error_m:.3f} mm in training{held}")
    if args.json:
        print(json.dumps(found.summary()))
    return 0


def export_vine(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options; returns the function that writes the planner's models for a robot's file."""
    parser.add_argument("--robot", default="vine", help="the robot's name or TOML file")
    parser.add_argument("--out", type=Path, default=root() / "models_onnx" / "vine", help="folder for models and manifests")
    return run_export


def run_export(args: argparse.Namespace) -> int:
    """Write, and print what the robot's file has to pin."""
    for made in write_models(load_vine(robot_file(args.robot)), args.out):
        print(f"{made.name:<14} {made.onnx_bytes} bytes  sha256 {made.onnx_sha256}")
    return 0


def main() -> int:
    """The vine's offboard verbs without the rest of the product: python -m offboard.vine.cli fit|evaluate|bench|export ..."""
    parser = argparse.ArgumentParser(prog="python -m offboard.vine.cli")
    verbs = parser.add_subparsers(required=True)
    for name, declare in (("fit", fit_vine), ("evaluate", evaluate_vine), ("bench", bench_vine), ("export", export_vine)):
        verb = verbs.add_parser(name)
        verb.set_defaults(run=declare(verb))
    args = parser.parse_args()
    return int(args.run(args))


if __name__ == "__main__":
    raise SystemExit(main())
