"""One idea: `prestress loop three_bar`: arguments of the data loop, and what it says when it ends."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from offboard.cli.dynamics import models_folder, names
from offboard.three_bar.loop_files import IterationReport, LoopSettings
from offboard.three_bar.progress import bar
from onboard.errors import UsageError

Run = Callable[[argparse.Namespace], int]
DEFAULT = LoopSettings()
OUT = Path("runs/three_bar/loop")
QUICK = {
    "bootstrap_episodes": 12, "bootstrap_s": 3.0, "driven_episodes": 4, "driven_s": 3.0, "updates": 20, "further_updates": 10
}  # fmt: skip


def loop_three_bar(parser: argparse.ArgumentParser) -> Run:
    """Declare options on `parser`; returns what runs the loop."""
    parser.add_argument("--iterations", type=int, default=4, help="1..100 (default: 4: 0, 1, 2 and 3, as in the paper)")
    parser.add_argument(
        "--out", type=Path, default=None, help=f"folder of the loop (default: {OUT}; it goes on where it stopped)"
    )
    parser.add_argument("--models", type=Path, default=None, help="where models go (default: models_onnx/three_bar)")
    parser.add_argument("--seed", type=int, default=DEFAULT.seed)
    parser.add_argument("--variant", default=DEFAULT.variant, help="contact, flat, edges_only, distances_only, plain")
    parser.add_argument("--settings", type=Path, default=None, help="TOML of hyperparameters (default: the package's)")
    parser.add_argument("--episodes", type=int, default=DEFAULT.bootstrap_episodes, help="random drives of iteration 0")
    parser.add_argument("--driven", type=int, default=DEFAULT.driven_episodes, help="drives of the controller an iteration")
    parser.add_argument("--seconds", type=float, default=DEFAULT.driven_s, help="length of such a drive")
    parser.add_argument("--courses", type=names, default=DEFAULT.courses, help="where it drives")
    parser.add_argument("--updates", type=int, default=DEFAULT.updates, help="of iteration 0's training")
    parser.add_argument("--further-updates", type=int, default=DEFAULT.further_updates, help="of every later one's")
    parser.add_argument("--quick-evaluation", action="store_true", help="fewer test windows, in half a minute")
    parser.add_argument("--workers", type=int, default=1, help="local processes that drive")
    parser.add_argument("--cluster", metavar="ADDRESS", help="drive on an existing Ray cluster: host:port, ray://host:port, auto")
    parser.add_argument("--quick", action="store_true", help="two tiny iterations, models in the loop's folder: a check")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Run what is missing of the loop."""
    if not 1 <= args.iterations <= 100:
        raise UsageError(f"--iterations {args.iterations}: must be 1..100")
    settings = settings_of(args)
    settings.check()
    from offboard.three_bar.cli import require_torch
    from offboard.three_bar.work import workplace

    work = workplace(args.workers, args.cluster)
    require_torch()
    from offboard.three_bar.loop import Loop, as_json
    from offboard.three_bar.loop_curve import save_curve
    from offboard.three_bar.train_settings import DEFAULT_FILE, load_settings

    train = load_settings(args.variant, args.settings or DEFAULT_FILE)
    folder = args.out or (OUT.with_name("loop_quick") if args.quick else OUT)
    models = args.models or (folder / "models" if args.quick else models_folder())
    loop = Loop(folder, models, settings, train, work, bar)
    iterations = min(args.iterations, 2) if args.quick else args.iterations
    try:
        reports = loop.run(iterations, lambda so_far: tell(args, folder, so_far))
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on in {folder}")
        raise
    result = save_curve(folder, reports)
    if args.json:
        print(json.dumps({**result, "out": str(folder), "models_folder": str(models), "reports": as_json(reports)}))
    return 0


def settings_of(args: argparse.Namespace) -> LoopSettings:
    """What the command line asks for."""
    chosen: dict[str, int | float] = {
        "bootstrap_episodes": args.episodes,
        "driven_episodes": args.driven,
        "driven_s": args.seconds,
        "updates": args.updates,
        "further_updates": args.further_updates,
    }
    return LoopSettings(
        seed=args.seed,
        variant=args.variant,
        courses=tuple(args.courses),
        quick=args.quick,
        quick_evaluation=args.quick_evaluation,
        **(QUICK if args.quick else chosen),
    )


def tell(args: argparse.Namespace, folder: Path, reports: list[IterationReport]) -> None:
    """Curve and one line after every iteration."""
    from offboard.three_bar.loop_curve import save_curve

    result = save_curve(folder, reports)
    if not args.json:
        errors = ", ".join(
            f"{name} {values['e_pos'][-1]:.4f} u" for name, values in result["sets"].items() if values["e_pos"][-1] is not None
        )
        print(f"{result['models'][-1]}: {result['robot_minutes'][-1]:.1f} robot minutes, e_pos {errors}")
