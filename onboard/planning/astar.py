"""One idea: A* over measured primitives: planar poses joined by what each primitive does, kept clear of obstacles.

Paper section V-B, a baseline: an arc costs its length plus a little per radian, poses closer than `merge_u` are one, and the
search stops after a count of expansions so that the same question always has the same answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.errors import PlanningError
from onboard.messages import Bools, Floats
from onboard.planning.planar import wrap
from onboard.planning.primitives import Entry, apply, undo
from onboard.planning.settings import AstarTable
from onboard.planning.terrain import Terrain
from onboard.planning.wavefront import Wavefront

Heuristic = Callable[[Floats], Floats]
SUBSTEPS = 4  # poses along an arc that are checked, its end included
HEADING_BINS = 12


def arc_cost(entry: Entry, turn_weight: float) -> float:
    """sqrt(dx^2 + dy^2) + turn_weight |turn|."""
    return float(np.hypot(entry.dx_u, entry.dy_u) + turn_weight * abs(entry.turn_rad))


def arc(pose: Floats, entry: Entry) -> Floats:
    """Poses (SUBSTEPS, 3) along a primitive from `pose` (3,): displacement and turn grow together."""
    share = np.arange(1, SUBSTEPS + 1)[:, None] / SUBSTEPS
    end = apply(pose, entry)
    turn = wrap(pose[2] + share[:, 0] * entry.turn_rad)
    return np.column_stack([pose[:2] + share * (end[:2] - pose[:2]), turn])


class BodyCheck:
    """Does the body, a rectangle along the principal axis, touch anything? Separating axes against boxes, and the grid's border.

    Boxes are those of the world (K, 16) whose top nobody can reach from the goal and that leave no room beneath.
    """

    def __init__(self, table: AstarTable, terrain: Terrain, free: Bools, world: Floats, standing_u: float) -> None:
        self.half = np.array([table.body_length_u, table.body_width_u]) / 2.0
        self.low = np.array(terrain.origin)
        self.high = self.low + np.array(terrain.shape) * terrain.cell
        self.boxes = [row for row in world if row[15] > 0.0 and _stands_in_the_way(row, terrain, free, standing_u)]

    def hits(self, poses: Floats) -> Bools:
        """Whether the body at poses (N, 3) touches a box or has its centre off the grid (N,)."""
        c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
        body = np.stack([np.stack([c, s], axis=-1), np.stack([-s, c], axis=-1)], axis=1)  # (N, axis, xy)
        hit = np.asarray(np.any((poses[:, :2] < self.low) | (poses[:, :2] > self.high), axis=1))
        for row in self.boxes:
            axes = row[6:15].reshape(3, 3)[:2, :2].T
            between = row[:2] - poses[:, :2]
            apart = np.zeros(len(poses), dtype=bool)
            for k in range(2):
                reach = self.half[k] + np.abs(body[:, k] @ axes.T) @ row[3:5]
                apart |= np.abs(np.einsum("ni,ni->n", body[:, k], between)) > reach
                reach = row[3 + k] + np.abs(body @ axes[k]) @ self.half
                apart |= np.abs(between @ axes[k]) > reach
            hit |= ~apart
        return hit


def _stands_in_the_way(row: Floats, terrain: Terrain, free: Bools, standing_u: float) -> bool:
    """An upright box that a robot on the free ground around it would run into."""
    if abs(row[14]) < 0.9999:
        return False
    top, bottom = row[2] + row[5], row[2] - row[5]
    corner = np.array([row[0:2] - row[3:5], row[0:2] + row[3:5]])
    (i0, j0), (i1, j1) = (terrain.index(c)[0] for c in corner)
    under = np.s_[i0 : i1 + 1, j0 : j1 + 1]
    ground = terrain.height[under]
    if bottom > ground.min() + standing_u - 1e-6 and np.any(free[under] & (ground < bottom)):
        return False
    return top > terrain.height.min() + terrain.step_u and not np.any(free[under] & (np.abs(ground - top) < terrain.step_u))


def grid_heuristic(front: Wavefront) -> Heuristic:
    """The wavefront's cost in units of length; infinite in obstacles."""

    def cost(poses: Floats) -> Floats:
        found: Floats = front.cost(poses[:, :2]) * front.grid.cell
        return found

    return cost


class ReverseHeuristic:
    """Costs grown backwards from the goal with the primitives inverted; a query averages the best of the nearest nodes."""

    def __init__(self, table: AstarTable, entries: Sequence[Entry], goal: Floats, body: BodyCheck) -> None:
        self.table = table
        poses: list[Floats] = []
        costs: list[float] = []
        closed: set[tuple[int, int, int]] = set()
        heap: list[tuple[float, int, Floats]] = []
        for k in range(HEADING_BINS):
            pose = np.array([goal[0], goal[1], -np.pi + 2.0 * np.pi * k / HEADING_BINS])
            heap.append((0.0, k, pose))
        count = len(heap)
        while heap and len(poses) < table.reverse_nodes:
            cost, _, pose = heapq.heappop(heap)
            key = cell_key(pose, table.merge_u)
            if key in closed:
                continue
            closed.add(key)
            poses.append(pose)
            costs.append(cost)
            for entry in entries:
                before = undo(pose, entry)
                if cell_key(before, table.merge_u) in closed or body.hits(arc(before, entry)).any():
                    continue
                count += 1
                heapq.heappush(heap, (cost + arc_cost(entry, table.turn_weight), count, before))
        self.poses, self.costs = np.array(poses), np.array(costs)

    def __call__(self, poses: Floats) -> Floats:
        """Estimated costs (N,) of poses (N, 3): mean of the nearest few under planar distance plus weighted turn."""
        table = self.table
        count = min(table.nearest, len(self.costs))
        near, metric = nearest_nodes(np.ascontiguousarray(poses), self.poses, count, table.nearest_turn_weight)
        rank = np.argsort(metric, axis=1)[:, : table.averaged]
        # what lies beyond the grown region is as far again as it is away from it
        beyond = np.maximum(metric.min(axis=1) - 2.0 * table.merge_u, 0.0)
        found: Floats = self.costs[np.take_along_axis(near, rank, axis=1)].mean(axis=1) + beyond
        return found


@njit(cache=True)  # type: ignore[untyped-decorator]
def nearest_nodes(
    poses: npt.NDArray[np.float64], nodes: npt.NDArray[np.float64], count: int, turn_weight: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The `count` of nodes (K, 3) nearest in plan to poses (N, 3); their distance plus `turn_weight` per radian (N, count)."""
    near = np.zeros((len(poses), count), dtype=np.int64)
    metric = np.empty((len(poses), count))
    for n in range(len(poses)):
        best = np.full(count, np.inf)
        for k in range(len(nodes)):
            away = (nodes[k, 0] - poses[n, 0]) ** 2 + (nodes[k, 1] - poses[n, 1]) ** 2
            if away >= best[count - 1]:
                continue
            at = count - 1
            while at > 0 and best[at - 1] > away:
                best[at], near[n, at] = best[at - 1], near[n, at - 1]
                at -= 1
            best[at], near[n, at] = away, k
        for c in range(count):
            turn = abs((poses[n, 2] - nodes[near[n, c], 2] + np.pi) % (2.0 * np.pi) - np.pi)
            metric[n, c] = np.sqrt(best[c]) + turn_weight * turn
    return near, metric


def cell_key(pose: Floats, merge_u: float) -> tuple[int, int, int]:
    """Poses with the same key count as one."""
    heading = int((pose[2] + np.pi) / (2.0 * np.pi) * HEADING_BINS) % HEADING_BINS
    return int(np.floor(pose[0] / merge_u)), int(np.floor(pose[1] / merge_u)), heading


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found: indices into the entries; whether they reach the goal; how many poses were expanded."""

    moves: tuple[int, ...]
    reached: bool
    expanded: int


def search(
    start: Floats, goal: Floats, entries: Sequence[Entry], heuristic: Heuristic, body: BodyCheck, table: AstarTable
) -> Search:
    """A* from a planar pose (3,) to within table.goal_reach_u of `goal` (2,).

    Out of expansions: the way to the expanded pose that looks nearest to the goal. Raises PlanningError when no move is free.
    """
    first = float(heuristic(start[None])[0])
    heap: list[tuple[float, int, float, Floats, tuple[int, ...]]] = [(first, 0, 0.0, start, ())]
    closed: set[tuple[int, int, int]] = set()
    nearest: tuple[float, tuple[int, ...]] = (np.inf, ())
    count = expanded = 0
    prices = [arc_cost(entry, table.turn_weight) for entry in entries]
    while heap and expanded < table.expansions:
        estimate, _, cost, pose, moves = heapq.heappop(heap)
        if np.linalg.norm(pose[:2] - goal) <= 0.8 * table.goal_reach_u:
            return Search(moves, True, expanded)
        key = cell_key(pose, table.merge_u)
        if key in closed:
            continue
        closed.add(key)
        expanded += 1
        if moves and estimate - cost < nearest[0]:
            nearest = (estimate - cost, moves)
        arcs = [arc(pose, entry) for entry in entries]
        hit = body.hits(np.concatenate(arcs)).reshape(len(entries), SUBSTEPS).any(axis=1)
        left = heuristic(np.array([way[-1] for way in arcs]))
        for index in np.flatnonzero(~hit & np.isfinite(left)):
            count += 1
            total = cost + prices[index]
            heapq.heappush(heap, (total + float(left[index]), count, total, arcs[index][-1], (*moves, int(index))))
    if not nearest[1]:
        raise PlanningError("no primitive can be run from here without touching an obstacle")
    return Search(nearest[1], False, expanded)
