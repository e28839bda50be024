"""Primitive-augmented expansion (paper, III-B): replay what once worked here, mend what fails, else search.

Two tiers (ours): the nearest primitives are first replayed with every check and no inverse kinematics; only where
nothing new comes of it are the best of them mended, solving anew just the steps that fail. What both leave empty is
expanded by block-wise inverse kinematics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.closure import project_closure
from onboard.planning.contact.library import Library, key
from onboard.planning.contact.motion import OK, SAMPLES, attached_well, check_motion, rebuild, sections_hold
from onboard.planning.contact.plan import State
from onboard.planning.contact.search import BlockExpander, Node
from onboard.planning.contact.transition import anchors, transition

Floats = NDArray[np.float64]
NEIGHBOURS, MENDED, ENOUGH = 50, 10, 6


@dataclass
class RetrievalCounts:
    """How often each tier gave children: queries = replayed + mended + searched."""

    queries: int = 0
    replayed: int = 0
    mended: int = 0
    searched: int = 0

    @property
    def hit_pct(self) -> float:
        """Share of queries that primitives answered [%]."""
        return 100.0 * (self.replayed + self.mended) / max(self.queries, 1)


class PrimitiveExpander:
    """Children from a primitive library, with block-wise search where it has none.

    mend and fall_back switch the second tier and the search off, for comparisons.
    """

    def __init__(self, search: BlockExpander, library: Library, *, mend: bool = True, fall_back: bool = True) -> None:
        self._search, self._library, self._mend, self._fall_back = search, library, mend, fall_back
        self.counts = RetrievalCounts()

    def children(self, node: Node, counts: NDArray[np.int64], fresh: Callable[[State], bool]) -> list[Node]:
        """See `search.Expander`; a node opened a second time goes straight to the search."""
        if node.opened == 0:
            self.counts.queries += 1
            search = self._search
            wanted = key(search.spec, search.guide, node.state)
            nearest = self._library.nearest(wanted, node.state.attached, NEIGHBOURS)
            found = self._run(node, nearest, counts, fresh, mend=False)
            if found:
                self.counts.replayed += 1
                return found
            if self._mend:
                found = self._run(node, nearest[:MENDED], counts, fresh, mend=True)
                if found:
                    self.counts.mended += 1
                    return found
            self.counts.searched += 1
        return self._search.children(node, counts, fresh) if self._fall_back else []

    def again(self, node: Node) -> bool:
        """Whether a node that primitives answered should be kept for the search to open."""
        return self._fall_back and node.opened == 0

    def optimised(self, node: Node, index: int, counts: NDArray[np.int64]) -> Node | None:
        """The node after a primitive whose every landing is solved anew; None where a step of it fails."""
        now = node
        for (released, attached), shape in zip(self._library.moves[index].tolist(), self._library.shapes[index], strict=True):
            if attached >= 0:
                step = self._solve(now.state, released, attached, shape, counts)
            else:
                step = self._replay(now.state, released, attached, shape)
            if step is None:
                return None
            now = self._search.node(now, *step, released, attached)
        return now

    def _run(
        self, node: Node, primitives: NDArray[np.int64], counts: NDArray[np.int64], fresh: Callable[[State], bool], *, mend: bool
    ) -> list[Node]:
        """The last nodes of those primitives that lead somewhere new."""
        out: list[Node] = []
        for index in primitives:
            now = node
            for (released, attached), shape in zip(self._library.moves[index].tolist(), self._library.shapes[index], strict=True):
                step = self._replay(now.state, released, attached, shape)
                if step is None and mend:
                    step = self._solve(now.state, released, attached, shape, counts)
                if step is None:
                    break
                now = self._search.node(now, *step, released, attached)
            if now is not node and now.mean_m > node.mean_m and fresh(now.state):
                out.append(now)
                if len(out) >= ENOUGH:
                    break
        return out

    def _shaped(
        self, state: State, released: int, attached: int, shape: Floats
    ) -> tuple[State, NDArray[np.uint8], int, int] | None:
        """The state after the primitive's shape is put on the block that moves; None where it cannot be."""
        holding = state.attached.copy()
        if released >= 0:
            if not holding[released]:
                return None
            holding[released] = 0
        if not holding.any() or (attached >= 0 and state.attached[attached]):
            return None
        low, high = anchors(holding, attached if attached >= 0 else released)
        first, last = max(low, 0), high if high >= 0 else len(state.shape)
        new_shape, frames = state.shape.copy(), np.empty_like(state.frames)
        new_shape[first:last] = shape[first:last]
        after = holding.copy()
        if attached >= 0:
            after[attached] = 1
        if low >= 0 and high >= 0:
            scratch = np.empty((last - first + 1, 3, 4))
            if not project_closure(self._search.body, state.frames[low], new_shape[first:last], state.frames[high], scratch):
                return None
        rebuild(state.frames, new_shape, low, high, frames)
        return State(frames, new_shape, after), holding, low, high

    def _replay(self, state: State, released: int, attached: int, shape: Floats) -> tuple[State, Floats] | None:
        """One step of a primitive as it was stored, fully checked."""
        shaped = self._shaped(state, released, attached, shape)
        if shaped is None:
            return None
        end, holding, low, high = shaped
        body, solids, n = self._search.body, self._search.scene.solids, len(state.shape)
        if attached >= 0 and not attached_well(body, solids, end.frames[attached]):
            return None
        moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
        if not sections_hold(body, end.frames, end.shape, end.attached, moments, bins):
            return None
        path = np.empty((SAMPLES + 1, n, 3))
        if check_motion(body, solids, state.frames, state.shape, end.shape, low, high, holding, path, moments, bins) != OK:
            return None
        return end, path

    def _solve(
        self, state: State, released: int, attached: int, shape: Floats, counts: NDArray[np.int64]
    ) -> tuple[State, Floats] | None:
        """One step solved anew: the pad aims at the surface next to where the stored shape would put it."""
        shaped = self._shaped(state, released, attached, shape)
        if shaped is None or attached < 0:
            return None
        end, holding, _, _ = shaped
        search, n = self._search, len(state.shape)
        frame = end.frames[attached]
        pad = frame[:, 3] - search.spec.pads.offset_m * frame[:, 0]
        normal = search.scene.gradient(pad)
        ahead = frame[:, 2] - normal * (frame[:, 2] @ normal)
        size = float(np.linalg.norm(ahead))
        if size < 0.3:
            return None
        ahead /= size
        place = pad - normal * search.scene.distance(pad) + normal * search.spec.pads.offset_m
        target = np.column_stack([normal, np.cross(ahead, normal), ahead, place])
        frames, new_shape, path = np.empty_like(state.frames), np.empty((n, 3)), np.empty((SAMPLES + 1, n, 3))
        reason = transition(
            search.body, search.weights, search.scene.solids, state.frames, state.shape, holding, attached, True, target,
            frames, new_shape, path, counts,
        )  # fmt: skip
        return (State(frames, new_shape, end.attached), path) if reason == OK else None
