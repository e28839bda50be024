"""Gradients of whole rollouts against central differences, away from contact switches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sim.vine import Options, Robot, Scene, Simulator, VineError, load_scene, paper_robot, wall
from sim.vine.gradient_check import Checked, contact_sets
from sim.vine.kernels import laws

FRAMES = 50


class Probe:
    """A random linear functional of all states of a driven rollout, its gradient and its differences."""

    def __init__(self, robot: Robot, options: Options, scene_name: str, heading: float, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.sim = Simulator(robot, [load_scene(scene_name)], options)
        self.state = self.sim.start(heading)
        self.controls = self.sim.controls(FRAMES, self.state)
        phase = np.arange(FRAMES)
        self.controls[:, 0, 0] *= 1 - 0.2 * np.cos(phase / 9)
        self.controls[:, 0, 1] *= 1 + 0.1 * np.sin(phase / 7)
        self.controls[:, 0, 2] += 0.002 * np.sin(phase / 8)
        self.controls[:, 0, 4] += 0.1 * np.sin(phase / 10)
        self.controls[:, 0, 5] = 1.0 * np.sin(phase / 11) if options.implicit_bending else 0.0
        self.run = self.sim.rollout(self.state, self.controls, tape=True)
        counts = np.arange(options.links)[None, None, :] < self.run.links[..., None]
        self.by_q = rng.normal(size=self.run.q.shape) * counts[..., None]
        self.by_v = 0.05 * rng.normal(size=self.run.v.shape) * counts[..., None]
        self.gradients = self.run.backward(self.by_q, self.by_v)

    def value(self) -> float:
        run = self.sim.rollout(self.state, self.controls)
        same = np.array_equal(run.links, self.run.links)
        if not same or not np.array_equal(run.report.substeps, self.run.report.substeps):
            return float("nan")  # crossed an insertion or a substep change: no derivative there
        return float(np.sum(self.by_q * run.q) + np.sum(self.by_v * run.v))

    def difference(self, array: np.ndarray, index: tuple, scale: float) -> float:
        """Central difference, the best agreeing pair of neighbouring steps (rounding below, curvature above)."""
        kept, found = array[index], []
        for power in (3e-4, 1e-4, 3e-5, 1e-5, 3e-6):
            step = scale * power
            array[index] = kept + step
            up = self.value()
            array[index] = kept - step
            found.append((up - self.value()) / (2 * step))
        array[index] = kept
        pairs = [abs(a - b) for a, b in itertools.pairwise(found)]
        return found[int(np.nanargmin(pairs)) + 1] if np.any(np.isfinite(pairs)) else float("nan")

    def errors(self, parameters: list[int]) -> list[float]:
        checks = [(self.sim.parameters, (0, k), self.sim.parameters[0, k], self.gradients.parameters) for k in parameters]
        scales = (0.15, 1e4, 0.05, 0.05, 0.5, 3.0)
        for frame in (2, FRAMES // 2, FRAMES - 3):
            checks += [(self.controls, (frame, 0, k), scales[k], self.gradients.controls) for k in range(6)]
        for link in range(2):
            checks += [(self.state.q, (0, link, k), (0.005, 0.005, 0.3)[k], self.gradients.q) for k in range(3)]
            checks += [(self.state.v, (0, link, k), (0.5, 0.5, 30.0)[k], self.gradients.v) for k in range(3)]
        out = []
        largest = max(abs(g[i]) * s for _, i, s, g in checks)
        for array, index, scale, gradient in checks:
            if abs(gradient[index]) * scale < 1e-7 * largest:
                continue  # differences cannot see it
            found = self.difference(array, index, scale)
            if np.isfinite(found):
                out.append(abs(found - gradient[index]) / abs(gradient[index]))
        return out


BASIC = [laws.MASS, laws.INERTIA, laws.STIFFNESS, laws.DAMPING, laws.DRAG, laws.RADIUS]
TUBE = [laws.MASS, laws.DAMPING, laws.RADIUS, laws.STRAIN_SCALE, *range(laws.STRAIN, laws.NETWORK_AT)]
WEIGHTS = [laws.DAMPING, *range(laws.NETWORK_AT, laws.PARAMETERS)]
NETWORK = tuple(np.concatenate([np.linspace(0.5, 2.0, 10), np.linspace(-0.4, 0.4, 10), np.linspace(0.002, 0.02, 10)]))


@pytest.mark.parametrize(
    ("robot", "options", "scene", "heading", "parameters"),
    [
        (Robot(), Options(links=14), "free", 0.1, BASIC),
        (Robot(), Options(links=14), "clutter", -0.9, BASIC),
        (Robot(friction=0.3), Options(links=14), "clutter", -0.95, [*BASIC, laws.FRICTION]),
        (Robot(law="wrinkling"), Options(links=14), "free", 0.1, TUBE),
        (Robot(law="network", network=NETWORK), Options(links=14), "free", 0.1, WEIGHTS),
        (paper_robot(), Options.reference(links=14), "free", 0.1, BASIC),
    ],
    ids=["linear", "contact", "friction", "wrinkling", "network", "reference"],
)
def test_rollout_gradients_equal_differences(robot, options, scene, heading, parameters) -> None:
    errors = Probe(robot, options, scene, heading).errors(parameters)
    assert len(errors) >= 20
    assert np.median(errors) <= 1e-6
    assert np.percentile(errors, 90) <= 1e-4


def test_frames_with_substeps_are_reversed_too() -> None:
    options = Options(links=14, joint_tolerance_m=2e-7)
    probe = Probe(Robot(), options, "free", 0.1)
    assert probe.run.report.substeps.max() >= 2
    errors = probe.errors(BASIC)
    assert np.median(errors) <= 1e-6


def test_checkpointed_gradients_equal_taped_ones() -> None:
    probe = Probe(Robot(), Options(links=14), "clutter", -0.9)
    run = probe.sim.rollout(probe.state, probe.controls, checkpoint=7)
    found = run.backward(probe.by_q, probe.by_v)
    for name in ("q", "v", "base", "parameters", "controls"):
        np.testing.assert_allclose(getattr(found, name), getattr(probe.gradients, name), rtol=1e-9, atol=1e-12, err_msg=name)


def test_backward_needs_a_tape() -> None:
    sim = Simulator(Robot(), [load_scene("free")], Options(links=14))
    state = sim.start(0.0)
    run = sim.rollout(state, sim.controls(3, state))
    with pytest.raises(VineError, match="tape=True"):
        run.backward(np.zeros_like(run.q))


def test_a_difference_across_a_contact_switch_is_told_from_a_wrong_gradient() -> None:
    probe = Checked(seed=2, batch=40)
    errors, at_switch = probe.check(probe.controls, (30, slice(None), 4), 0.5, probe.found.controls[30, :, 4])
    assert at_switch.any() and errors[at_switch].max() > 0.1  # a contact opens within this step: no derivative to compare
    assert errors[~at_switch].max() <= 1e-4


def test_contacts_that_push_are_seen_apart_from_those_that_are_only_near() -> None:
    ahead = wall((0.06, -0.1), (0.06, 0.1))
    sim = Simulator(Robot(), [Scene("ahead", (ahead,))], Options(links=14))
    state = sim.start(0.0)
    sets = contact_sets(sim.rollout(state, sim.controls(40, state), tape=True))
    near, pushing = sets[:, 0, 0] > 0, sets[:, 0, 1:].any(axis=1)
    assert not near[0] and pushing[-1]
    assert np.any(near & ~pushing)
