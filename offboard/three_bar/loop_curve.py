"""One idea: how models get better from iteration to iteration, as a picture (paper, figure 5) and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from offboard.three_bar.held_out import SETS
from offboard.three_bar.loop_files import IterationReport

ROWS = (("e_pos", "e_pos [u]"), ("e_rot_deg", "e_rot [deg]"), ("com_error_pct", "centre of mass at 2 s [% of the way]"))


def curve(reports: list[IterationReport]) -> dict[str, Any]:
    """Per test set and figure one value an iteration (None where it was not measured); robot minutes beside them."""
    table = {
        name: {key: [report.errors.get(name, {}).get(key) for report in reports] for key, _ in ROWS}
        for name in SETS
        if any(name in report.errors for report in reports)
    }
    return {
        "iterations": [report.iteration for report in reports],
        "models": [report.model for report in reports],
        "robot_minutes": [round(report.all_robot_minutes, 2) for report in reports],
        "train_cpu_minutes": [round(report.train_cpu_minutes, 2) for report in reports],
        "sets": table,
        "simulation": True,
    }


def save_curve(folder: Path, reports: list[IterationReport]) -> dict[str, Any]:
    """Write curve.json and curve.png into `folder`; returns what the JSON holds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    result = curve(reports)
    (folder / "curve.json").write_text(json.dumps(result, indent=1))
    figure, panels = pyplot.subplots(1, len(ROWS), figsize=(12.0, 4.0), dpi=100, layout="constrained")
    try:
        for axes, (key, label) in zip(panels, ROWS, strict=True):
            for name, values in result["sets"].items():
                axes.plot(result["iterations"], values[key], marker="o", label=name)
            axes.set_xlabel("iteration")
            axes.set_ylabel(label)
            axes.set_xticks(result["iterations"])
            axes.set_ylim(bottom=0.0)
        panels[0].legend()
        figure.suptitle("models over the data loop's iterations: held-out windows, simulation", fontsize=10)
        figure.savefig(folder / "curve.png")
    finally:
        pyplot.close(figure)
    return result
