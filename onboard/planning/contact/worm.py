"""The worm's own file: links, segments, pads and the planner's numbers, checked and frozen."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError

FORMAT = 1
Identifier = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Mass = Annotated[float, Meta(gt=0.0, le=50.0)]
Length = Annotated[float, Meta(gt=0.0, le=2.0)]
Weight = Annotated[float, Meta(ge=0.0, le=1e9)]
Seconds = Annotated[float, Meta(gt=0.0, le=600.0)]


class Identity(Section, frozen=True):
    """[robot]: the worm's name and a title for people."""

    name: Identifier
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    kind: Literal["suction_worm"] = "suction_worm"


class Links(Section, frozen=True):
    """[links]: rigid links with one pad each, counted from tail to head."""

    count: Annotated[int, Meta(ge=2, le=8)]
    mass_kg: Mass
    radius_m: Length


class Segments(Section, frozen=True):
    """[segments]: the bending bodies between links, all alike. curvature_max_per_m holds for one axis."""

    mass_kg: Mass
    radius_m: Length
    length_min_m: Length
    length_max_m: Length
    curvature_max_per_m: Annotated[float, Meta(gt=0.0, le=200.0)]
    stiffening: Annotated[float, Meta(ge=0.0, le=5.0)] = 0.0


class Load(Section, frozen=True):
    """[load]: moment at which a segment can no longer bend: capacity_n_m * (mean + cosine * cos(gamma))."""

    capacity_n_m: Annotated[float, Meta(gt=0.0, le=1e4)]
    mean: Annotated[float, Meta(gt=0.0, le=2.0)]
    cosine: Annotated[float, Meta(ge=0.0, le=1.0)]
    table: str = ""


class Pads(Section, frozen=True):
    """[pads]: suction pads at -offset_m along link x, and when one counts as attached (paper, Table I)."""

    offset_m: Length
    ring_radius_m: Length
    distance_tolerance_m: Length
    angle_tolerance_deg: Annotated[float, Meta(gt=0.0, lt=90.0)]
    stick_m: Length
    stick_deg: Annotated[float, Meta(gt=0.0, lt=45.0)]


class Chambers(Section, frozen=True):
    """[chambers]: four pressure chambers a segment and the clipped integral law of their controller."""

    angles_deg: Annotated[list[float], Meta(min_length=4, max_length=4)]
    gain_length: Weight
    gain_rotation: Weight
    limit: Annotated[float, Meta(gt=0.0, le=1e6)]


class GuideNumbers(Section, frozen=True):
    """[guide]: weights of the near-surface path (paper, Table I and V-A) and how its graph is built."""

    voxel_m: Annotated[float, Meta(ge=0.002, le=0.1)]
    band_min_m: Annotated[float, Meta(ge=0.0, le=0.5)]
    band_max_m: Length
    length: Weight
    lift: Weight
    sharp: Weight
    normal: Weight
    bend: Weight
    non_coplanar: Weight
    history: Annotated[int, Meta(ge=1, le=16)]
    labels: Literal["voxel", "direction"]
    scaling: Literal["step", "length"]


class IkNumbers(Section, frozen=True):
    """[ik]: weights of the target loss (paper, Table I and V-B) and of the terms this planner adds to it."""

    normal_distance: Weight
    tangent_distance: Weight
    normal_angle: Weight
    rotation: Weight
    deformation: Weight
    clearance: Weight
    closure: Weight
    max_iterations: Annotated[int, Meta(ge=5, le=500)]
    restarts: Annotated[int, Meta(ge=0, le=8)]


class SearchNumbers(Section, frozen=True):
    """[search]: score, branching and limits of the hybrid search (paper, Table I and III-A4)."""

    goal_radius_m: Length
    lateral: Weight
    deformation: Weight
    exploration: Weight
    step: Weight
    extension: Weight
    bending: Weight
    top: Annotated[int, Meta(ge=1, le=32)]
    children: Annotated[int, Meta(ge=1, le=64)]
    max_free: Annotated[int, Meta(ge=1, le=8)]
    budget_s: Annotated[float, Meta(gt=0.0, le=3600.0)]
    max_expansions: Annotated[int, Meta(ge=1, le=10_000_000)]
    min_holding: Annotated[int, Meta(ge=1, le=8)] = 1


class ExecutionNumbers(Section, frozen=True):
    """[execution]: how a plan is carried out: rates, seals, speeds, and when to correct, plan anew or give up.

    Pressures count in chamber units, of which 100 take a segment from one end of its range to the other.
    """

    rate_hz: Annotated[float, Meta(ge=1.0, le=200.0)]
    supply: Annotated[float, Meta(gt=0.0, le=1e6)]
    slew_per_s: Annotated[float, Meta(gt=0.0, le=1e6)]
    seal_pa: Annotated[float, Meta(gt=0.0, le=1e5)]
    released_pa: Annotated[float, Meta(gt=0.0, le=1e5)]
    report_ttl_s: Seconds
    pose_ttl_s: Seconds
    pose_lost_s: Seconds
    smoothing_s: Seconds
    response_s: Seconds
    prepare_s: Seconds
    steady_s: Seconds
    settle_s: Seconds
    seal_s: Seconds
    length_m_per_s: Length
    rotation_deg_per_s: Annotated[float, Meta(gt=0.0, le=360.0)]
    landing_m: Length
    landing_deg: Annotated[float, Meta(gt=0.0, lt=45.0)]
    drift_m: Length
    drift_deg: Annotated[float, Meta(gt=0.0, lt=90.0)]
    corrections: Annotated[int, Meta(ge=0, le=20)]
    replans: Annotated[int, Meta(ge=0, le=1000)]
    planner_s: Seconds


class WormSpec(Section, frozen=True):
    """One worm. `file` is where it came from, for messages."""

    file: str
    format: int
    robot: Identity
    links: Links
    segments: Segments
    load: Load
    pads: Pads
    chambers: Chambers
    guide: GuideNumbers
    ik: IkNumbers
    search: SearchNumbers
    collision_tolerance_m: Annotated[float, Meta(ge=0.0, le=0.1)]
    gravity_m_s2: Annotated[list[float], Meta(min_length=3, max_length=3)]
    execution: ExecutionNumbers | None = None

    @property
    def gravity(self) -> NDArray[np.float64]:
        """Gravity in world axes. Shape (3,) [m/s^2]."""
        return np.array(self.gravity_m_s2, dtype=np.float64)

    @property
    def body_hash(self) -> str:
        """Names the body: a library or a trained key made for another body must not be used with this one."""
        parts = (self.links, self.segments, self.load, self.pads, self.gravity_m_s2)
        return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()

    def summary(self) -> dict[str, object]:
        """The figures a person checks first."""
        return {
            "robot": self.robot.name,
            "title": self.robot.title,
            "links": self.links.count,
            "segments": self.links.count - 1,
            "segment_length_m": [self.segments.length_min_m, self.segments.length_max_m],
            "curvature_max_per_m": self.segments.curvature_max_per_m,
            "body_hash": self.body_hash,
        }


def load_worm(path: Path) -> WormSpec:
    """The worm described in a TOML file.

    Raises:
        ConfigError: the file, a key or a value is wrong; names all three.
    """
    return read_worm(path, read_toml(path))


def read_worm(path: Path, raw: dict[str, Any]) -> WormSpec:
    """A worm from parsed TOML; errors name `path`. This is how the kind `suction_worm` is registered."""
    spec = convert(str(path), "", {**raw, "file": str(path)}, WormSpec)
    _check(spec)
    return spec


def _check(spec: WormSpec) -> None:
    def refuse(key: str, problem: str) -> None:
        raise ConfigError(spec.file, key, problem)

    segment, pads = spec.segments, spec.pads
    if spec.format != FORMAT:
        refuse("format", f"is {spec.format}; this version reads format {FORMAT}")
    if segment.length_max_m <= segment.length_min_m:
        refuse("segments.length_max_m", f"is {segment.length_max_m}, must exceed length_min_m")
    if segment.curvature_max_per_m * segment.length_max_m * math.sqrt(0.5) >= math.pi:
        # at half extension both axes may bend fully: theta = sqrt(2) k_max (Lmin + Lmax) / 2 stays below half a turn
        refuse("segments.curvature_max_per_m", "lets one segment close on itself (more than half a turn)")
    if pads.offset_m < max(spec.links.radius_m, segment.radius_m) - spec.collision_tolerance_m:
        refuse("pads.offset_m", f"is {pads.offset_m}; a body of that radius would touch where it is attached")
    if spec.load.cosine >= spec.load.mean:
        refuse("load.cosine", f"is {spec.load.cosine}, must be below mean: the capacity must stay positive")
    execution = spec.execution
    if execution is not None:
        if execution.released_pa >= execution.seal_pa:
            refuse("execution.released_pa", f"is {execution.released_pa}, must be below seal_pa")
        if execution.landing_m > pads.distance_tolerance_m or execution.landing_deg > pads.angle_tolerance_deg:
            refuse("execution.landing_m", "and landing_deg must not exceed the tolerances of [pads]")
        if execution.pose_lost_s <= execution.pose_ttl_s:
            refuse("execution.pose_lost_s", f"is {execution.pose_lost_s}, must exceed pose_ttl_s")
    if spec.guide.band_max_m < spec.guide.band_min_m + 2.0 * spec.guide.voxel_m:
        refuse("guide.band_max_m", "must leave at least two voxels above band_min_m")
    if not 0.1 < float(np.linalg.norm(spec.gravity)) < 30.0:
        refuse("gravity_m_s2", f"is {spec.gravity_m_s2}, its length must be between 0.1 and 30")
