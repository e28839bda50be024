"""The worm as compiled code sees it: one record of numbers, built once from the specification.

Records reach compiled code as a single pointer; tuples of many fields make it several times slower to compile.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onboard.planning.contact.feasibility import BINS, FeasibleSet, stand_in
from onboard.planning.contact.worm import WormSpec

Record = np.void

_BODY = (
    "length_min", "length_span", "curvature", "link_radius", "segment_radius", "link_mass", "segment_mass",
    "pad_offset", "pad_distance", "pad_cosine", "collision",
)  # fmt: skip
_WEIGHTS = (
    "normal", "tangent", "tilt", "rotation", "deformation", "clearance", "closure", "extension",
)  # fmt: skip


def make_body(spec: WormSpec, feasible: FeasibleSet | None = None) -> Record:
    """Lengths [m], masses [kg], curvature [1/m], cosines and the feasible set of a worm.

    `feasible` replaces the set named in the worm's file.
    """
    table = stand_in(spec) if feasible is None else feasible
    facets = len(table.normals)
    arrays: list[Any] = [
        ("gravity", "f8", (3,)),
        ("normals", "f8", (facets, 2)),
        ("alpha", "f8", (BINS, facets)),
        ("beta", "f8", (BINS, facets)),
        ("capacity", "f8", (BINS,)),
    ]
    body: Record = np.zeros(1, dtype=[(name, "f8") for name in _BODY] + arrays)[0]
    segment = spec.segments
    body["length_min"], body["length_span"] = segment.length_min_m, segment.length_max_m - segment.length_min_m
    body["curvature"] = segment.curvature_max_per_m
    body["link_radius"], body["segment_radius"] = spec.links.radius_m, segment.radius_m
    body["link_mass"], body["segment_mass"] = spec.links.mass_kg, segment.mass_kg
    body["pad_offset"], body["pad_distance"] = spec.pads.offset_m, spec.pads.distance_tolerance_m
    body["pad_cosine"] = math.cos(math.radians(spec.pads.angle_tolerance_deg))
    body["collision"] = spec.collision_tolerance_m
    body["gravity"] = spec.gravity
    body["normals"], body["alpha"], body["beta"] = table.normals, table.alpha, table.beta
    body["capacity"] = table.capacity
    return body


def make_weights(spec: WormSpec) -> Record:
    """Square roots of the inverse-kinematics weights, with iterations and restarts."""
    ik = spec.ik
    weights: Record = np.zeros(1, dtype=[(name, "f8") for name in _WEIGHTS] + [("iterations", "i8"), ("restarts", "i8")])[0]
    for name, value in (
        ("normal", ik.normal_distance),
        ("tangent", ik.tangent_distance),
        ("tilt", ik.normal_angle),
        ("rotation", ik.rotation),
        ("deformation", ik.deformation),
        ("clearance", ik.clearance),
        ("closure", ik.closure),
    ):
        weights[name] = math.sqrt(value)
    weights["extension"] = spec.search.extension
    weights["iterations"], weights["restarts"] = ik.max_iterations, ik.restarts
    return weights
