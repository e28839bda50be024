"""One idea: the offboard verbs of the three-bar robot. Each adds its arguments to a parser and returns what runs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from offboard.cli.dynamics import bench_dynamics, evaluate_dynamics, model_export, models_folder
from offboard.three_bar.progress import bar
from onboard.errors import MissingExtraError, PrestressError, UsageError

Run = Callable[[argparse.Namespace], int]
DATA = Path("data/three_bar")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def collect_three_bar(parser: argparse.ArgumentParser) -> Run:
    """`collect three_bar`."""
    from offboard.three_bar.collect import CollectSettings, collect

    default = CollectSettings()
    parser.add_argument("--out", type=Path, default=DATA / "bootstrap", help="folder of episodes")
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--episodes", type=int, default=default.episodes)
    parser.add_argument("--seconds", type=float, default=default.seconds, help="length of an episode")
    parser.add_argument("--drives", type=_words, default=default.drives, help="uniform,bang,coloured,primitives,mppi")
    parser.add_argument("--terrains", type=_words, default=default.terrains, help="flat,tilted,walls,ceiling,ramp,course:NAME")
    parser.add_argument("--mppi-samples", type=int, default=default.mppi_samples)
    parser.add_argument("--model", default="", help="manifest of a model that MPPI plans with (default: the plant itself)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="20 episodes of 4 s")
    parser.add_argument("--json", action="store_true")

    def run(args: argparse.Namespace) -> int:
        settings = CollectSettings(
            seed=args.seed,
            episodes=20 if args.quick else args.episodes,
            seconds=4.0 if args.quick else args.seconds,
            drives=args.drives,
            terrains=args.terrains,
            mppi_samples=args.mppi_samples,
            model=args.model,
        )
        with bar("episodes") as update:
            counts = collect(args.out, settings, args.workers, update)
        minutes = (counts["made"] + counts["kept"]) * settings.seconds / 60.0
        if args.json:
            print(json.dumps({**counts, "robot_minutes": minutes, "out": str(args.out)}))
        else:
            print(
                f"{counts['made']} made, {counts['kept']} kept, {counts['failed']} failed: "
                f"{minutes:.0f} robot minutes in {args.out}"
            )
        return 0

    return run


def train_three_bar(parser: argparse.ArgumentParser) -> Run:
    """`train three_bar`."""
    parser.add_argument("--variant", default="contact", help="contact, flat, edges_only, distances_only, plain")
    parser.add_argument("--settings", type=Path, default=None, help="TOML of hyperparameters (default: the package's)")
    parser.add_argument("--out", type=Path, default=None, help="folder of the run (default: runs/three_bar/VARIANT)")
    parser.add_argument("--data", type=_words, default=None, help="folders of episodes instead of the file's")
    parser.add_argument("--seed", type=int, default=None, help="instead of the file's")
    parser.add_argument("--updates", type=int, default=None, help="instead of the file's")
    parser.add_argument("--batch", type=int, default=None, help="instead of the file's")
    parser.add_argument("--stop-after", type=int, default=None, help="pause after so many updates; 0: only report what is there")
    parser.add_argument("--begin-with", type=Path, default=None, help="best.pt of a run that gives a new run its first weights")
    parser.add_argument("--quick", action="store_true", help="20 updates of 16 windows: to see that everything works")
    parser.add_argument("--restart", action="store_true", help="forget the folder's checkpoint")
    parser.add_argument("--json", action="store_true")

    def run(args: argparse.Namespace) -> int:
        require_torch()
        from offboard.three_bar.train import CHECKPOINT, Trainer, describe
        from offboard.three_bar.train_report import write_report
        from offboard.three_bar.train_settings import DEFAULT_FILE, load_settings, overridden

        if args.stop_after is not None and args.stop_after < 0:
            raise UsageError(f"--stop-after {args.stop_after}: must be 0 or more")
        changes = {"seed": args.seed, "updates": args.updates, "batch": args.batch}
        if args.quick:
            changes |= {"updates": 20, "batch": 16, "check_every": 10, "check_windows": 16}
        settings = overridden(load_settings(args.variant, args.settings or DEFAULT_FILE), changes, args.data)
        folder = args.out or Path("runs/three_bar") / args.variant
        if args.restart:
            (folder / CHECKPOINT).unlink(missing_ok=True)
        trainer = Trainer(settings, folder, args.variant, args.begin_with)
        with bar(f"train {args.variant}") as update:
            progress = trainer.run(update, args.stop_after)
        report = describe(trainer)
        write_report(folder, report)
        if args.json:
            keys = ("variant", "parameters", "updates", "cpu_minutes", "best_com_error_u", "best_update")
            print(json.dumps({**{key: report[key] for key in keys}, "out": str(folder)}))
        else:
            print(
                f"{progress.update} updates, {progress.cpu_s / 60:.1f} core minutes, "
                f"CoM error at 2 s {progress.best:.3f} u: {folder}"
            )
        return 0

    return run


def require_torch() -> None:
    """One thread for everything; raises MissingExtraError without torch."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("this verb", "offboard") from error
    torch.set_num_threads(1)


def primitives_three_bar(parser: argparse.ArgumentParser) -> Run:
    """`primitives three_bar`."""
    parser.add_argument("--out", type=Path, default=None, help="file (default: models_onnx/three_bar/primitives.json)")
    parser.add_argument("--starts", type=int, default=6, help="runs a primitive, 1..100")
    parser.add_argument("--cycles", type=int, default=4, help="counted cycles a run, 1..100")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one run of two cycles")
    parser.add_argument("--json", action="store_true")

    def run(args: argparse.Namespace) -> int:
        from offboard.three_bar.library import build, write_library
        from sim.three_bar.plant import Plant
        from sim.three_bar.robot_file import load_robot

        if not (1 <= args.starts <= 100 and 1 <= args.cycles <= 100):
            raise UsageError("--starts and --cycles must be 1..100")
        starts, cycles = (1, 2) if args.quick else (args.starts, args.cycles)
        with bar("primitives") as update:
            library = build(Plant(load_robot()), starts, cycles, args.seed, update)
        out = args.out or models_folder() / "primitives.json"
        write_library(out, library)
        if args.json:
            print(json.dumps({**msgspec.to_builtins(library), "out": str(out)}))
            return 0
        for e in library.entries:
            print(
                f"{e.name:7}{e.left_u:.1f}/{e.right_u:.1f}  x {e.dx_u:+.2f} +-{e.dx_sd_u:.2f}  "
                f"y {e.dy_u:+.2f} +-{e.dy_sd_u:.2f}  turn {math.degrees(e.turn_rad):+6.1f} "
                f"+-{math.degrees(e.turn_sd_rad):.1f} deg  {e.seconds:.1f} s  N {e.samples}"
            )
        print(out)
        return 0

    return run


VERBS: dict[str, Callable[[argparse.ArgumentParser], Run]] = {
    "collect": collect_three_bar,
    "train": train_three_bar,
    "primitives": primitives_three_bar,
    "export": model_export,
    "evaluate": evaluate_dynamics,
    "bench": bench_dynamics,
}


def main() -> int:
    """Entry point of python -m offboard.three_bar.cli."""
    parser = argparse.ArgumentParser(prog="python -m offboard.three_bar.cli", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = {name: add(verbs.add_parser(name)) for name, add in VERBS.items()}
    args = parser.parse_args()
    try:
        return runs[args.verb](args)
    except PrestressError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
