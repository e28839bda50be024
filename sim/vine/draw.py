"""Pictures and films of a batch of vines in their scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from onboard.errors import MissingExtraError
from sim.vine.measure import joints
from sim.vine.rollout import Rollout
from sim.vine.scene import Scene


def pyplot_or_hint() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("drawing vines", "sim") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def canvas(pyplot: Any, scene: Scene, reach_m: float) -> tuple[Any, Any]:
    from matplotlib.patches import Circle, Polygon

    figure, axes = pyplot.subplots(figsize=(6.4, 6.4), dpi=100)
    for item in scene.obstacles:
        style = {"facecolor": "0.75", "edgecolor": "0.4", "linewidth": 1}
        if len(item.corners) == 1:
            axes.add_patch(Circle(1e3 * item.corners[0], 1e3 * item.rounding_m, **style))
        else:
            axes.add_patch(Polygon(1e3 * item.corners, closed=True, **style))
    middle = 1e3 * np.array(scene.base) + 0.5e3 * reach_m * np.array([np.cos(scene.heading_rad), np.sin(scene.heading_rad)])
    axes.set_xlim(middle[0] - 650 * reach_m, middle[0] + 650 * reach_m)
    axes.set_ylim(middle[1] - 650 * reach_m, middle[1] + 650 * reach_m)
    axes.set_aspect("equal")
    axes.set_xlabel("x [mm]")
    axes.set_ylabel("y [mm]")
    return figure, axes


def _reach(run: Rollout) -> float:
    state = run.state(len(run.q) - 1)
    return float(max(np.hypot(*(state.tip() - state.base[:, :2]).T).max() * 1.15, 0.1))


def draw(run: Rollout, path: Path, frame: int = -1) -> None:
    """A PNG of all robots of a kept rollout after one frame, over the first robot's scene."""
    pyplot = pyplot_or_hint()
    figure, axes = canvas(pyplot, run.sim.scenes[0], _reach(run))
    state = run.state(frame % len(run.q))
    colours = pyplot.get_cmap("viridis")(np.linspace(0, 1, run.sim.batch))
    for b in range(run.sim.batch):
        line = 1e3 * joints(state.q[b], int(state.links[b]), run.sim.settings.half)
        axes.plot(*line.T, color=colours[b], linewidth=1.2)
    figure.savefig(path)
    pyplot.close(figure)


def film(run: Rollout, path: Path, every: int = 3, progress: Any = None) -> None:
    """An MP4 of a kept rollout, every few frames, at the speed it happened."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError("filming vines", "sim") from error
    pyplot = pyplot_or_hint()
    figure, axes = canvas(pyplot, run.sim.scenes[0], _reach(run))
    colours = pyplot.get_cmap("viridis")(np.linspace(0, 1, run.sim.batch))
    lines = [axes.plot([], [], color=colour, linewidth=1.2)[0] for colour in colours]
    width, height = figure.canvas.get_width_height()
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=1 / (every * run.sim.settings.dt))
    writer.send(None)
    for frame in range(0, len(run.q), every):
        state = run.state(frame)
        for b, line in enumerate(lines):
            line.set_data(*(1e3 * joints(state.q[b], int(state.links[b]), run.sim.settings.half)).T)
        figure.canvas.draw()
        writer.send(np.ascontiguousarray(np.asarray(figure.canvas.buffer_rgba())[..., :3]))
        if progress:
            progress(frame + every)
    writer.close()
    pyplot.close(figure)
