"""One idea: the learned dynamics. Encode, pass messages, decode; a chunk of steps at a time, then back onto rigid rods.

Paper section IV-D, made small: six caps, 30 directed edges, contact edges to nearby objects, no persistent edge
latents. The second weight of an edge network commutes with the sum over edges, so it acts once a node. Rest lengths are
integrated exactly from the motor law outside and enter as features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from msgspec import Meta
from torch import Tensor, nn

from offboard.three_bar.features import CONTACT_WIDTH, EDGE_WIDTH, FeatureMaker, Features, Frame, Graph, rod_axes
from onboard.config import Section

OUTPUTS = 6  # displacement and end velocity


class NetworkSettings(Section, frozen=True):
    """[network]: what is built."""

    kind: Literal["graph", "plain"]
    latent: Annotated[int, Meta(ge=4, le=1024)]
    message_steps: Annotated[int, Meta(ge=1, le=8)]
    chunk_steps: Annotated[int, Meta(ge=2, le=100)]
    distances: bool
    contact_edges: bool
    flat_ground: bool


@dataclass(frozen=True, slots=True)
class RobotGeometry:
    """What the network has to know of the robot: rod length, cap radius, cable offset [u], plant step [s], the graph."""

    rod_u: float
    cap_radius_u: float
    cable_offset_u: float
    step_s: float
    graph: Graph


class GraphCore(nn.Module):
    """Features -> displacement and end velocity a cap, normalised, in the yaw frame (6, M, 6)."""

    def __init__(self, settings: NetworkSettings, maker: FeatureMaker) -> None:
        super().__init__()
        d, graph = settings.latent, maker.graph
        self.steps, self.contact_edges = settings.message_steps, settings.contact_edges
        self.encode = nn.Sequential(nn.Linear(maker.node_width, d), nn.ReLU(), nn.Linear(d, d), nn.LayerNorm(d))
        self.sending = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(self.steps))
        self.receiving = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(self.steps))
        self.edge = nn.ModuleList(nn.Linear(EDGE_WIDTH, d) for _ in range(self.steps))
        self.gathered = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(self.steps))
        self.own = nn.ModuleList(nn.Linear(d, d) for _ in range(self.steps))
        self.update = nn.ModuleList(nn.Linear(d, d) for _ in range(self.steps))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(self.steps))
        if settings.contact_edges:
            self.touch_node = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(self.steps))
            self.touch = nn.ModuleList(nn.Linear(CONTACT_WIDTH, d) for _ in range(self.steps))
            self.touched = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(self.steps))
        self.decode = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, OUTPUTS))
        with torch.no_grad():
            self.decode[-1].weight.mul_(0.1)
        incidence = torch.zeros(6, len(graph.receivers))
        for edge, node in enumerate(graph.receivers):
            incidence[node, edge] = 1.0
        self.register_buffer("incidence", incidence, persistent=False)
        ends = torch.zeros(len(graph.receivers), 12)
        for edge, (sender, receiver) in enumerate(zip(graph.senders, graph.receivers, strict=True)):
            ends[edge, sender] = ends[edge, 6 + receiver] = 1.0
        self.register_buffer("ends_of_edge", ends, persistent=False)

    def forward(self, f: Features) -> Tensor:
        """(6, M, 6) from features."""
        h = self.encode(f.node)
        for k in range(self.steps):
            ends = torch.cat([self.sending[k](h), self.receiving[k](h)], dim=0)
            message = torch.matmul(self.ends_of_edge, ends.flatten(1)).view(-1, *h.shape[1:])
            message = torch.relu(message + self.edge[k](f.edge))
            total = torch.matmul(self.incidence, message.flatten(1)).view(h.shape)
            new = self.own[k](h) + self.gathered[k](total)
            if self.contact_edges:
                touch = torch.relu(self.touch_node[k](h).unsqueeze(2) + self.touch[k](f.contact)) * f.contact_gate
                new = new + self.touched[k](touch.sum(dim=2))
            h = self.norm[k](h + self.update[k](torch.relu(new)))
        return self.decode(h)


class PlainCore(nn.Module):
    """The same features, flattened, through a plain network: a sanity baseline of about equal cost.

    It has no symmetry built in.
    """

    def __init__(self, settings: NetworkSettings, maker: FeatureMaker) -> None:
        super().__init__()
        d = settings.latent
        inputs = 6 * maker.node_width + 12 * EDGE_WIDTH
        layers: list[nn.Module] = [nn.Linear(inputs, d), nn.ReLU()]
        for _ in range(settings.message_steps):
            layers += [nn.Linear(d, d), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(d, 6 * OUTPUTS))
        with torch.no_grad():
            self.body[-1].weight.mul_(0.1)

    def forward(self, f: Features) -> Tensor:
        """(6, M, 6) from features; of the edges it takes the driven cables, one direction each."""
        samples = f.node.shape[1]
        edges = f.edge[:24:2]
        flat = torch.cat([f.node.transpose(0, 1).flatten(1), edges.transpose(0, 1).flatten(1)], dim=-1)
        return self.body(flat).view(samples, 6, OUTPUTS).transpose(0, 1)


class Dynamics(nn.Module):
    """One chunk of steps: state, rest lengths, world -> state. All lengths in u, times in s."""

    def __init__(self, settings: NetworkSettings, geometry: RobotGeometry) -> None:
        super().__init__()
        self.settings, self.geometry = settings, geometry
        self.maker = FeatureMaker(
            geometry.graph, geometry.cap_radius_u, geometry.cable_offset_u, settings.distances, settings.contact_edges
        )
        core = GraphCore if settings.kind == "graph" else PlainCore
        self.core = core(settings, self.maker)
        # typical displacement [u] and change of velocity [u/s] over a chunk; set from data by the trainer
        self.register_buffer("scale", torch.tensor([0.1] * 3 + [0.5] * 3))
        level = torch.zeros(1, 2, 16)
        level[0, 0, :6] = torch.tensor([0.0, 0.0, -5.0, 60.0, 60.0, 5.0])
        level[0, 0, 6:15] = torch.eye(3).flatten()
        level[0, 0, 15] = 1.8
        self.register_buffer("level", level, persistent=False)

    def forward(self, caps: Tensor, velocity: Tensor, rest: Tensor, world: Tensor) -> tuple[Tensor, Tensor]:
        """Caps and velocities (6, M, 3) one chunk later.

        rest (3, 6, M): at the chunk's start, middle and end; world (M or 1, K, 16).
        """
        f = self.maker(caps, velocity, rest, self.level if self.settings.flat_ground else world)
        out = self.core(f) * self.scale
        moved = caps + f.frame.out_of(out[..., :3])
        speed = velocity + f.frame.out_of(out[..., 3:])
        return self._rigid(moved, speed)

    def _rigid(self, caps: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest caps and velocities that keep every rod's length: about its middle, along its axis."""
        axis = rod_axes(caps)
        middle = 0.5 * (caps[0::2] + caps[1::2])
        reach = 0.5 * self.geometry.rod_u * axis
        stretch = (velocity[1::2] - velocity[0::2]).mul(axis).sum(dim=-1, keepdim=True) * axis * 0.5
        caps = torch.stack([middle - reach, middle + reach], dim=1).flatten(0, 1)
        velocity = torch.stack([velocity[0::2] + stretch, velocity[1::2] - stretch], dim=1).flatten(0, 1)
        return caps, velocity

    def rollout(self, caps: Tensor, velocity: Tensor, rest: Tensor, world: Tensor) -> tuple[Tensor, Tensor]:
        """Caps and velocities (C, 6, M, 3) at the ends of C chunks; rest (2 C + 1, 6, M) at every half chunk."""
        positions, velocities = [], []
        for chunk in range((rest.shape[0] - 1) // 2):
            caps, velocity = self(caps, velocity, rest[2 * chunk : 2 * chunk + 3], world)
            positions.append(caps)
            velocities.append(velocity)
        return torch.stack(positions), torch.stack(velocities)


def parameters(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(p.numel() for p in model.parameters())


__all__ = ["Dynamics", "Frame", "NetworkSettings", "RobotGeometry", "parameters"]
