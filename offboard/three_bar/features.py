"""One idea: what the graph network sees of a state. Features of caps, of cap pairs and of contacts in the robot's own yaw frame.

Everything is node-major: nodes or edges first, then samples, then features ([6, M, 3], [30, M, F]), so that the
exported model gathers contiguous blocks. Nothing tells rods apart and the frame turns with the principal axis, so the
network has the robot's threefold symmetry and that of turning about the vertical by construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from offboard.three_bar.contact import (
    EDGE_THRESHOLD_U,
    FEATURE_LIMIT_U,
    Contacts,
    cap_contacts,
    dot,
    safe_norm,
    segment_distance,
)

RODS = ((0, 1), (2, 3), (4, 5))
NEAREST = 2  # objects a cap looks at
NEAR_SCALE_U = 0.05
AXIS_LIMIT_U = 0.6  # distance of rod axes above which rods do not see each other
NODE_BASE = 9
CONTACT_WIDTH = 10
SELF_WIDTH = 2
EDGE_BASE, EDGE_CABLE, EDGE_RODS = 9, 7, 9  # base: vector, length, closing speed, which of the four kinds
EDGE_WIDTH = EDGE_BASE + EDGE_CABLE + EDGE_RODS


@dataclass(frozen=True, slots=True)
class Graph:
    """Who is connected to whom: 30 directed edges over 6 caps, driven cables first, then long ones, others, rods.

    senders, receivers (30,); kind (30,): 0 driven, 1 long, 2 neither, 3 rod; cable (12,): driven cable of the first 12 edges;
    along (12,): +1 from a cable's first cap to its second, -1 back.
    """

    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    kind: tuple[int, ...]
    cable: tuple[int, ...]
    along: tuple[float, ...]

    @property
    def apart(self) -> int:
        """Number of edges between different rods; they come before the rods' own."""
        return sum(k != 3 for k in self.kind)


def build_graph(driven: list[tuple[int, int]], long: list[tuple[int, int]]) -> Graph:
    """The graph of a robot with these cables (cap pairs)."""
    taken = {frozenset(p) for p in (*driven, *long, *RODS)}
    other = [(a, b) for a in range(6) for b in range(a + 1, 6) if frozenset((a, b)) not in taken]
    senders, receivers, kind = [], [], []
    for number, pairs in enumerate((driven, long, other, RODS)):
        for a, b in pairs:
            senders += [a, b]
            receivers += [b, a]
            kind += [number, number]
    cable = [i for i in range(len(driven)) for _ in range(2)]
    along = [1.0, -1.0] * len(driven)
    return Graph(tuple(senders), tuple(receivers), tuple(kind), tuple(cable), tuple(along))


@dataclass(frozen=True, slots=True)
class Frame:
    """The yaw frame of every sample: cosine and sine (1, M, 1) of the principal axis' direction in plan."""

    c: Tensor
    s: Tensor

    def into(self, v: Tensor) -> Tensor:
        """World vectors (n, M, 3) into the frame."""
        x, y, z = v[..., 0:1], v[..., 1:2], v[..., 2:3]
        return torch.cat([self.c * x + self.s * y, self.c * y - self.s * x, z], dim=-1)

    def out_of(self, v: Tensor) -> Tensor:
        """Vectors of the frame (n, M, 3) into the world."""
        x, y, z = v[..., 0:1], v[..., 1:2], v[..., 2:3]
        return torch.cat([self.c * x - self.s * y, self.s * x + self.c * y, z], dim=-1)


def rod_axes(caps: Tensor) -> Tensor:
    """Unit vectors left to right (3, M, 3) of caps (6, M, 3)."""
    axis = caps[1::2] - caps[0::2]
    return axis / safe_norm(axis)


def yaw_frame(caps: Tensor) -> Frame:
    """The frame of caps (6, M, 3); with all rods upright its direction is whatever rounding gives, but finite."""
    axis = rod_axes(caps).mean(dim=0, keepdim=True)
    flat = torch.sqrt(axis[..., 0:1] ** 2 + axis[..., 1:2] ** 2 + 1e-8)
    return Frame(axis[..., 0:1] / flat, axis[..., 1:2] / flat)


def gate(distance: Tensor, limit: float) -> Tensor:
    """1 in contact, falling to 0 at `limit`."""
    return torch.clamp(1.0 - distance / limit, 0.0, 1.0)


def contact_features(found: Contacts, frame: Frame) -> Tensor:
    """(6, M, k, 10): clipped distance, nearness, gated normal, normal speed, sliding velocity and friction."""
    d = torch.clamp(found.distance, -NEAR_SCALE_U, FEATURE_LIMIT_U).unsqueeze(-1)
    g = gate(d, FEATURE_LIMIT_U)
    c, s = frame.c.unsqueeze(-2), frame.s.unsqueeze(-2)
    turned = Frame(c, s)
    return torch.cat(
        [
            2.0 * d,
            torch.exp(-d / NEAR_SCALE_U),
            turned.into(found.normal) * g,
            found.normal_speed.unsqueeze(-1) * g,
            turned.into(found.sliding) * g,
            found.friction.unsqueeze(-1) * g,
        ],
        dim=-1,
    )


@dataclass(frozen=True, slots=True)
class Features:
    """Inputs of the network. node (6, M, Fn), edge (30, M, Fe), contact (6, M, k, Fc), contact_gate (6, M, k, 1)."""

    node: Tensor
    edge: Tensor
    contact: Tensor
    contact_gate: Tensor
    frame: Frame


class FeatureMaker(torch.nn.Module):
    """Turns states into features; the switches are those of the paper's ablation."""

    def __init__(self, graph: Graph, cap_radius_u: float, cable_offset_u: float, distances: bool, contact_edges: bool) -> None:
        super().__init__()
        self.graph, self.cap_radius_u, self.cable_offset_u = graph, cap_radius_u, cable_offset_u
        self.distances, self.contact_edges = distances, contact_edges
        self.register_buffer("senders", torch.tensor(graph.senders), persistent=False)
        self.register_buffer("receivers", torch.tensor(graph.receivers), persistent=False)
        self.register_buffer("cable", torch.tensor(graph.cable), persistent=False)
        kind = torch.nn.functional.one_hot(torch.tensor(graph.kind), 4).float().unsqueeze(1)
        self.register_buffer("kind", kind, persistent=False)
        self.register_buffer("along", torch.tensor(graph.along)[:, None, None], persistent=False)
        apart = graph.apart
        self.register_buffer("half_a", torch.tensor(graph.receivers[0:apart:2]), persistent=False)
        self.register_buffer("half_b", torch.tensor(graph.senders[0:apart:2]), persistent=False)
        other = torch.tensor([1, 0, 3, 2, 5, 4])
        self.register_buffer("other_end", other, persistent=False)
        nearest = [[k for k in range(apart // 2) if cap in (graph.receivers[2 * k], graph.senders[2 * k])] for cap in range(6)]
        self.register_buffer("pairs_of_cap", torch.tensor(nearest), persistent=False)

    @property
    def node_width(self) -> int:
        """Number of node features."""
        return NODE_BASE + (NEAREST * CONTACT_WIDTH + SELF_WIDTH if self.distances else 0)

    def forward(self, caps: Tensor, velocity: Tensor, rest: Tensor, world: Tensor) -> Features:
        """Features of caps, velocity (6, M, 3), a chunk's rest lengths (3, 6, M) and world (M or 1, K, 16).

        rest: at the chunk's start, middle and end.
        """
        frame = yaw_frame(caps)
        com = caps.mean(dim=0, keepdim=True)
        p, v = frame.into(caps - com), frame.into(velocity)
        to_other = p.index_select(0, self.other_end) - p
        found = cap_contacts(caps, velocity, world, self.cap_radius_u, NEAREST)
        touch = contact_features(found, frame)
        pairs, self_distance = self._between_rods(p, v)
        parts = [p, v, to_other / safe_norm(to_other)]
        if self.distances:
            near_self = self_distance[self.pairs_of_cap].min(dim=1).values
            parts += [touch.flatten(-2), 2.0 * near_self, gate(near_self, AXIS_LIMIT_U)]
        return Features(
            node=torch.cat(parts, dim=-1),
            edge=self._edges(p, v, rest, pairs),
            contact=touch,
            contact_gate=gate(found.distance, EDGE_THRESHOLD_U).unsqueeze(-1),
            frame=frame,
        )

    def _between_rods(self, p: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Half rods (rod centre to cap) pair by pair: features for both directions (24, M, 9), axis distance (12, M, 1)."""
        mid = 0.5 * (p + p.index_select(0, self.other_end))
        mid_v = 0.5 * (v + v.index_select(0, self.other_end))
        a, b = self.half_a, self.half_b
        pair = segment_distance(mid[a], p[a], mid[b], p[b])
        s, t = pair.s.unsqueeze(-1), pair.t.unsqueeze(-1)
        relative = mid_v[a] + s * (v[a] - mid_v[a]) - mid_v[b] - t * (v[b] - mid_v[b])
        d = torch.clamp(pair.distance.unsqueeze(-1), max=AXIS_LIMIT_U)
        if not self.contact_edges:
            rows = p.new_zeros(1).expand(2 * len(a), p.shape[1], EDGE_RODS)
            return rows, d
        g = gate(d, AXIS_LIMIT_U)
        common = [2.0 * d, g * g]
        speed = dot(relative, pair.normal) * g
        # the receiver of the even directed edge is half a, so the normal points at it
        towards_a = torch.cat([*common, pair.normal * g, speed, s * g, t * g, s * t * g], dim=-1)
        towards_b = torch.cat([*common, -pair.normal * g, speed, t * g, s * g, s * t * g], dim=-1)
        return torch.stack([towards_a, towards_b], dim=1).flatten(0, 1), d

    def _edges(self, p: Tensor, v: Tensor, rest: Tensor, pairs: Tensor) -> Tensor:
        vector = p.index_select(0, self.senders) - p.index_select(0, self.receivers)
        speed = v.index_select(0, self.senders) - v.index_select(0, self.receivers)
        length = safe_norm(vector)
        closing = dot(speed, vector) / length
        base = torch.cat([vector, length, closing, self.kind.expand(-1, p.shape[1], -1)], dim=-1)
        driven = self.cable.shape[0]
        cable_rest = rest.index_select(1, self.cable).unsqueeze(-1)
        stretch = length[:driven] - self.cable_offset_u - cable_rest  # (3, 12, M, 1): start, middle, end
        along = self.along.expand(driven, p.shape[1], 1)
        cable = torch.cat(
            [stretch[0], stretch[1], stretch[2], torch.relu(stretch[1]), torch.relu(stretch[2]), cable_rest[2], along], dim=-1
        )
        rods = base.shape[0] - pairs.shape[0]
        cable = torch.nn.functional.pad(cable, (0, 0, 0, 0, 0, base.shape[0] - driven))
        pairs = torch.nn.functional.pad(pairs, (0, 0, 0, 0, 0, rods))
        return torch.cat([base, cable, pairs], dim=-1)
