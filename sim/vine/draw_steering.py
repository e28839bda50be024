"""One idea: a picture and a film of a vine that was steered to a goal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onboard.errors import MissingExtraError
from sim.vine.draw import canvas, pyplot_or_hint
from sim.vine.goals import Task
from sim.vine.plant import FRAME_S
from sim.vine.steer import Episode

EVERY = 3  # frames of the simulation a frame of the film


def _stage(task: Task, tolerance_m: float) -> tuple[Any, Any, Any]:
    from matplotlib.patches import Circle

    pyplot = pyplot_or_hint()
    figure, axes = canvas(pyplot, task.scene, 1.1 * float(np.linalg.norm(task.goal)))
    axes.add_patch(Circle(tuple(1e3 * task.goal), 1e3 * tolerance_m, fill=False, edgecolor="tab:green", linewidth=1.5))
    axes.plot(*(1e3 * task.goal), marker="+", color="tab:green")
    return pyplot, figure, axes


def draw_episode(made: Episode, task: Task, tolerance_m: float, path: Path) -> None:
    """A PNG: the vine at ten moments, pale to dark, its end at the last, the goal with its tolerance."""
    pyplot, figure, axes = _stage(task, tolerance_m)
    moments = np.linspace(0, len(made.lines) - 1, 10).astype(int)
    for shade, k in zip(np.linspace(0.25, 1.0, len(moments)), moments, strict=True):
        axes.plot(*(1e3 * made.lines[k].T), color="tab:blue", alpha=shade, linewidth=1.5)
    axes.set_title(f"{task.scene.name}: {1e3 * made.final_m:.1f} mm from the goal after {made.time_s:.1f} s (simulation)")
    figure.savefig(path)
    pyplot.close(figure)


def film_episode(
    made: Episode,
    task: Task,
    tolerance_m: float,
    path: Path,
    progress: Callable[[int], None] | None = None,
    every: int = EVERY,
) -> None:
    """An MP4 at the speed it happened. every: which of the lines are shown; a film has one every EVERY frames of the plant."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError("filming vines", "sim") from error
    pyplot, figure, axes = _stage(task, tolerance_m)
    (line,) = axes.plot([], [], color="tab:blue", linewidth=2.0)
    size = figure.canvas.get_width_height()
    writer = imageio_ffmpeg.write_frames(str(path), size, fps=1 / (EVERY * FRAME_S))
    writer.send(None)
    for k in range(0, len(made.lines), every):
        line.set_data(*(1e3 * made.lines[k].T))
        figure.canvas.draw()
        writer.send(np.ascontiguousarray(np.asarray(figure.canvas.buffer_rgba())[..., :3]))
        if progress:
            progress(k + every)
    writer.close()
    pyplot.close(figure)
