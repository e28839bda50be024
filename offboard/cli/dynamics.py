"""One idea: verbs about learned dynamics: export a model, evaluate models, time them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onboard.errors import UsageError
from onboard.resources import root

Run = Callable[[argparse.Namespace], int]
ROBOT = "three_bar"


def models_folder() -> Path:
    """Where the robot's models lie."""
    return root() / "models_onnx" / ROBOT


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list."""
    return tuple(word for word in text.split(",") if word)


def model_export(parser: argparse.ArgumentParser) -> Run:
    """`model export three_bar`."""
    parser.add_argument("robot", nargs="?", choices=(ROBOT,), default=ROBOT)
    parser.add_argument("--variant", default="contact", help="which trained variant")
    parser.add_argument("--run", type=Path, default=None, help="folder of the run (default: runs/three_bar/VARIANT)")
    parser.add_argument("--out", type=Path, default=None, help="folder of models (default: models_onnx/three_bar)")
    parser.add_argument("--tile", type=int, default=None, help="samples a call")
    parser.add_argument("--seed", type=int, default=0, help="of the random states that parity is checked on")
    parser.add_argument("--json", action="store_true")

    def run(args: argparse.Namespace) -> int:
        from offboard.three_bar.cli import require_torch

        require_torch()
        from offboard.three_bar.export import TILE, check_parity, write_model
        from offboard.three_bar.train import load_model

        folder = args.run or Path("runs") / ROBOT / args.variant
        model, identity = load_model(folder / "best.pt")
        out = args.out or models_folder()
        manifest = write_model(out, model, args.variant, identity, tile=args.tile or TILE)
        parity = check_parity(out / f"{args.variant}.json", model, args.seed)
        report = folder / "report.json"
        if report.is_file():
            (out / f"{args.variant}_training.json").write_text(report.read_text())
        if args.json:
            result = {"model": args.variant, "sha256": manifest.onnx_sha256, "bytes": manifest.onnx_bytes, "parity": parity}
            print(json.dumps({**result, "parameters": manifest.parameters, "out": str(out)}))
        else:
            print(f"{out / manifest.file}: {manifest.onnx_bytes} bytes, differs from torch by {parity:.1e} u over 2 s")
        return 0

    return run


def evaluate_dynamics(parser: argparse.ArgumentParser) -> Run:
    """`evaluate dynamics`."""
    parser.add_argument("--models", type=names, default=None, help="names (default: all five that are there)")
    parser.add_argument("--folder", type=Path, default=None, help="folder of models (default: models_onnx/three_bar)")
    parser.add_argument("--sets", type=names, default=None, help="random,on_policy,contact (default: all)")
    parser.add_argument("--quick", action="store_true", help="few windows, in half a minute")
    parser.add_argument("--out", type=Path, default=Path("runs/three_bar/evaluation"), help="folder for table and picture")
    parser.add_argument("--json", action="store_true")

    def run(args: argparse.Namespace) -> int:
        from offboard.three_bar.evaluate import NAMES, evaluate, load_models, save_chart
        from offboard.three_bar.held_out import SETS
        from offboard.three_bar.progress import bar

        sets = args.sets or SETS
        if set(sets) - set(SETS):
            raise UsageError(f"unknown set {', '.join(sorted(set(sets) - set(SETS)))}; known: {', '.join(SETS)}")
        models = load_models(args.folder or models_folder(), args.models or NAMES)
        with bar("episodes") as update:
            result = evaluate(models, args.quick, update, tuple(sets))
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "dynamics.json").write_text(json.dumps(result, indent=1))
        save_chart(args.out / "dynamics.png", result)
        print(json.dumps(result) if args.json else table(result))
        return 0

    return run


def table(result: dict[str, Any]) -> str:
    """The result as lines of text."""
    lines = [f"{'model':16}{'set':11}{'windows':>8}{'e_pos':>9}{'e_rot':>7}{'CoM %':>7}{'rank':>7}{'regret %':>9}"]
    for name, sets in result["models"].items():
        for set_name, row in sets.items():
            if isinstance(row, dict) and row.get("windows"):
                lines.append(
                    f"{name:16}{set_name:11}{row['windows']:8d}{row['e_pos']:9.4f}{row['e_rot_deg']:7.2f}{row['com_error_pct']:7.1f}"
                    f"{row.get('rank_correlation', float('nan')):7.3f}{row.get('regret_pct', float('nan')):9.1f}"
                )
    return "\n".join(lines)


def bench_dynamics(parser: argparse.ArgumentParser) -> Run:
    """`bench dynamics`."""
    parser.add_argument("--model", default="contact", help="name of an exported model")
    parser.add_argument("--folder", type=Path, default=None, help="folder of models (default: models_onnx/three_bar)")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 20")
    parser.add_argument("--seed", type=int, default=0, help="unused: all inputs are fixed")
    parser.add_argument("--json", action="store_true")

    def run(args: argparse.Namespace) -> int:
        if not 1 <= args.samples <= 100_000:
            raise UsageError(f"--samples {args.samples}: must be 1..100000")
        from offboard.three_bar.bench import bench

        result = bench(args.folder or models_folder(), args.model, args.samples, 3 if args.quick else 20)
        if args.json:
            print(json.dumps(result))
            return 0
        for key, value in result.items():
            print(f"{key:28}{value:.4g}" if isinstance(value, float) else f"{key:28}{value}")
        if "ratio_pytorch_mppi" not in result:
            print("no comparison with pytorch_mppi: pip install pytorch-mppi, and keep runs/three_bar/<model>/best.pt")
        return 0

    return run
