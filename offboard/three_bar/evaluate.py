"""One idea: how good a model is for planning: its errors over two seconds, and whether it ranks plans like the plant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from offboard.three_bar.held_out import SETS, STEPS, Start, Window, make_set, plans
from offboard.three_bar.windows import hermite
from onboard.errors import UsageError
from onboard.messages import Floats
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from onboard.planning.sampling import Bounds, Coloured, Knots
from sim.three_bar.pose import heading, rod_axes
from sim.three_bar.robot_file import ThreeBar, load_robot, physics_hash
from sim.three_bar.rollouts import PlantRollouts

NAMES = ("contact", "flat", "edges_only", "distances_only", "plain")
CANDIDATES = 64
GOAL_U = 10.0


def load_models(folder: Path, names: tuple[str, ...]) -> dict[str, StrutDynamics]:
    """Those of `names` that lie in `folder`. Raises UsageError when there is none, ModelError for a damaged one."""
    spec = load_robot()
    found = {}
    for name in names:
        path = folder / f"{name}.json"
        if path.is_file():
            found[name] = StrutDynamics(load_model_file(path, spec.robot.name, physics_hash()))
    if not found:
        raise UsageError(f"no model of {', '.join(names)} in {folder}: train and export one first")
    return found


def predict(model: StrutDynamics, window: Window) -> Floats:
    """Caps (200, 6, 3) [u] at every step, chunk ends joined by cubics."""
    states = model.rollout(window.state, window.controls[None], window.world)[0]
    start = np.stack([window.state[:18].reshape(6, 3), window.state[18:36].reshape(6, 3)])
    caps, velocity = states[:, :18].reshape(-1, 6, 3), states[:, 18:36].reshape(-1, 6, 3)
    return hermite(start, caps, velocity, model.manifest.chunk_steps, model.manifest.step_s)


def window_errors(predicted: Floats, true: Floats, start: Floats) -> tuple[float, float, float, float]:
    """Mean squared CoM error over the steps [u^2], mean rod angle [deg], CoM error and displacement at the end [u]."""
    off = predicted.mean(axis=1) - true.mean(axis=1)
    cosine = np.clip((rod_axes(predicted) * rod_axes(true)).sum(axis=-1), -1.0, 1.0)
    moved = np.linalg.norm(true[-1].mean(axis=0) - start.mean(axis=0))
    return (
        float((off**2).sum(axis=1).mean()),
        float(np.degrees(np.arccos(cosine)).mean()),
        float(np.linalg.norm(off[-1])),
        float(moved),
    )


def summary(rows: list[tuple[float, float, float, float]], rod_length_u: float) -> dict[str, float]:
    """e_pos, e_rot_deg (paper section V-A) and the CoM error at two seconds as a share of the displacement."""
    values = np.array(rows)
    return {
        "e_pos": float(values[:, 0].mean() / rod_length_u),
        "e_rot_deg": float(values[:, 1].mean()),
        "com_error_pct": float(100.0 * values[:, 2].mean() / values[:, 3].mean()),
        "windows": len(rows),
    }


def candidate_plans(rng: np.random.Generator, count: int) -> Floats:
    """Command sequences (count, 200, 6) as MPPI draws them: 0.5 s blocks, coloured, saturated."""
    box = Bounds(-np.ones(6), np.ones(6))
    knots = Coloured(1.2, 0.7, around_plan=False).draw(rng, count, np.zeros((4, 6)), box)
    return Knots(STEPS, 4).expand(box.clip(knots))


def progress_of(caps: Floats, start: Floats, goal: Floats) -> Floats:
    """How much nearer to `goal` (2,) the centre of mass of caps (M, 6, 3) is than it was at `start` (6, 3) [u]."""
    before = np.linalg.norm(goal - start.mean(axis=0)[:2])
    return np.asarray(before - np.linalg.norm(goal - caps.mean(axis=1)[:, :2], axis=-1))


class Ranking:
    """Candidate plans from a start with what the plant makes of them; computed once for all models."""

    def __init__(self, start: Start, seed: int, candidates: int) -> None:
        rng = np.random.default_rng([seed, 77])
        self.state, self.world = start.state, start.plant.world
        self.caps = self.state[:18].reshape(6, 3)
        ahead = float(heading(self.caps)) + rng.normal(0.0, 0.5) + np.pi * rng.integers(2)
        self.goal = self.caps.mean(axis=0)[:2] + GOAL_U * np.array([np.cos(ahead), np.sin(ahead)])
        self.plans = candidate_plans(rng, candidates)
        ends = PlantRollouts(start.plant).caps_over(start.snapshot, self.plans)[:, -1]
        self.true = progress_of(ends, self.caps, self.goal)

    def compare(self, model: StrutDynamics) -> tuple[float, float, float]:
        """(Spearman correlation, true progress of the plan the model picks, true progress of the best plan)."""
        ends = model.rollout(self.state, self.plans, self.world)[:, -1, :18].reshape(-1, 6, 3)
        guess = progress_of(ends, self.caps, self.goal)
        return float(spearmanr(guess, self.true).statistic), float(self.true[np.argmax(guess)]), float(self.true.max())


def evaluate(
    models: dict[str, StrutDynamics], quick: bool, report: Callable[[int, int], None], sets: tuple[str, ...] = SETS
) -> dict[str, Any]:
    """The table: models.<name>.<set>.{e_pos, e_rot_deg, com_error_pct, rank_correlation, regret_pct}, also by ground."""
    spec: ThreeBar = load_robot()
    length = spec.bodies.cap_distance_u + 2.0 * spec.bodies.cap_radius_u
    table: dict[str, Any] = {name: {"parameters": model.manifest.parameters} for name, model in models.items()}
    chosen = {name: plan for name, plan in plans(quick).items() if name in sets}
    total, done = sum(plan.episodes for plan in chosen.values()), 0

    def step() -> None:
        nonlocal done
        done += 1
        report(done, total)

    for set_name, plan in chosen.items():
        windows, starts = make_set(spec, set_name, plan, 4 if quick else 24, step)
        rankings = [Ranking(start, i, CANDIDATES) for i, start in enumerate(starts)]
        for name, model in models.items():
            rows = [window_errors(predict(model, w), w.caps_u, w.state[:18].reshape(6, 3)) for w in windows]
            entry: dict[str, Any] = summary(rows, length) if rows else {"windows": 0}
            if rankings:
                compared = np.array([ranking.compare(model) for ranking in rankings])
                entry["rank_correlation"] = float(compared[:, 0].mean())
                entry["regret_pct"] = float(100.0 * (1.0 - compared[:, 1].sum() / compared[:, 2].sum()))
                entry["starts"] = len(rankings)
            entry["by_terrain"] = {
                ground: summary([r for r, w in zip(rows, windows, strict=True) if w.terrain == ground], length)
                for ground in sorted({w.terrain for w in windows})
            }
            table[name][set_name] = entry
    return {"models": table, "quick": quick, "simulation": True}


def save_chart(path: Path, result: dict[str, Any]) -> None:
    """Bars of e_pos and e_rot by model and test set, as in the paper's figure 7."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = result["models"]
    figure, panels = pyplot.subplots(1, 2, figsize=(10.0, 4.0), dpi=100, layout="constrained")
    try:
        for axes, key, label in zip(panels, ("e_pos", "e_rot_deg"), ("e_pos [u]", "e_rot [deg]"), strict=True):
            for shift, set_name in enumerate(SETS):
                heights = [models[name].get(set_name, {}).get(key, 0.0) for name in models]
                axes.bar(np.arange(len(models)) + 0.27 * (shift - 1), heights, 0.25, label=set_name)
            axes.set_xticks(range(len(models)), list(models), rotation=20)
            axes.set_ylabel(label + " over 2 s")
        panels[0].legend()
        figure.suptitle("held-out windows, simulation", fontsize=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    finally:
        pyplot.close(figure)
