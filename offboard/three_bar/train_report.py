"""One idea: what a training run leaves for people and programs: report.json and curves in report.png."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Write report.json and report.png into `folder`."""
    (folder / "report.json").write_text(json.dumps(report, indent=1, sort_keys=True))
    history = report["history"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.0), dpi=100, layout="constrained")
    try:
        updates = [row["update"] for row in history]
        left.semilogy(updates, [row["loss"] for row in history], color="#3359cc")
        left.set_xlabel("update")
        left.set_ylabel("training loss (its unroll grows in stages)")
        right.plot(updates, [row["com_error_u"] for row in history], color="#d9402f", label="centre of mass [u]")
        right.set_xlabel("update")
        right.set_ylabel("validation error at 2 s: centre of mass [u]")
        right.set_ylim(bottom=0.0)
        twin = right.twinx()
        twin.plot(updates, [row["rotation_deg"] for row in history], color="#338c4d")
        twin.set_ylabel("rotation [deg], green")
        twin.set_ylim(bottom=0.0)
        figure.suptitle(
            f"{report['variant']}: {report['parameters']} parameters, {report['cpu_minutes']:.1f} core minutes, "
            f"best {report['best_com_error_u']:.3f} u at update {report['best_update']}",
            fontsize=10,
        )
        figure.savefig(folder / "report.png")
    finally:
        pyplot.close(figure)
