"""One idea: everything that can be tuned about navigation stands in robots/planners/<robot>.toml, checked when it is read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError
from onboard.resources import root

Length = Annotated[float, Meta(gt=0.0, le=1000.0)]
Seconds = Annotated[float, Meta(gt=0.0, le=1000.0)]
Weight = Annotated[float, Meta(ge=0.0, le=1e6)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Degrees = Annotated[float, Meta(gt=0.0, le=180.0)]


class TerrainTable(Section, frozen=True):
    """Where the robot can stand, and how far its body reaches; lengths [u]."""

    cell_u: Length
    standing_u: Length
    step_u: Length
    margin_u: Length
    axis_half_u: Length
    axis_margin_u: Weight


class ValueTable(Section, frozen=True):
    """Grid, moves and soft obstacles of the cost to go (reference measurement)."""

    cell_u: Length
    headings: Annotated[int, Meta(ge=8, le=180)]
    roll_u: Length
    roll_times_s: Annotated[list[Seconds], Meta(min_length=1, max_length=8)]
    turn_cells: Count
    turn_time_s: Seconds
    side_u: Length
    side_time_s: Seconds
    near_gain: Weight
    near_u: Length
    touch_factor: Annotated[float, Meta(ge=1.0, le=1e4)]
    inside_factor: Annotated[float, Meta(ge=1.0, le=1e4)]


class MppiTable(Section, frozen=True):
    """Sampling and the terms of the cost that all sampling controllers share."""

    samples: Annotated[int, Meta(ge=2, le=100_000)]
    horizon_s: Seconds
    block_s: Seconds
    replan_s: Seconds
    temperature: Annotated[float, Meta(gt=0.0, le=1e6)]
    warm_sigma: Weight
    fresh_sigma: Weight
    fresh_rho: Annotated[float, Meta(ge=0.0, lt=1.0)]
    value_weight: Weight
    goal_bonus: Weight
    goal_reach_u: Length
    slack_weight: Weight
    slack_allowed_u: Weight
    cable_offset_u: Weight
    ceiling_weight: Weight
    ceiling_gap_u: Weight
    ceiling_near_u: Length


class EscapeTable(Section, frozen=True):
    """When nothing gets better: rest step, then a random kick."""

    gain: Weight
    patience_s: Seconds
    kick_s: Seconds
    rest_min_u: Length
    rest_range_u: Length


class HybridTable(Section, frozen=True):
    """Thresholds of the paper's algorithm 1 and its cost."""

    align_deg: Degrees
    flip_deg: Degrees
    near_goal_u: Length
    look_cells: Count
    goal_bonus: Weight
    goal_reach_u: Length
    ceiling_gain: Weight
    ceiling_clear_u: Length


class AstarTable(Section, frozen=True):
    """Search over measured primitives."""

    gaits: Annotated[list[str], Meta(min_length=1, max_length=32)]
    body_length_u: Length
    body_width_u: Length
    merge_u: Length
    turn_weight: Weight
    goal_reach_u: Length
    expansions: Count
    longest_s: Seconds
    reverse_nodes: Count
    nearest: Count
    averaged: Count
    nearest_turn_weight: Weight


class StateTable(Section, frozen=True):
    """How velocities are made, and how long a pose may be missing."""

    velocity_window_s: Seconds
    velocity_least_s: Seconds
    coast_s: Seconds


class PlannerSettings(Section, frozen=True):
    """The whole file."""

    format: Literal[1]
    robot: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
    terrain: TerrainTable
    value: ValueTable
    mppi: MppiTable
    escape: EscapeTable
    hybrid: HybridTable
    astar: AstarTable
    state: StateTable

    @property
    def digest(self) -> str:
        """First 16 digits of the sha256 of all values: says whether two results were made with the same settings."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]


def load_settings(robot: str, path: Path | None = None) -> PlannerSettings:
    """Read and check robots/planners/<robot>.toml, or the file at `path`. Raises ConfigError naming file, key and range."""
    path = path or root() / "robots" / "planners" / f"{robot}.toml"
    where = str(path)
    settings = convert(where, "", read_toml(path), PlannerSettings)
    if settings.robot != robot:
        raise ConfigError(where, "robot", f"is a planner of {settings.robot!r}, not of {robot!r}")
    mppi, astar, state = settings.mppi, settings.astar, settings.state
    rules = (
        ("value.headings", settings.value.headings % 2 == 0, "must be even: a quarter turn is a whole number of cells"),
        ("value.turn_cells", settings.value.turn_cells < settings.value.headings, "must be less than value.headings"),
        ("value.cell_u", settings.value.cell_u >= settings.terrain.cell_u, "must not be finer than terrain.cell_u"),
        ("mppi.block_s", mppi.block_s <= mppi.horizon_s, "must not exceed mppi.horizon_s"),
        ("mppi.replan_s", mppi.replan_s < mppi.horizon_s, "must be less than mppi.horizon_s"),
        ("value.inside_factor", settings.value.inside_factor >= settings.value.touch_factor, "must be at least touch_factor"),
        ("astar.averaged", astar.averaged <= astar.nearest, "must not exceed astar.nearest"),
        ("hybrid.flip_deg", settings.hybrid.flip_deg > settings.hybrid.align_deg, "must be above hybrid.align_deg"),
        ("state.velocity_least_s", state.velocity_least_s <= state.velocity_window_s, "must not exceed velocity_window_s"),
    )
    for key, holds, problem in rules:
        if not holds:
            raise ConfigError(where, key, problem)
    return settings
