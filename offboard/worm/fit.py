"""Feasible sets from data: conservative convex sections per gravity bin, from what a segment has been seen to hold.

Input is a table of moment [N m], length [m], curvatures [1/m] and gravity angle [deg], measured or simulated; every
row is a state that was held. Per bin, the shape of the section comes from nearly unloaded rows, the capacity from how
the reachable curvature shrinks with the moment. The section is the template of the four-chamber segment, shrunk about
its middle until it lies inside the convex hull of the rows.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

from onboard.errors import ConfigError
from onboard.planning.contact.feasibility import BINS, TEMPLATE, FeasibleSet, capacities, save_table
from onboard.planning.contact.worm import WormSpec, load_worm
from onboard.resources import robot_file

Floats = NDArray[np.float64]
COLUMNS = ("moment_n_m", "length_m", "curvature_x_per_m", "curvature_y_per_m", "gravity_angle_deg")
UNLOADED = 0.03  # share of a bin's largest moment up to which a row counts as unloaded
WINDOWS = 10
MIDDLE = np.array([0.5, 0.0, 0.0])
LEAST_ROWS = 200


def sample_stand_in(spec: WormSpec, count: int, rng: np.random.Generator) -> Floats:
    """States of the four-chamber stand-in under load, with its stiffening; rows as in COLUMNS. Shape (count, 5).

    L = Lmin + dL mean(p), d = (p1 - p3, p2 - p4), kappa = k_max (1 - M / M_cap) d / (1 + stiffening |d|^2). A third of
    the rows has chambers empty or full, as a calibration that drives to the ends would; a third is unloaded.
    """
    chambers = rng.uniform(0.0, 1.0, (count, 4))
    ends = rng.uniform(size=count) < 1 / 3
    chambers[ends] = np.round(chambers[ends])
    bins = rng.integers(0, BINS, count)
    capacity = capacities(spec)[bins]
    share = np.where(rng.uniform(size=count) < 1 / 3, 0.0, rng.uniform(0.0, 0.98, count))
    bend = chambers[:, :2] - chambers[:, 2:]
    soft = 1.0 + spec.segments.stiffening * np.sum(bend**2, axis=1)
    curvature = spec.segments.curvature_max_per_m * ((1.0 - share) / soft)[:, None] * bend
    length = spec.segments.length_min_m + chambers.mean(axis=1) * (spec.segments.length_max_m - spec.segments.length_min_m)
    return np.column_stack([share * capacity, length, curvature, 15.0 * bins])


def read_table(path: Path) -> Floats:
    """A CSV file with the header COLUMNS; ConfigError naming the line where it is something else."""
    try:
        with path.open(newline="") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "", f"cannot be read: {error}") from error
    if not lines or tuple(name.strip() for name in lines[0]) != COLUMNS:
        raise ConfigError(str(path), "line 1", f"must be the header {','.join(COLUMNS)}")
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = [float(value) for value in line]
        except ValueError:
            row = []
        if len(row) != len(COLUMNS) or not np.all(np.isfinite(row)) or row[0] < 0.0 or not 0.0 <= row[4] <= 180.0:
            raise ConfigError(str(path), f"line {number}", f"is {line}: five finite numbers, moment >= 0, angle 0..180")
        rows.append(row)
    return np.array(rows).reshape(-1, len(COLUMNS))


def fit(spec: WormSpec, rows: Floats) -> FeasibleSet:
    """A conservative feasible set from rows as in COLUMNS; ConfigError for a gravity bin with too few of them."""
    segments = spec.segments
    span = segments.length_max_m - segments.length_min_m
    points = np.column_stack([(rows[:, 1] - segments.length_min_m) / span, rows[:, 2:4] / segments.curvature_max_per_m])
    bins = np.round(rows[:, 4] / 15.0).astype(int)
    alpha, beta, capacity = np.empty((BINS, len(TEMPLATE))), np.empty((BINS, len(TEMPLATE))), np.empty(BINS)
    for index in range(BINS):
        here = bins == index
        moments = rows[here, 0]
        free = moments <= UNLOADED * moments.max(initial=0.0)
        if here.sum() < LEAST_ROWS or free.sum() < LEAST_ROWS // 4:
            raise ConfigError(
                spec.file, f"gravity bin {15 * index} deg", f"has {here.sum()} rows, {free.sum()} unloaded: too few"
            )
        alpha[index], beta[index] = _section(points[here][free])
        capacity[index] = _capacity(points[here], moments, free)
    return FeasibleSet(TEMPLATE.copy(), alpha, beta, capacity)


def _section(points: Floats) -> tuple[Floats, Floats]:
    """(alpha, beta) of the template's facets around points (rho, cx, cy), shrunk into their hull."""
    alpha, beta = np.zeros(len(TEMPLATE)), np.zeros(len(TEMPLATE))
    for f, normal in enumerate(TEMPLATE):
        height = points[:, 1:] @ normal
        if f >= 8:  # |c_j| has no slope
            alpha[f] = height.max()
            continue
        side = points[:, 0] <= 0.5 if f < 4 else points[:, 0] >= 0.5
        # the lowest line above all rows, measured at the middle of its half
        middle = 0.25 if f < 4 else 0.75
        lines = -np.column_stack([np.ones(side.sum()), points[side, 0]])
        best = linprog([1.0, middle], A_ub=lines, b_ub=-height[side], bounds=[(None, None)] * 2, method="highs")
        alpha[f], beta[f] = best.x
    facets = np.column_stack([-beta, TEMPLATE])
    room = alpha - facets @ MIDDLE
    try:
        corners = HalfspaceIntersection(np.column_stack([facets, -alpha]), MIDDLE).intersections
        hull = ConvexHull(points).equations
    except QhullError as error:
        raise ConfigError("rows", "", "do not span a set of lengths and curvatures around the middle") from error
    inside = -(hull[:, :3] @ MIDDLE + hull[:, 3])
    if np.any(inside <= 0.0):
        raise ConfigError("rows", "", "do not surround a straight, half extended segment")
    climb = (corners - MIDDLE) @ hull[:, :3].T
    keep = min(1.0, float(np.min(np.where(climb > 1e-12, inside / np.maximum(climb, 1e-12), np.inf))))
    return facets @ MIDDLE + keep * room, beta


def _capacity(points: Floats, moments: Floats, free: NDArray[np.bool_]) -> float:
    """Moment at which the reachable curvature, seen shrinking over windows of moments, would be gone."""
    size = np.linalg.norm(points[:, 1:], axis=1)
    unloaded = size[free].max()
    edges = np.linspace(moments.max() * UNLOADED, moments.max(), WINDOWS + 1)
    best = np.inf
    for low, high in pairwise(edges):
        window = (moments > low) & (moments <= high)
        if window.sum() < 5:
            continue
        left = float(np.max(size[window] / unloaded))
        # the window's best row may stand at its lower edge: the line through it falls at least that fast
        at = float(moments[window][np.argmax(size[window])])
        if left < 1.0:
            best = min(best, at / (1.0 - left))
    return float(min(best, moments.max() / 0.95))


def fit_worm(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of `fit worm`."""
    parser.add_argument("--robot", default="worm", help="worm by name, or the path of its TOML file")
    parser.add_argument("--data", help=f"CSV with the columns {','.join(COLUMNS)}; the stand-in segment if left out")
    parser.add_argument("--samples", type=int, default=60_000, help="rows to draw from the stand-in")
    parser.add_argument("--seed", type=int, default=0, help="draws them")
    parser.add_argument("--out", default="runs/worm_feasible.json", help="table to write; name it in load.table of the TOML")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _fit_worm


def _fit_worm(args: argparse.Namespace) -> int:
    spec = load_worm(robot_file(args.robot))
    rows = read_table(Path(args.data)) if args.data else sample_stand_in(spec, args.samples, np.random.default_rng(args.seed))
    table = fit(spec, rows)
    path = Path(args.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_table(table, path)
    result = {"rows": len(rows), "capacity_n_m": table.capacity.tolist(), "file": str(path), "seed": args.seed}
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        print(f"13 sections from {len(rows)} rows, capacity {table.capacity.min():.3f}..{table.capacity.max():.3f} N m: {path}")
    return 0
