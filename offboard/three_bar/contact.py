"""One idea: contact detection that is batched and differentiable: caps against oriented boxes, rods against rods.

Paper section IV-D. Planes, walls, ramps and floors are all boxes (rows of a world: centre 3, half lengths 3, rotation
9, friction, see sim/three_bar/course.py). Every function works on the last axes and broadcasts over the rest, so a
caller may keep nodes or batches first. Lengths in u, speeds in u/s.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EDGE_THRESHOLD_U = 0.2  # a contact edge exists below this distance (reference page)
FEATURE_LIMIT_U = 0.5  # distances are cut off here as features
FAR_U = 10.0  # distance of an object that does not exist
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Contacts:
    """The k nearest objects of every point (..., k), nearest first.

    distance [u], negative inside; normal (..., k, 3): from the object to the point; closest (..., k, 3): on the
    surface; normal_speed [u/s], positive when parting; sliding (..., k, 3) [u/s]: velocity along the surface; friction:
    of the object, 0 for none.
    """

    distance: Tensor
    normal: Tensor
    closest: Tensor
    normal_speed: Tensor
    sliding: Tensor
    friction: Tensor


@dataclass(frozen=True, slots=True)
class SegmentPair:
    """Closest points of two segments (...): distance, fractions s and t along them, unit normal from second to first."""

    distance: Tensor
    s: Tensor
    t: Tensor
    normal: Tensor


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Scalar product over the last axis, which is kept with length 1."""
    return (a * b).sum(dim=-1, keepdim=True)


def safe_norm(v: Tensor) -> Tensor:
    """Length over the last axis (kept), with a gradient that stays finite at zero."""
    return torch.sqrt(dot(v, v) + TINY)


def box_distance(points: Tensor, world: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Signed distance (..., K), outward normal and closest surface point (..., K, 3) of points (..., 3) and a world (..., K, 16).

    Exact outside (faces, edges, corners) and inside (nearest face). Rows that are no object are FAR_U away.
    """
    offset = points.unsqueeze(-2) - world[..., 0:3]
    half, rows = world[..., 3:6], world[..., 6:15]
    local = offset[..., 0:1] * rows[..., 0:3] + offset[..., 1:2] * rows[..., 3:6] + offset[..., 2:3] * rows[..., 6:9]
    side = torch.where(local >= 0.0, 1.0, -1.0)
    q = torch.abs(local) - half
    deepest = q.max(dim=-1, keepdim=True).values
    outwards = torch.clamp(q, min=0.0)
    outside = safe_norm(outwards)
    face = (q >= deepest).to(q.dtype)
    face = face / face.sum(dim=-1, keepdim=True)
    is_inside = deepest <= 0.0
    direction = torch.where(is_inside, face, outwards / outside) * side
    distance = torch.where(is_inside, deepest, outside)
    normal = torch.cat([dot(direction, rows[..., 3 * i : 3 * i + 3]) for i in range(3)], dim=-1)
    closest = points.unsqueeze(-2) - normal * distance
    is_object = world[..., 15] > 0.0
    return torch.where(is_object, distance.squeeze(-1), FAR_U), normal, closest


def cap_contacts(points: Tensor, velocity: Tensor, world: Tensor, radius: float, k: int = 2) -> Contacts:
    """The k nearest objects of spheres at points (..., 3) with velocity (..., 3) in a world (..., K, 16), K >= k."""
    distance, normal, closest = box_distance(points, world)
    near, index = torch.topk(distance, k, dim=-1, largest=False, sorted=True)
    index3 = index.unsqueeze(-1).expand(*index.shape, 3)
    normal = torch.gather(normal, -2, index3)
    closest = torch.gather(closest, -2, index3)
    friction = torch.gather(world[..., 15].expand_as(distance), -1, index)
    along = dot(velocity.unsqueeze(-2), normal)
    return Contacts(
        distance=near - radius,
        normal=normal,
        closest=closest,
        normal_speed=along.squeeze(-1),
        sliding=velocity.unsqueeze(-2) - along * normal,
        friction=friction,
    )


def segment_distance(a0: Tensor, a1: Tensor, b0: Tensor, b1: Tensor) -> SegmentPair:
    """Closest points of segments a0-a1 and b0-b1, (..., 3) each; parallel segments give one of the closest pairs."""
    da, db, r = a1 - a0, b1 - b0, a0 - b0
    aa, bb, ab = dot(da, da), dot(db, db), dot(da, db)
    ar, br = dot(da, r), dot(db, r)
    s = torch.clamp((ab * br - ar * bb) / torch.clamp(aa * bb - ab * ab, min=1e-9), 0.0, 1.0)
    t = torch.clamp((ab * s + br) / torch.clamp(bb, min=1e-9), 0.0, 1.0)
    s = torch.clamp((ab * t - ar) / torch.clamp(aa, min=1e-9), 0.0, 1.0)
    apart = r + s * da - t * db
    distance = safe_norm(apart)
    return SegmentPair(distance.squeeze(-1), s.squeeze(-1), t.squeeze(-1), apart / distance)
