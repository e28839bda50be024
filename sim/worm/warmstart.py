"""Primitive-warmstarted trajectory optimisation, a baseline (paper, IV-C): long stretches of solved primitives, no branching.

The paper names the method and no more; this is our reading of it. Retrieved primitives, one after another, are the warm
start of a stretch of up to STRETCH windows. Adhesion is chosen window by window: the cheapest of the candidates whose
landings all come out of the inverse kinematics. The stretch becomes one child of the search, which backs up where it ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.library import Library, key
from onboard.planning.contact.plan import State
from onboard.planning.contact.retrieval import NEIGHBOURS, PrimitiveExpander
from onboard.planning.contact.search import BlockExpander, Node

STRETCH = 4  # windows optimised together
COMPARED = 5  # windows that come out, of which the cheapest is taken
DEFORMATION = 0.002  # progress that one unit of mean deformation is worth [m]
OPENINGS = 3  # times a node is opened, each time without the first windows taken before


class WarmstartExpander:
    """One child a node: the end of an optimised stretch."""

    def __init__(self, blocks: BlockExpander, library: Library) -> None:
        self._blocks, self._library = blocks, library
        self.primitives = PrimitiveExpander(blocks, library, fall_back=False)
        self._taken: dict[int, tuple[Node, set[int]]] = {}  # keeps its nodes: their ids must stay theirs

    def again(self, node: Node) -> bool:
        return node.opened < OPENINGS - 1

    def children(self, node: Node, counts: NDArray[np.int64], fresh: Callable[[State], bool]) -> list[Node]:
        """See `search.Expander`."""
        counted = self.primitives.counts
        counted.queries += 1
        taken = self._taken.setdefault(id(node), (node, set()))[1]
        now = node
        for window in range(STRETCH):
            best = self._cheapest(now, taken if window == 0 else set(), counts, fresh)
            if best is None:
                break
            index, now = best
            if window == 0:
                taken.add(index)
        if now is node:
            counted.searched += 1
            return []
        counted.mended += 1
        return [now]

    def _cheapest(
        self, node: Node, taken: set[int], counts: NDArray[np.int64], fresh: Callable[[State], bool]
    ) -> tuple[int, Node] | None:
        """Of the first windows that come out whole, the one with most progress for its deformation."""
        wanted = key(self._blocks.spec, self._blocks.guide, node.state)
        best: tuple[float, int, Node] | None = None
        found = 0
        for index in self._library.nearest(wanted, node.state.attached, NEIGHBOURS).tolist():
            end = None if index in taken else self.primitives.optimised(node, index, counts)
            if end is None or end.mean_m <= node.mean_m or not fresh(end.state):
                continue
            cost = DEFORMATION * end.deformation - (end.progress_m - node.progress_m)
            if best is None or cost < best[0]:
                best = (cost, index, end)
            found += 1
            if found >= COMPARED:
                break
        return None if best is None else (best[1], best[2])
