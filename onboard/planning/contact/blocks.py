"""Adhesion splits the body into blocks; one interface to solve a block, whichever solver stands behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onboard.errors import PlanningError
from onboard.planning.contact.body import make_body, make_weights
from onboard.planning.contact.ik import solve_block
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
ON_TARGET_M = 0.002  # a solution this close is not tried from another start
_RANK = (0, 3, 5, 6)  # dimension of the set of poses that 0, 1, 2, 3 or more segments reach


@dataclass(frozen=True)
class Block:
    """A maximal run of segments between attached links `low` and `high`; -1 where the body ends without an anchor."""

    low: int
    high: int
    segments: int

    @property
    def kind(self) -> str:
        """ "inner" with two anchors, "head" or "tail" with one."""
        if self.low >= 0 and self.high >= 0:
            return "inner"
        return "head" if self.low >= 0 else "tail"

    @property
    def freedom(self) -> int:
        """Dimensions of motion left while the anchors stay."""
        if self.kind != "inner":
            return 3 * self.segments
        return 3 * self.segments - _RANK[min(self.segments, 3)]


def decompose(attached: NDArray[np.uint8]) -> list[Block]:
    """The blocks of a mode, tail first (paper, III-A2); PlanningError when no pad is attached."""
    anchors = [int(i) for i in np.flatnonzero(attached)]
    if not anchors:
        raise PlanningError("no pad is attached: the body has no anchor")
    last = len(attached) - 1
    blocks = [Block(-1, anchors[0], anchors[0])] if anchors[0] > 0 else []
    blocks += [Block(a, b, b - a) for a, b in pairwise(anchors)]
    if anchors[-1] < last:
        blocks.append(Block(anchors[-1], -1, last - anchors[-1]))
    return blocks


@dataclass(frozen=True)
class BlockProblem:
    """Bring link `link` (1..n) of a chain to `target`, under frozen sections; `closure` holds the chain's end.

    root (3, 4); start (n, 3) rows (L, kx, ky); matrix (n, F, 3) and bound (n, F) sections in (rho, cx, cy);
    target (3, 4); closure (3, 4) or None.
    """

    root: Floats
    start: Floats
    matrix: Floats
    bound: Floats
    link: int
    target: Floats
    closure: Floats | None = None


@dataclass(frozen=True)
class BlockSolution:
    """shape (n, 3), frames (n + 1, 3, 4), the loss reached (inf: the sections are empty) and iterations used."""

    shape: Floats
    frames: Floats
    loss: float
    iterations: int


class BlockSolver(Protocol):
    """A solver of block problems."""

    def solve(self, problem: BlockProblem) -> BlockSolution: ...


class CompiledSolver:
    """The planner's own interior-point Levenberg-Marquardt, begun again elsewhere where it ends off the target."""

    def __init__(self, spec: WormSpec, scene: Scene) -> None:
        self._body, self._weights, self._solids = make_body(spec), make_weights(spec), scene.solids
        middle = 0.5 * (spec.segments.length_min_m + spec.segments.length_max_m)
        bend = 0.4 * spec.segments.curvature_max_per_m
        self._others = [(middle, 0.0, bend), (middle, 0.0, -bend), (middle, bend, 0.0), (middle, -bend, 0.0)]

    def solve(self, problem: BlockProblem) -> BlockSolution:
        n = len(problem.start)
        best: BlockSolution | None = None
        starts = [problem.start, *(np.tile(other, (n, 1)) for other in self._others[: 1 + int(self._weights["restarts"])])]
        spent = 0
        for start in starts:
            shape, frames = np.empty((n, 3)), np.empty((n + 1, 3, 4))
            closure = problem.root if problem.closure is None else problem.closure
            used, loss = solve_block(
                self._body, self._weights, self._solids, problem.root, start, problem.matrix, problem.bound,
                problem.link, problem.target, problem.closure is not None, closure, shape, frames,
            )  # fmt: skip
            spent += int(used)
            if best is None or loss < best.loss:
                best = BlockSolution(shape, frames, float(loss), spent)
            if np.linalg.norm(frames[problem.link, :, 3] - problem.target[:, 3]) < ON_TARGET_M:
                break
        assert best is not None
        return replace(best, iterations=spent)
