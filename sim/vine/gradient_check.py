"""Gradients of whole rollouts against central differences, and which of them lie at a contact switch.

A check lies at a switch when some frame's contact list or the set of contacts that push differs between the rollouts a step
below, at and a step above: a rollout's derivative is one-sided there, and a central difference is no measure of it. The
criterion looks at the contacts alone, never at the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.vine.kernels import laws
from sim.vine.robot import Robot
from sim.vine.rollout import Rollout
from sim.vine.scene_file import load_scene
from sim.vine.simulator import Simulator
from sim.vine.state import Array, Options

FRAMES = 60
LINKS = 16
STEPS = (3e-4, 1e-4, 3e-5, 1e-5, 3e-6)  # of a value's scale
SCALES = {0: 0.15, 1: 1e4, 2: 0.05, 3: 0.05, 4: 0.5, 5: 3.0}  # of the controls
PARAMETERS = (laws.MASS, laws.INERTIA, laws.STIFFNESS, laws.DAMPING, laws.DRAG, laws.RADIUS)
SMALLEST = 1e-9  # gradients below it, times the value's scale, are not compared


def contact_sets(run: Rollout) -> Any:
    """Per frame and robot the contacts of a taped rollout: how many, and which of them push (T, B, 1 + rows).

    A frame that took substeps keeps no contacts; its count is -1.
    """
    assert run.tape is not None
    pushes, count = run.tape[1][..., 0], run.tape[2]
    listed = np.arange(pushes.shape[2]) < count[..., None]
    return np.concatenate([count[..., None], listed & (pushes > 0.0)], axis=2)


class Checked:
    """A random linear function of all states of a driven batch, its gradients, and its differences."""

    def __init__(self, seed: int, batch: int) -> None:
        scene = load_scene("clutter")
        self.sim = Simulator(Robot(), [scene] * batch, Options(links=LINKS))
        rng = np.random.default_rng(seed)
        self.state = self.sim.start(scene.heading_rad + scene.spread_rad * rng.uniform(-1, 1, batch))
        self.controls = self.sim.controls(FRAMES, self.state)
        self.controls[:, :, 4] += 0.1 * np.sin(np.arange(FRAMES)[:, None] / 10 + rng.uniform(0, 6, batch))
        self.run = self.sim.rollout(self.state, self.controls, tape=True)
        self.contacts = contact_sets(self.run)
        counting = (np.arange(LINKS) < self.run.links[..., None])[..., None]
        self.by_q = rng.normal(size=self.run.q.shape) * counting
        self.found = self.run.backward(self.by_q)

    def value(self) -> tuple[Array, Any, Any]:
        """(values, whether links and substeps are the same in every frame, whether the contacts are) of each robot (B,)."""
        run = self.sim.rollout(self.state, self.controls, tape=True)
        same = np.all((run.links == self.run.links) & (run.report.substeps == self.run.report.substeps), axis=0)
        touching = np.all(contact_sets(run) == self.contacts, axis=(0, 2))
        return np.einsum("tbik,tbik->b", self.by_q, run.q), same, touching

    def check(self, array: Array, index: Any, scale: Any, gradient: Array) -> tuple[Array, Any]:
        """(relative errors, whether at a contact switch) of the robots whose differences settle.

        The difference is the one of two neighbouring steps that agree best: rounding spoils small ones, curvature large ones.
        """
        at, batch = array[index].copy(), np.arange(self.sim.batch)
        tries, away = [], []
        for power in STEPS:
            array[index] = at + power * scale
            up, good_up, touching_up = self.value()
            array[index] = at - power * scale
            down, good_down, touching_down = self.value()
            tries.append(np.where(good_up & good_down, (up - down) / (2 * power * scale), np.nan))
            away.append(touching_up & touching_down)
        array[index] = at
        steps = np.array(tries)
        spread = np.abs(np.diff(steps, axis=0))
        spread[np.isnan(spread)] = np.inf
        used = spread.argmin(axis=0) + 1
        settled = np.isfinite(spread.min(axis=0)) & (np.abs(gradient) * scale > SMALLEST)
        error = np.abs(steps[used, batch] - gradient) / np.maximum(np.abs(gradient), 1e-300)
        return error[settled], ~np.array(away)[used, batch][settled]


def gradients(seed: int, quick: bool) -> dict[str, Any]:
    """Errors of gradients by parameters and controls in the clutter scene, 60 frames.

    `gradient_error`, `gradient_error_p99`: away from contact switches; `gradient_error_p99_all`: with the checks at switches,
    of which there are `gradient_at_switch`. `gradient_checks` counts all.
    """
    probe = Checked(seed, 8 if quick else 40)
    kept = np.abs(probe.sim.parameters)
    targets: list[tuple[Array, Any, Any, Array]] = [
        (probe.sim.parameters, (slice(None), k), kept[:, k], probe.found.parameters[:, k]) for k in PARAMETERS
    ]
    for frame in (5, 30, 55):
        targets += [
            (probe.controls, (frame, slice(None), k), scale, probe.found.controls[frame, :, k]) for k, scale in SCALES.items()
        ]
    parts = [probe.check(*target) for target in targets]
    errors = np.concatenate([part[0] for part in parts])
    at_switch = np.concatenate([part[1] for part in parts])
    away = errors[~at_switch]
    return {
        "gradient_error": float(np.median(away)),
        "gradient_error_p99": float(np.percentile(away, 99)),
        "gradient_error_p99_all": float(np.percentile(errors, 99)),
        "gradient_checks": len(errors),
        "gradient_at_switch": int(at_switch.sum()),
    }
