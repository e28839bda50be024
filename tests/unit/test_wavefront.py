"""The wavefront gives Dijkstra's costs, works out no more than is asked, and answers clearly where there is no way."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from onboard.errors import NotANumberError, PlanningError
from onboard.planning.wavefront import DECAY, GAIN, Grid, Wavefront, grid_of


def box_row(
    x: float, y: float, half_x: float, half_y: float, z: tuple[float, float] = (0.0, 4.0), yaw: float = 0.0
) -> np.ndarray:
    c, s = np.cos(yaw), np.sin(yaw)
    row = np.zeros(16)
    row[0:3], row[3:6] = (x, y, sum(z) / 2), (half_x, half_y, (z[1] - z[0]) / 2)
    row[6:15], row[15] = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).ravel(), 1.8
    return row


FLOOR = box_row(0, 0, 60, 60, (-10.0, 0.0))
BOUNDS = np.array([[-3.0, 3.0], [-2.0, 2.0]])


def with_wall(cell: float = 0.2) -> Grid:
    """A wall across the middle with a gap at the top."""
    return grid_of(BOUNDS, np.stack([FLOOR, box_row(0.0, -0.5, 0.3, 1.5)]), cell, (0.2, 2.2))


def reference(grid: Grid, goal: np.ndarray) -> np.ndarray:
    """Textbook Dijkstra with a dictionary and a heap."""
    free = grid.clearance > 0
    cost = np.full(free.shape, np.inf)
    start = tuple(int(v) for v in grid.index(goal)[0])
    cost[start] = 0.0
    heap = [(0.0, start)]
    while heap:
        key, (i, j) = heapq.heappop(heap)
        if key > cost[i, j]:
            continue
        for a in range(max(0, i - 1), min(free.shape[0], i + 2)):
            for b in range(max(0, j - 1), min(free.shape[1], j + 2)):
                if (a, b) != (i, j) and free[a, b]:
                    new = key + np.hypot(a - i, b - j) + GAIN * np.exp(-DECAY * grid.clearance[a, b])
                    if new < cost[a, b]:
                        cost[a, b] = new
                        heapq.heappush(heap, (new, (a, b)))
    return cost


def centres(grid: Grid) -> np.ndarray:
    nx, ny = grid.clearance.shape
    i, j = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    return grid.origin + (np.stack([i, j], axis=-1) + 0.5) * grid.cell


def test_costs_are_dijkstras_everywhere_whatever_the_order_of_questions() -> None:
    grid, goal = with_wall(), np.array([-2.0, -1.0])
    truth = reference(grid, goal)
    points = centres(grid)
    front = Wavefront(grid)
    front.set_goal(goal)
    rng = np.random.default_rng(0)
    for index in rng.permutation(points[..., 0].size)[:60]:
        i, j = divmod(int(index), grid.clearance.shape[1])
        assert front.cost(points[i, j]) == pytest.approx(truth[i, j])
    assert front.cost(points) == pytest.approx(truth)


def test_a_question_near_the_goal_leaves_the_far_side_alone_and_the_next_goes_on_from_there() -> None:
    grid = with_wall(0.1)
    front = Wavefront(grid)
    front.set_goal(np.array([-2.0, -1.0]))
    front.cost(np.array([-1.8, -1.0]))
    near = front.closed
    front.cost(np.array([-1.8, -1.0]))
    assert front.closed == near, "asking again costs nothing"
    front.cost(np.array([2.0, -1.0]))
    far = front.closed
    assert near < 0.1 * far
    free = int((grid.clearance > 0).sum())
    assert far <= free
    front.cost(centres(grid))
    assert front.closed == free, "each cell is closed once, whatever was asked"


def test_the_way_leads_through_the_gap() -> None:
    grid = with_wall(0.1)
    front = Wavefront(grid)
    front.set_goal(np.array([-2.0, -1.0]))
    behind, beside = front.cost(np.array([[0.6, -1.0], [-0.6, -1.0]]))
    assert behind > beside + 2 * 20, "20 cells up to the gap and 20 down again"
    path = [np.array([1.05, -0.95])]  # a cell's centre
    while np.linalg.norm(path[-1] - [-2.0, -1.0]) > 0.15 and len(path) < 500:
        ring = path[-1] + 0.1 * np.array([[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)])
        path.append(ring[np.argmin(front.cost(ring))])
    assert max(p[1] for p in path) > 1.0
    assert np.linalg.norm(path[-1] - [-2.0, -1.0]) <= 0.15


def test_a_new_goal_is_answered_from_anew() -> None:
    grid = with_wall()
    front = Wavefront(grid)
    for goal in (np.array([-2.0, -1.0]), np.array([2.0, 1.0])):
        front.set_goal(goal)
        assert front.cost(centres(grid)) == pytest.approx(reference(grid, goal))


def test_where_there_is_no_way_the_answer_says_so() -> None:
    closed = grid_of(BOUNDS, np.stack([FLOOR, box_row(0.0, 0.0, 0.3, 2.5)]), 0.2, (0.2, 2.2))
    front = Wavefront(closed)
    with pytest.raises(PlanningError, match="no goal yet"):
        front.cost(np.zeros(2))
    front.set_goal(np.array([-2.0, 0.0]))
    there, cut_off, inside, off = front.cost(np.array([[-1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [-2.0, 5.0]]))
    assert np.isfinite(there) and np.isinf(cut_off) and np.isinf(inside)
    assert off == pytest.approx(25.0), "off the grid: straight, in cells"
    assert np.isnan(front.cost(np.array([np.nan, 0.0])))
    for goal, reason in ((np.array([0.0, 0.0]), "obstacle"), (np.array([9.0, 0.0]), "off the grid")):
        with pytest.raises(PlanningError, match=reason):
            front.set_goal(goal)
    with pytest.raises(NotANumberError):
        front.set_goal(np.array([np.inf, 0.0]))
    assert np.isfinite(front.cost(np.array([-1.0, 0.0]))), "the old goal stays"


def test_only_what_stands_in_the_way_counts() -> None:
    hanging, standing = box_row(1, 0, 0.5, 0.5, (1.5, 4.0)), box_row(1, 0, 0.5, 0.5)
    turned = box_row(1, 0, 0.9, 0.1, yaw=np.pi / 2)
    free = grid_of(BOUNDS, np.stack([FLOOR, hanging]), 0.1, (0.2, 1.4))
    assert free.clearance.min() > 0.0
    blocked = grid_of(BOUNDS, np.stack([FLOOR, standing]), 0.1, (0.2, 1.4))
    assert (blocked.clearance <= 0).sum() == pytest.approx(100, abs=21)
    upright = grid_of(BOUNDS, np.stack([FLOOR, turned]), 0.1, (0.2, 1.4))
    cell, _ = upright.index(np.array([[1.0, 0.7], [1.7, 0.0]]))
    assert upright.clearance[tuple(cell[0])] < 0.0 < upright.clearance[tuple(cell[1])]
