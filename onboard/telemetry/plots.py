"""Pictures of a recording: tip, deviation from the goal and pressures over time (needs matplotlib, extra `view`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onboard.errors import MissingExtraError, RecordingError
from onboard.robot import RobotSpec
from onboard.telemetry import schemas
from onboard.telemetry.reader import Recording


def plot_recording(recording: Recording, spec: RobotSpec, out: Path) -> None:
    """Write a PNG of `recording` to `out`."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("a plot", "view") from error
    tips, lengths, commands, changes = [], [], [], []
    for topic, fields in recording:
        if topic == schemas.ESTIMATE:
            if len(fields["tip_m"]) != 3 or "cable_length_m" not in fields:
                raise RecordingError(f"{recording.path}: holds estimates without tip or cables")
            tips.append((fields["t_s"], *fields["tip_m"]))
            lengths.append(fields["cable_length_m"])
        elif topic == schemas.COMMAND:
            commands.append((fields["t_s"], *fields["value"]))
        elif topic == schemas.TRANSITION:
            changes.append((fields["t_s"], fields["state"]))
    if not tips:
        raise RecordingError(f"{recording.path}: holds no estimates to plot")
    tip, length, command = np.array(tips), np.array(lengths), np.array(commands)
    start = tip[0, 0]
    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplots(3 if len(command) else 2, 1, sharex=True)
    for column, name in enumerate("xyz", start=1):
        axes[0].plot(tip[:, 0] - start, tip[:, column], label=name, linewidth=1)
    axes[0].set_ylabel("tip [m]")
    axes[0].legend(loc="upper right", ncols=3)
    axes[0].set_title(f"{spec.robot.title}: {recording.path.name}")
    axes[1].plot(tip[:, 0] - start, 1000.0 * (length - length[0]), linewidth=0.6)
    axes[1].set_ylabel("cable lengths less\nthe first [mm]")
    if len(command):
        axes[2].plot(command[:, 0] - start, command[:, 1:] / 1000.0, linewidth=0.6)
        axes[2].set_ylabel("set-points [kPa]")
    axes[-1].set_xlabel("time [s]")
    for t_s, state in changes:
        for axis in axes:
            axis.axvline(t_s - start, color="0.7", linewidth=0.8)
        axes[0].text(t_s - start, axes[0].get_ylim()[1], f" {state}", rotation=90, va="top", fontsize=7, color="0.4")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
