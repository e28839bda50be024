"""One idea: a trial seen from above: course, path, robot, and what the planner believes it costs to go from anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onboard.messages import Floats
from onboard.planning.astar_navigator import AstarNavigator
from onboard.planning.hybrid import WavefrontNavigator
from onboard.planning.navigator import Navigator
from onboard.planning.terrain import Terrain
from onboard.planning.value import ValueField
from onboard.planning.value_navigator import ValueNavigator
from sim.three_bar.course import Course, Scene
from sim.three_bar.robot_file import ThreeBar
from sim.three_bar.view import Canvas


def cost_map(navigator: Navigator, terrain: Terrain) -> tuple[Floats, Floats, Floats, str]:
    """Cells' centres x (nx,), y (ny,), cost to go (nx, ny), its unit: seconds at the best heading, or the wavefront's cells."""
    if isinstance(navigator, ValueNavigator) and isinstance(navigator.field, ValueField):
        field = navigator.field
        value = np.where(field.free, field.value.min(axis=2), np.nan)
        return field.centres[:, 0, 0], field.centres[0, :, 1], value, "s"
    x = terrain.origin[0] + (np.arange(terrain.shape[0]) + 0.5) * terrain.cell
    y = terrain.origin[1] + (np.arange(terrain.shape[1]) + 0.5) * terrain.cell
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    if isinstance(navigator, WavefrontNavigator) and navigator.front is not None:
        cost = navigator.front.cost(points)
        return x, y, np.where(np.isfinite(cost), cost, np.nan), "cells"
    if isinstance(navigator, ValueNavigator):
        return x, y, navigator.field.cost(np.concatenate([points, np.zeros((*points.shape[:2], 1))], axis=-1)), "s"
    if isinstance(navigator, AstarNavigator) and navigator.heuristic is not None:
        coarse = points[::5, ::5]
        poses = np.concatenate([coarse, np.zeros((*coarse.shape[:2], 1))], axis=-1)
        cost = navigator.heuristic(poses.reshape(-1, 3)).reshape(coarse.shape[:2])
        return x[::5], y[::5], np.where(np.isfinite(cost), cost, np.nan), "u"
    return x, y, np.full(terrain.shape, np.nan), ""


def save_top_down(
    path: Path, spec: ThreeBar, scene: Scene, course: Course, terrain: Terrain, navigator: Navigator, caps: Floats, title: str
) -> None:
    """Write the PNG for caps (T, 6, 3) over the trial; lengths in u, the cost to go as contour lines."""
    canvas = Canvas(spec, scene, caps.mean(axis=1), title)
    try:
        x, y, cost, unit = cost_map(navigator, terrain)
        canvas.top.set_xlim(*course.bounds.x_u)
        canvas.top.set_ylim(*course.bounds.y_u)
        if np.isfinite(cost).any():
            shown = np.minimum(cost, np.nanquantile(cost, 0.98))
            lines = canvas.top.contourf(x, y, shown.T, levels=20, cmap="viridis_r", alpha=0.6, zorder=0)
            canvas.figure.colorbar(lines, ax=canvas.top, label=f"cost to go [{unit}]")
        canvas.top.plot(course.goal.x_u, course.goal.y_u, marker="*", ms=14, color="#c02020", mec="white")
        canvas.top.plot(*caps[0].mean(axis=0)[:2], marker="o", ms=7, color="white", mec="black")
        for index in np.linspace(0, len(caps) - 1, 8).astype(int):
            canvas.robot(caps[index], alpha=1.0 if index == len(caps) - 1 else 0.5, keep=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.figure.savefig(path)
    finally:
        canvas.close()
