"""Block-wise IK hybrid search (paper, III-A4): best-first over contact modes, every child validated before it counts."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onboard.clock import Clock
from onboard.planning.contact.body import Record, make_body, make_weights
from onboard.planning.contact.expansion import COUNTS, MODE_LOAD, expand, measure
from onboard.planning.contact.guide import Guide, check_goal, make_guide
from onboard.planning.contact.motion import REASONS
from onboard.planning.contact.plan import Plan, State, Step
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.start import check_start
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
ROUNDING_M = 0.015  # two nodes of one mode whose links agree to this are one
# the score counts the head's and the tail's progress, and for the rest the links' mean: a head that runs ahead of a
# tail it cannot pull any more is the search's commonest dead end
HEAD, TAIL = 0.5, 0.0
NOMINAL_M = 0.02  # progress a step that counts as going well
RECENT = 4  # steps over which progress is called recent
ALPHA = (0.1, 1.0)
RESERVE = 0.03  # score that children beyond the beam lose
AGAIN = 0.05  # score a node loses before it is opened a second time


@dataclass
class Node:
    """A state in the tree. head_m, mean_m: along the guide [m]; progress_m: what the score counts [m]."""

    state: State
    path: Floats | None
    released: int
    attached: int
    parent: Node | None
    depth: int
    head_m: float
    mean_m: float
    progress_m: float
    deformation: float
    score: float = 0.0
    opened: int = 0


class Expander(Protocol):
    """Where children come from: the search below asks it for every node it opens."""

    def children(self, node: Node, counts: NDArray[np.int64], fresh: Callable[[State], bool]) -> list[Node]:
        """Validated descendants of a node; counts (COUNTS,) gathers solver calls and refusals, `fresh` tells new states."""

    def again(self, node: Node) -> bool:
        """Whether a node that has just been opened may be opened once more, later."""


class Progress(Protocol):
    """Told how far the search is, for progress bars."""

    def __call__(self, share: float, expansions: int) -> None: ...


class BlockExpander:
    """Children by block-wise inverse kinematics towards targets on the guide."""

    def __init__(self, spec: WormSpec, body: Record, weights: Record, scene: Scene, guide: Guide) -> None:
        self.spec, self.body, self.weights, self.scene, self.guide = spec, body, weights, scene, guide

    def again(self, node: Node) -> bool:
        return False

    def children(self, node: Node, counts: NDArray[np.int64], fresh: Callable[[State], bool]) -> list[Node]:
        numbers = self.spec.search
        found = expand(self.body, self.weights, self.scene, self.guide, node.state, numbers, counts)
        return [self.node(node, *child) for child in found]

    def node(self, parent: Node | None, state: State, path: Floats | None, released: int, attached: int) -> Node:
        """The node of one checked step; the start has neither parent nor path."""
        numbers = self.spec.search
        m = measure(self.body, self.guide, state, numbers.extension, numbers.bending)
        head_m = m.head_m - numbers.lateral * m.lateral_m
        progress_m = HEAD * head_m + TAIL * m.tail_m + (1.0 - HEAD - TAIL) * m.mean_m
        depth = 0 if parent is None else parent.depth + 1
        return Node(state, path, released, attached, parent, depth, head_m, m.mean_m, progress_m, m.deformation)


def search(
    spec: WormSpec,
    scene: Scene,
    start: State,
    goal: Floats,
    clock: Clock,
    *,
    budget_s: float | None = None,
    guide: Guide | None = None,
    expand_with: Callable[[BlockExpander], Expander] | None = None,
    progress: Progress | None = None,
    start_body: Record | None = None,
) -> Plan:
    """A plan from `start` until the head is within the goal radius, or the best part of one and the reason.

    start_body judges the start in place of the worm's own tolerances, where the start was measured rather than planned.

    Raises:
        PlanningError: the start or the goal is illegal (names the constraint), or no guide exists.
    """
    body, weights = make_body(spec), make_weights(spec)
    check_goal(scene, spec, goal)
    check_start(body if start_body is None else start_body, scene, start)
    began = clock.now_s()
    if guide is None:
        guide = make_guide(scene, spec, start.frames[:, :, 3], goal)
    guide_s = clock.now_s() - began
    blocks = BlockExpander(spec, body, weights, scene, guide)
    expander: Expander = blocks if expand_with is None else expand_with(blocks)
    numbers = spec.search
    limit = numbers.budget_s if budget_s is None else budget_s
    counts = np.zeros(COUNTS, dtype=np.int64)
    root = blocks.node(None, start, None, -1, -1)
    length = max(guide.along[-1] - root.head_m, 1e-6)
    visits: Counter[str] = Counter()
    seen = {_key(start)}
    queue: list[tuple[float, int, Node]] = [(0.0, 0, root)]
    best, expansions, pushed, reason = root, 0, 0, "no transition is left to try"
    began = clock.now_s()
    reached = _at_goal(root, goal, numbers.goal_radius_m)
    while queue and not reached:
        if clock.now_s() - began > limit:
            reason = f"the time budget of {limit:g} s is used up"
            break
        if expansions >= numbers.max_expansions:
            reason = f"the budget of {numbers.max_expansions} expansions is used up"
            break
        node = heapq.heappop(queue)[2]
        expansions += 1
        visits[node.state.mode] += 1
        children = expander.children(node, counts, lambda state: _key(state) not in seen)
        if children and expander.again(node):
            pushed += 1
            heapq.heappush(queue, (AGAIN - node.score, pushed, node))
        node.opened += 1
        for child in children:
            child.score = _score(spec, root, length, child, visits)
        kept = 0
        for child in sorted(children, key=lambda c: -c.score):
            key = _key(child.state)
            if key in seen:
                continue
            seen.add(key)
            pushed += 1
            kept += 1
            if kept > numbers.children:  # the beam goes first; the rest waits for when it leads nowhere
                child.score -= RESERVE
            heapq.heappush(queue, (-child.score, pushed, child))
            if child.head_m > best.head_m:
                best = child
                if progress is not None:
                    progress(min(1.0, max(0.0, (best.head_m - root.head_m) / length)), expansions)
            if _at_goal(child, goal, numbers.goal_radius_m):
                best, reached = child, True
                break
    statistics = {
        "planning_s": clock.now_s() - began,
        "guide_s": guide_s,
        "expansions": expansions,
        "nodes": pushed,
        "ik_calls": int(counts[0]),
        "ik_iterations": int(counts[1]),
        "rejected": {name: int(counts[2 + i]) for i, name in enumerate(REASONS) if i} | {"mode_load": int(counts[MODE_LOAD])},
    }
    return make_plan(spec, scene, start, goal, best, reached, "" if reached else reason, statistics)


def make_plan(
    spec: WormSpec, scene: Scene, start: State, goal: Floats, last: Node, complete: bool, reason: str, extra: dict[str, Any]
) -> Plan:
    """The plan that ends in `last`. Its deformation is the sum over its steps."""
    chain: list[Node] = []
    node: Node | None = last
    while node is not None and node.parent is not None:
        chain.append(node)
        node = node.parent
    chain.reverse()
    steps = tuple(Step(n.path, n.state, n.released, n.attached) for n in chain if n.path is not None)
    deformation = float(sum(n.deformation for n in chain))
    return Plan(
        spec.robot.name, spec.body_hash, scene.name, start, np.asarray(goal, dtype=np.float64), steps, complete, reason,
        deformation, extra,
    )  # fmt: skip


def _key(state: State) -> bytes:
    rounded = np.round(state.frames[:, :, 3] / ROUNDING_M).astype(np.int16)
    return state.attached.tobytes() + rounded.tobytes()


def _at_goal(node: Node, goal: Floats, radius: float) -> bool:
    return bool(np.linalg.norm(node.state.frames[-1, :, 3] - goal) <= radius)


def _score(spec: WormSpec, root: Node, length: float, node: Node, visits: Counter[str]) -> float:
    """Progress less deformation and steps, plus exploration (paper, eq. 11)."""
    numbers = spec.search
    before: Node = node
    for _ in range(RECENT):
        if before.parent is None:
            break
        before = before.parent
    taken = max(node.depth - before.depth, 1)
    alpha = min(max((node.mean_m - before.mean_m) / (taken * NOMINAL_M), ALPHA[0]), ALPHA[1])
    gain = (node.progress_m - root.progress_m) / length
    exploration = numbers.exploration / np.sqrt(1.0 + visits[node.state.mode])
    return float(gain - numbers.deformation * alpha * node.deformation - numbers.step * node.depth + exploration)
