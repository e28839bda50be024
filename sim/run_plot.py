"""The picture of a simulated run: errors of tip and cables over time, with its phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from onboard.robot import RobotSpec
from sim.evaluate.metrics import at_times
from sim.scenario import Outcome
from sim.trace import EstimateLog, TruthLog


def plot_run(spec: RobotSpec, estimates: EstimateLog, truth: TruthLog, outcome: Outcome, out: Path) -> None:
    """Write a PNG: estimated against true tip, true tip against the taught ones, cable length errors."""
    start = outcome.phases[0][1] if outcome.phases else truth.t_s[0]
    inside = (estimates.t_s >= max(start, truth.t_s[0])) & (estimates.t_s <= truth.t_s[-1])
    t_s = estimates.t_s[inside]
    true_tip = at_times(t_s, truth.t_s, truth.tip_m)
    cables = at_times(t_s, truth.t_s, truth.cable_length_m)
    length_mm = 1000.0 * spec.structure.rest_height_m
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    tip_axis, error_axis, cable_axis = figure.subplots(3, 1, sharex=True)
    for axis, name, colour in zip(range(3), "xyz", ("C0", "C1", "C2"), strict=True):
        tip_axis.plot(t_s - start, true_tip[:, axis], color=colour, linewidth=2.2, alpha=0.35)
        tip_axis.plot(t_s - start, estimates.tip_m[inside][:, axis], color=colour, linewidth=0.9, label=name)
    tip_axis.set_ylabel("tip [m]\nbroad: true, thin: estimated")
    tip_axis.legend(loc="upper right", ncols=3)
    tip_axis.set_title(f"{spec.robot.title} (simulation)")
    error_axis.plot(
        t_s - start,
        1000.0 * np.linalg.norm(estimates.tip_m[inside] - true_tip, axis=1),
        linewidth=0.9,
        label="estimate to true tip",
    )
    for one in outcome.returns:
        phase = next((p for p in outcome.phases if p[0] == f"go {one.name}"), None)
        if phase is not None:
            part = (truth.t_s >= phase[1]) & (truth.t_s <= phase[2])
            away = 1000.0 * np.linalg.norm(truth.tip_m[part] - one.taught_tip_m, axis=1)
            error_axis.plot(truth.t_s[part] - start, away, linewidth=1.6, label=f"true tip to {one.name}")
    error_axis.axhline(0.01 * length_mm, color="0.6", linestyle="--", linewidth=0.8)
    error_axis.set_yscale("log")
    error_axis.set_ylabel("distance [mm]\ndashed: 1 % of length")
    error_axis.legend(loc="upper right", ncols=2, fontsize=8)
    cable_axis.plot(t_s - start, 1000.0 * (estimates.cable_length_m[inside] - cables), linewidth=0.4)
    cable_axis.set_ylabel("cable lengths,\nestimated less true [mm]")
    cable_axis.set_xlabel("time [s]")
    for name, begin, _ in outcome.phases:
        for axis in (tip_axis, error_axis, cable_axis):
            axis.axvline(begin - start, color="0.8", linewidth=0.8)
        tip_axis.text(begin - start, tip_axis.get_ylim()[1], f" {name}", fontsize=8, va="top", color="0.35")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
