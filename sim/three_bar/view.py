"""One idea: pictures of a run, plan and side view, as a PNG of the whole path or an MP4 in time. Lengths are labelled u."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from onboard.errors import MissingExtraError, UsageError
from onboard.messages import Floats
from sim.three_bar.course import Scene
from sim.three_bar.robot_file import ThreeBar

ROD_COLOURS = ("#d9402f", "#338c4d", "#3359cc")
CABLE_COLOUR = "#888888"
FRAME_S = 0.05


def _matplotlib() -> Any:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("drawing", "sim") from error
    return pyplot


class Canvas:
    """Two panels, seen from above and from the side (x against z), of a scene and its robot."""

    def __init__(self, spec: ThreeBar, scene: Scene, path_u: Floats, title: str) -> None:
        self.spec, self.pyplot = spec, _matplotlib()
        self.figure, (self.top, self.side) = self.pyplot.subplots(
            2, 1, figsize=(8.0, 8.0), dpi=100, height_ratios=(3, 1.4), layout="constrained"
        )
        margin = 2.5
        (x0, y0), (x1, y1) = path_u.min(axis=0)[:2] - margin, path_u.max(axis=0)[:2] + margin
        for axes, vertical, limits in ((self.top, 1, (y0, y1)), (self.side, 2, (-0.3, path_u[:, 2].max() + 2.5))):
            axes.set_xlim(x0, x1)
            axes.set_ylim(*limits)
            axes.set_aspect("equal", adjustable="box")
            axes.set_xlabel("x [u]")
            axes.set_ylabel("xyz"[vertical] + " [u]")
            self._objects(axes, scene, vertical)
            axes.plot(path_u[:, 0], path_u[:, vertical], color="black", lw=0.8)
        self.top.set_title(title, fontsize=10)
        self._moving: list[Any] = []

    def _objects(self, axes: Any, scene: Scene, vertical: int) -> None:
        from scipy.spatial import ConvexHull

        signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        for item in scene.boxes:
            corners = (item.centre + (signs * item.half) @ item.rotation.T)[:, [0, vertical]]
            axes.fill(*corners[ConvexHull(corners).vertices].T, color="#c9b28f", alpha=0.7, lw=0)
        if vertical == 2:
            x_axis, z_axis = scene.floor_rotation[:, 0], scene.floor_rotation[:, 2]
            slope = -z_axis[0] / z_axis[2] if abs(x_axis[0]) > 1e-6 else 0.0
            axes.axline((0.0, 0.0), slope=slope, color="#777766", lw=1.0)

    def robot(self, caps: Floats, alpha: float = 1.0, keep: bool = False) -> None:
        """Draw the robot with caps (6, 3); the one drawn before disappears unless it was kept."""
        if not keep:
            for artist in self._moving:
                artist.remove()
            self._moving = []
        drawn: list[Any] = []
        for axes, vertical in ((self.top, 1), (self.side, 2)):
            for first, second in self.spec.tendons.driven.pairs:
                ends = caps[[first, second]]
                drawn += axes.plot(ends[:, 0], ends[:, vertical], color=CABLE_COLOUR, lw=0.8, alpha=alpha)
            for colour, (left, right) in zip(ROD_COLOURS, self.spec.bodies.rods, strict=True):
                ends = caps[[left, right]]
                drawn += axes.plot(ends[:, 0], ends[:, vertical], color=colour, lw=3, alpha=alpha, marker="o", ms=5)
        if not keep:
            self._moving = drawn

    def close(self) -> None:
        """Free the figure."""
        self.pyplot.close(self.figure)


def save_picture(path: Path, spec: ThreeBar, scene: Scene, caps: Floats, title: str, moments: int = 6) -> None:
    """The path of the centre of mass over caps (T, 6, 3), with the robot drawn at a few moments."""
    canvas = Canvas(spec, scene, caps.mean(axis=1), title)
    try:
        for index in np.linspace(0, len(caps) - 1, moments).astype(int):
            canvas.robot(caps[index], alpha=1.0 if index == len(caps) - 1 else 0.4, keep=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.figure.savefig(path)
    finally:
        canvas.close()


def save_film(path: Path, spec: ThreeBar, scene: Scene, caps: Floats, title: str) -> None:
    """An MP4 at 20 frames a second, real time, from caps (T, 6, 3) sampled at plant steps."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError("an MP4", "sim") from error
    canvas = Canvas(spec, scene, caps.mean(axis=1), title)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        width, height = canvas.figure.canvas.get_width_height()
        writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=round(1.0 / FRAME_S))
        writer.send(None)
        for frame in _every(caps, max(1, round(FRAME_S / spec.plant.step_s))):
            canvas.robot(frame)
            canvas.figure.canvas.draw()
            image = np.asarray(canvas.figure.canvas.buffer_rgba())[..., :3]
            writer.send(np.ascontiguousarray(image))
        writer.close()
    finally:
        canvas.close()


def _every(caps: Floats, stride: int) -> Iterator[Floats]:
    yield from caps[::stride]


def save(path: Path, spec: ThreeBar, scene: Scene, caps: Floats, title: str) -> None:
    """PNG or MP4 by the file's ending; raises UsageError for any other."""
    writers = {".png": save_picture, ".mp4": save_film}
    if path.suffix not in writers:
        raise UsageError(f"{path}: pictures are written as .png or .mp4")
    writers[path.suffix](path, spec, scene, caps, title)
