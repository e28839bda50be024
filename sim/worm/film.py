"""Pictures of a run: the body every two seconds in one PNG, pressures and tracking in another, and a film."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onboard.errors import MissingExtraError
from onboard.planning.contact.scene import Scene
from sim.worm.pictures import BODY, PAD_OFF, PAD_ON, open_movie, surfaces

if TYPE_CHECKING:
    from sim.worm.trials import Run, Trial

Floats = NDArray[np.float64]
FRAME_S, LINE_S = 0.5, 2.0  # simulated time between frames of the film, and between bodies in the overview


class Film:
    """Records a run; `look` after every tick, `close` at its end."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._plt = _pyplot()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._figure = self._plt.figure(figsize=(6.4, 4.8), dpi=100)
        self._axes = self._figure.add_subplot(projection="3d")
        self._movie = open_movie(folder / "run.mp4", self._figure)
        self._next_s = 0.0
        self._lines: list[Floats] = []
        self._trace: list[tuple[float, Floats, Floats, Floats, Floats]] = []

    def look(self, run: Run) -> None:
        """Takes in the plant as it is now."""
        t_s, executor = run.plant.t_s, run.executor
        want, now = executor.want.shape, executor.estimate.shape
        self._trace.append((t_s, want.copy(), now.copy(), executor.governor.pressures, run.plant.suction.vacuum_pa.copy()))
        if len(self._lines) * LINE_S <= t_s:
            self._lines.append(run.plant.frames()[:, :, 3])
        if t_s >= self._next_s:
            self._next_s = t_s + FRAME_S
            phase = executor.run.phase.value if executor.run is not None else executor.mode.value
            _scene(self._axes, run.scene, run.task.goal)
            _body(self._axes, run, run.plant.frames())
            self._axes.set_title(f"{run.spec.robot.name}: {t_s:.1f} s, {phase}", fontsize=9)
            self._figure.canvas.draw()
            self._movie.send(np.asarray(self._figure.canvas.buffer_rgba())[:, :, :3].copy())

    def close(self, run: Run, trial: Trial) -> list[Path]:
        """Writes everything; returns the files."""
        self._movie.close()
        self._plt.close(self._figure)
        overview, curves = self._folder / "run.png", self._folder / "tracking.png"
        draw_run(run, self._lines, f"{trial.task} {trial.seed}: {'arrived' if trial.success else 'failed'}", overview)
        self._curves(curves)
        return [overview, curves, self._folder / "run.mp4"]

    def _curves(self, path: Path) -> None:
        t = np.array([row[0] for row in self._trace])
        want, now = np.array([r[1] for r in self._trace]), np.array([r[2] for r in self._trace])
        pressures, vacuum = np.array([r[3] for r in self._trace]), np.array([r[4] for r in self._trace])
        figure, axes = self._plt.subplots(4, 1, figsize=(8, 9), sharex=True)
        for i in range(want.shape[1]):
            axes[0].plot(t, 1e3 * want[:, i, 0], "--", color=f"C{i}", linewidth=0.8)
            axes[0].plot(t, 1e3 * now[:, i, 0], color=f"C{i}", linewidth=1.0, label=f"segment {i}")
            angle_want = np.degrees(want[:, i, 0] * want[:, i, 2])
            angle = np.degrees(now[:, i, 0] * now[:, i, 2])
            axes[1].plot(t, angle_want, "--", color=f"C{i}", linewidth=0.8)
            axes[1].plot(t, angle, color=f"C{i}", linewidth=1.0)
        axes[2].plot(t, pressures.reshape(len(t), -1), linewidth=0.7)
        axes[3].plot(t, 1e-3 * vacuum, linewidth=1.0)
        for ax, label in zip(axes, ("length [mm]", "bend [deg]", "chambers [units]", "vacuum [kPa]"), strict=True):
            ax.set_ylabel(label, fontsize=8)
            ax.tick_params(labelsize=7)
        axes[0].legend(fontsize=7)
        axes[0].set_title("measured (solid) and wanted (dashed)", fontsize=9)
        axes[3].set_xlabel("simulated time [s]", fontsize=8)
        figure.tight_layout()
        figure.savefig(path, dpi=110)
        self._plt.close(figure)


def draw_run(run: Run, lines: list[Floats], title: str, path: Path) -> None:
    """The scene and where the body was, from light to dark. lines: link positions (n + 1, 3) [m] over time."""
    plt = _pyplot()
    figure = plt.figure(figsize=(6.4, 4.8), dpi=100)
    axes = figure.add_subplot(projection="3d")
    _scene(axes, run.scene, run.task.goal)
    for index, line in enumerate(lines):
        axes.plot(*line.T, color=BODY, alpha=0.15 + 0.5 * index / max(len(lines), 1), linewidth=1.5)
    _body(axes, run, run.plant.frames())
    axes.set_title(title, fontsize=9)
    figure.savefig(path)
    plt.close(figure)


def _scene(axes: Any, scene: Scene, goal: Floats) -> None:
    axes.cla()
    for x, y, z in surfaces(scene):
        axes.plot_surface(x, y, z, color="#c8c8c8", alpha=0.3, linewidth=0, antialiased=False, rstride=2, cstride=2)
    axes.scatter(*goal, marker="*", s=120, color="#e09f3e", depthshade=False)
    axes.set_xlim(scene.low[0], scene.high[0])
    axes.set_ylim(scene.low[1], scene.high[1])
    axes.set_zlim(scene.low[2], scene.high[2])
    axes.set_box_aspect(scene.high - scene.low)
    axes.view_init(elev=28, azim=-70)
    axes.tick_params(labelsize=6)


def _body(axes: Any, run: Run, frames: Floats) -> None:
    middles = run.plant.centre_line()
    axes.plot(*middles.T, color=BODY, linewidth=4, solid_capstyle="round")
    pads = frames[:, :, 3] - run.spec.pads.offset_m * frames[:, :, 0]
    colours = [PAD_ON if sealed else PAD_OFF for sealed in run.plant.suction.sealed]
    axes.scatter(*pads.T, c=colours, s=35, depthshade=False)


def _pyplot() -> Any:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingExtraError("drawing a run", "view") from error
    return plt
