"""Pictures of a plan: the worm on its scene as PNG frames and an MP4, drawn with matplotlib off screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard.errors import MissingExtraError
from onboard.planning.contact.kinematics import segment
from onboard.planning.contact.motion import rebuild
from onboard.planning.contact.plan import Plan, State, Step
from onboard.planning.contact.scene import Scene, distances
from onboard.planning.contact.transition import anchors
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
BODY, PAD_ON, PAD_OFF, GUIDE = "#20639b", "#2e8b57", "#d1495b", "#888888"
FPS = 12


def draw_plan(
    spec: WormSpec,
    scene: Scene,
    plan: Plan,
    guide: Floats | None,
    folder: Path,
    *,
    movie: bool = True,
    told: Callable[[float], None] | None = None,
) -> list[Path]:
    """Writes step_000.png, ... for every step and plan.mp4 with the motions between; returns what was written."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingExtraError("drawing a plan", "view") from error
    folder.mkdir(parents=True, exist_ok=True)
    figure = plt.figure(figsize=(6.4, 4.8), dpi=100)
    axes = figure.add_subplot(projection="3d")
    written: list[Path] = []
    frames = open_movie(folder / "plan.mp4", figure) if movie else None
    states = plan.states
    total = max(len(plan.steps), 1)
    for index, state in enumerate(states):
        title = f"{plan.robot} on {plan.scene}: step {index} of {len(plan.steps)}, pads {state.mode}"
        if index:
            for share in (0.34, 0.67) if frames else ():
                between = in_between(states[index - 1], plan.steps[index - 1], share)
                _draw(axes, spec, scene, between, guide, plan.goal, title)
                figure.canvas.draw()
                frames.send(np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy())  # type: ignore[attr-defined]
        _draw(axes, spec, scene, state, guide, plan.goal, title)
        path = folder / f"step_{index:03d}.png"
        figure.savefig(path)
        written.append(path)
        if frames:
            figure.canvas.draw()
            frames.send(np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy())  # type: ignore[attr-defined]
        if told is not None:
            told(index / total)
    if frames:
        frames.close()
        written.append(folder / "plan.mp4")
    plt.close(figure)
    return written


def in_between(before: State, step: Step, share: float) -> State:
    """The worm during a step: `share` of the motion done, held by the pads that stay on."""
    holding = (before.attached & step.end.attached).astype(np.uint8)
    shape = step.path[round(share * (len(step.path) - 1))]
    moving = step.attached if step.attached >= 0 else step.released
    low, high = anchors(holding, moving)
    frames = np.empty_like(before.frames)
    rebuild(before.frames, np.ascontiguousarray(shape), low, high, frames)
    return State(frames, shape, holding)


def body_line(state: State, points: int = 8) -> Floats:
    """Points along the whole body, tail to head. Shape (n * points + 1, 3) [m]."""
    out = [state.frames[0, :, 3]]
    part = np.empty((3, 4))
    for i, shape in enumerate(state.shape):
        for k in range(1, points + 1):
            segment(shape[0] * k / points, shape[1], shape[2], part)
            out.append(state.frames[i, :, :3] @ part[:, 3] + state.frames[i, :, 3])
    return np.array(out)


def _draw(axes: Any, spec: WormSpec, scene: Scene, state: State, guide: Floats | None, goal: Floats, title: str) -> None:
    axes.cla()
    for x, y, z in surfaces(scene):
        axes.plot_surface(x, y, z, color="#c8c8c8", alpha=0.25, linewidth=0, antialiased=False, rstride=1, cstride=1)
    if guide is not None:
        axes.plot(*guide.T, color=GUIDE, linewidth=1, linestyle="--")
    axes.plot(*body_line(state).T, color=BODY, linewidth=5, solid_capstyle="round")
    pads = state.frames[:, :, 3] - spec.pads.offset_m * state.frames[:, :, 0]
    colours = [PAD_ON if a else PAD_OFF for a in state.attached]
    axes.scatter(*pads.T, c=colours, s=35, depthshade=False)
    axes.scatter(*goal, marker="*", s=120, color="#e09f3e", depthshade=False)
    axes.set_xlim(scene.low[0], scene.high[0])
    axes.set_ylim(scene.low[1], scene.high[1])
    axes.set_zlim(scene.low[2], scene.high[2])
    axes.set_box_aspect(scene.high - scene.low)
    axes.view_init(elev=18, azim=-65)
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=6)


def surfaces(scene: Scene) -> list[tuple[Floats, Floats, Floats]]:
    """Each solid's visible surface as a grid of points, cut to the scene's bounds (outside them: not a number)."""
    out = []
    for row in scene.solids:
        turn, centre = row[4:13].reshape(3, 3), row[1:4]
        if row[0] == 0.0:
            reach = np.linspace(-2.0, 2.0, 81)
            u, v = np.meshgrid(reach, reach)
            local = np.stack([u, v, np.zeros_like(u)], axis=-1)
        else:
            angle, height = np.meshgrid(np.linspace(0, 2 * np.pi, 73), np.linspace(-np.pi / 2, np.pi / 2, 37))
            direction = np.stack([np.cos(angle) * np.cos(height), np.sin(angle) * np.cos(height), np.sin(height)], axis=-1)
            size = row[13:16] if row[0] == 1.0 else np.array([row[13], row[13], row[14]])
            local = _onto(row, turn, centre, direction, size + row[16])
        world = local @ turn.T + centre
        inside = np.all((world >= scene.low - 1e-6) & (world <= scene.high + 1e-6), axis=-1)
        world = np.where(inside[..., None], world, np.nan)
        out.append((world[..., 0], world[..., 1], world[..., 2]))
    return out


def _onto(row: Floats, turn: Floats, centre: Floats, direction: Floats, size: Floats) -> Floats:
    """Points of a solid's surface along rays from its centre, by marching its own distance from outside."""
    alone = np.ascontiguousarray(row[None])
    alone.setflags(write=False)
    reach = np.full(direction.shape[:-1], float(np.linalg.norm(size)) + 0.05)
    for _ in range(40):
        points = (direction * reach[..., None]) @ turn.T + centre
        reach = reach - distances(alone, np.ascontiguousarray(points).reshape(-1, 3)).reshape(reach.shape)
    return direction * reach[..., None]


def open_movie(path: Path, figure: Any) -> Any:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError("writing a film", "sim") from error
    width, height = (int(v) for v in figure.get_size_inches() * figure.dpi)
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=FPS, macro_block_size=None, quality=6)
    writer.send(None)
    return writer
