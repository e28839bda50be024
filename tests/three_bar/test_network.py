"""The learned dynamics have the robot's symmetries, keep its rods rigid and see what they are told to see."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from offboard.three_bar.features import build_graph  # noqa: E402
from offboard.three_bar.network import Dynamics, NetworkSettings, parameters  # noqa: E402
from offboard.three_bar.train import geometry_of  # noqa: E402
from sim.three_bar.course import load_course, scene_of  # noqa: E402
from sim.three_bar.robot_file import ThreeBar  # noqa: E402

SETTINGS = dict(kind="graph", latent=16, message_steps=2, chunk_steps=20, distances=True, contact_edges=True, flat_ground=False)


def network(spec: ThreeBar, **changes: object) -> Dynamics:
    torch.manual_seed(0)
    model = Dynamics(NetworkSettings(**{**SETTINGS, **changes}), geometry_of(spec)).double()
    with torch.no_grad():  # an untrained decoder is nearly silent: let it speak
        last = model.core.decode[-1] if changes.get("kind", "graph") == "graph" else model.core.body[-1]
        last.weight.mul_(10.0)
    return model


def states(spec: ThreeBar, samples: int = 5) -> tuple[torch.Tensor, ...]:
    rng = torch.Generator().manual_seed(1)
    caps = torch.tensor(spec.start_caps).unsqueeze(1) + 0.05 * torch.randn(6, samples, 3, generator=rng, dtype=torch.float64)
    velocity = 0.5 * torch.randn(6, samples, 3, generator=rng, dtype=torch.float64)
    rest = 1.5 + 0.3 * torch.randn(7, 6, samples, generator=rng, dtype=torch.float64)
    world = torch.tensor(scene_of(load_course("narrow")).world(6))[None].repeat(samples, 1, 1)
    return caps, velocity, rest, world


def turned(angle: float) -> torch.Tensor:
    c, s = np.cos(angle), np.sin(angle)
    return torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize("kind", ["graph", "plain"])
def test_turning_and_moving_robot_and_world_turns_and_moves_the_prediction(spec: ThreeBar, kind: str) -> None:
    model = network(spec, kind=kind)
    caps, velocity, rest, world = states(spec)
    at, _ = model.rollout(caps, velocity, rest, world)
    r, shift = turned(0.8), torch.tensor([3.0, -2.0, 0.4])
    moved = world.clone()
    moved[..., 0:3] = world[..., 0:3] @ r.T + shift
    moved[..., 6:15] = (r @ world[..., 6:15].unflatten(-1, (3, 3))).flatten(-2)
    got, _ = model.rollout(caps @ r.T + shift, velocity @ r.T, rest, moved)
    assert torch.allclose(got, at @ r.T + shift, atol=1e-7)
    assert (at[-1] - caps).abs().max() > 0.05, "the network says something"


def test_relabelling_the_rods_relabels_the_prediction(spec: ThreeBar) -> None:
    """The three permutations of caps that map rods, driven cables with their direction, and long cables onto themselves."""
    model = network(spec)
    caps, velocity, rest, world = states(spec)
    at, _ = model.rollout(caps, velocity, rest, world)
    driven, long, rods = spec.tendons.driven.pairs, spec.tendons.long.pairs, spec.bodies.rods
    found = [
        p
        for p in itertools.permutations(range(6))
        if {(p[a], p[b]) for a, b in driven} == set(driven)
        and {frozenset((p[a], p[b])) for a, b in long} == {frozenset(pair) for pair in long}
        and {frozenset((p[a], p[b])) for a, b in rods} == {frozenset(pair) for pair in rods}
    ]
    assert len(found) == 3
    for perm in found:
        order = [driven.index((perm[a], perm[b])) for a, b in driven]
        got, _ = model.rollout(caps[list(perm)], velocity[list(perm)], rest[:, order], world)
        assert torch.allclose(got, at[:, list(perm)], atol=1e-7)


def test_rods_stay_rigid_and_ends_do_not_part(spec: ThreeBar) -> None:
    caps, velocity = network(spec).rollout(*states(spec))
    axis = caps[:, 1::2] - caps[:, 0::2]
    assert torch.allclose(axis.norm(dim=-1), torch.tensor(2.95, dtype=torch.float64), atol=1e-6)
    opening = ((velocity[:, 1::2] - velocity[:, 0::2]) * axis).sum(dim=-1)
    assert opening.abs().max() < 1e-5


def test_messages_into_one_cap_are_summed(spec: ThreeBar) -> None:
    """The incidence product against a plain loop over edges."""
    graph = build_graph(spec.tendons.driven.pairs, spec.tendons.long.pairs)
    assert len(graph.senders) == 30 and len({*zip(graph.senders, graph.receivers, strict=True)}) == 30
    assert graph.kind == (0,) * 12 + (1,) * 6 + (2,) * 6 + (3,) * 6
    core = network(spec).core
    messages = torch.randn(30, 4, dtype=torch.float64)
    total = torch.zeros(6, 4, dtype=torch.float64)
    for edge, receiver in enumerate(graph.receivers):
        total[receiver] += messages[edge]
    assert torch.allclose(core.incidence @ messages, total)


def test_each_variant_sees_what_its_name_says(spec: ThreeBar) -> None:
    caps, velocity, rest, world = states(spec)
    com = caps.mean(dim=0)
    wall = torch.zeros(5, 1, 16, dtype=torch.float64)
    wall[:, 0, 3:6], wall[:, 0, 6:15], wall[:, 0, 15] = torch.tensor([0.5, 9.0, 9.0]), torch.eye(3).flatten(), 1.8

    def change(model: Dynamics, gap_u: float) -> float:
        """How much a wall at that gap from the outermost cap changes the prediction of one chunk."""
        near = wall.clone()
        near[:, 0, 0] = caps[..., 0].max(dim=0).values + 0.175 + gap_u + 0.5
        with_wall = torch.cat([world[:, :5], near], dim=1)
        without = torch.cat([world[:, :5], torch.zeros_like(near)], dim=1)
        return (model(caps, velocity, rest[:3], with_wall)[0] - model(caps, velocity, rest[:3], without)[0]).abs().max().item()

    assert com.shape == (5, 3)
    both, edges = network(spec), network(spec, distances=False)
    distances, flat = network(spec, contact_edges=False), network(spec, flat_ground=True)
    for model, at_01, at_04 in ((both, True, True), (edges, True, False), (distances, True, True), (flat, False, False)):
        assert (change(model, 0.1) > 1e-9) == at_01
        assert (change(model, 0.4) > 1e-9) == at_04
        assert change(model, 2.0) == 0.0


def test_rods_that_come_close_stay_finite(spec: ThreeBar) -> None:
    """Gradients and features are finite, also for rods that are parallel and close."""
    for changes in (dict(distances=False), dict(contact_edges=False)):
        model = network(spec, **changes)
        caps, velocity, rest, world = states(spec, 1)
        caps = caps.detach().requires_grad_(True)
        moved, _ = model(caps, velocity, rest[:3], world[:1])
        (gradient,) = torch.autograd.grad(moved.square().sum(), caps)
        assert torch.isfinite(gradient).all()
    crossing = torch.tensor(spec.start_caps).unsqueeze(1).clone()
    crossing[2:4] = crossing[0:2] + torch.tensor([0.0, 0.0, 0.3])
    features = network(spec).maker(crossing, torch.zeros_like(crossing), rest[:3, :, :1], world[:1])
    assert torch.isfinite(features.edge).all() and torch.isfinite(features.node).all()


def test_upright_rods_give_finite_predictions(spec: ThreeBar) -> None:
    caps, velocity, rest, world = states(spec, 1)
    middle = caps.reshape(3, 2, 1, 3).mean(dim=1, keepdim=True)
    upright = (middle + torch.tensor([[[[0.0, 0, -1.475]]], [[[0.0, 0, 1.475]]]]).reshape(1, 2, 1, 3)).reshape(6, 1, 3)
    got, speed = network(spec).rollout(upright, velocity, rest, world[:1])
    assert torch.isfinite(got).all() and torch.isfinite(speed).all()


def test_sizes_are_what_the_report_says(spec: ThreeBar) -> None:
    full = network(spec, latent=64)
    assert parameters(full) == sum(p.numel() for p in full.parameters())
    assert 50_000 < parameters(full) < 150_000
