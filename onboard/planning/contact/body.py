"""The worm as compiled code sees it: one named tuple of numbers and arrays, built once from the specification."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.feasibility import FeasibleSet, stand_in
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]


class Body(NamedTuple):
    """Lengths [m], masses [kg], curvature [1/m], cosines and the feasible set of one worm."""

    length_min: float
    length_span: float
    curvature: float
    link_radius: float
    segment_radius: float
    link_mass: float
    segment_mass: float
    pad_offset: float
    ring_radius: float
    pad_distance: float
    pad_cosine: float
    collision: float
    gravity: Floats
    normals: Floats
    alpha: Floats
    beta: Floats
    capacity: Floats


class Weights(NamedTuple):
    """Square roots of the inverse-kinematics weights, with iterations and restarts."""

    normal: float
    tangent: float
    tilt: float
    rotation: float
    deformation: float
    clearance: float
    closure: float
    extension: float
    iterations: int
    restarts: int


def make_body(spec: WormSpec, feasible: FeasibleSet | None = None) -> Body:
    """The worm's numbers for compiled code; `feasible` replaces the stand-in segment model."""
    table = stand_in(spec) if feasible is None else feasible
    segment = spec.segments
    return Body(
        length_min=segment.length_min_m,
        length_span=segment.length_max_m - segment.length_min_m,
        curvature=segment.curvature_max_per_m,
        link_radius=spec.links.radius_m,
        segment_radius=segment.radius_m,
        link_mass=spec.links.mass_kg,
        segment_mass=segment.mass_kg,
        pad_offset=spec.pads.offset_m,
        ring_radius=spec.pads.ring_radius_m,
        pad_distance=spec.pads.distance_tolerance_m,
        pad_cosine=math.cos(math.radians(spec.pads.angle_tolerance_deg)),
        collision=spec.collision_tolerance_m,
        gravity=spec.gravity,
        normals=table.normals,
        alpha=table.alpha,
        beta=table.beta,
        capacity=table.capacity,
    )


def make_weights(spec: WormSpec) -> Weights:
    """Weights of the inverse kinematics, as square roots."""
    ik = spec.ik
    return Weights(
        normal=math.sqrt(ik.normal_distance),
        tangent=math.sqrt(ik.tangent_distance),
        tilt=math.sqrt(ik.normal_angle),
        rotation=math.sqrt(ik.rotation),
        deformation=math.sqrt(ik.deformation),
        clearance=math.sqrt(ik.clearance),
        closure=math.sqrt(ik.closure),
        extension=spec.search.extension,
        iterations=ik.max_iterations,
        restarts=ik.restarts,
    )
