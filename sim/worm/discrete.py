"""Discrete beam search, a baseline (paper, IV-C): children from a lattice of shapes, no inverse kinematics."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.motion import OK, SAMPLES, attached_well, check_motion, rebuild, sections_hold
from onboard.planning.contact.plan import State
from onboard.planning.contact.search import BlockExpander, Node
from onboard.planning.contact.transition import anchors

LENGTHS = (0.1, 0.5, 0.9)  # share of the extension
CURVATURES = (-0.5, -0.25, 0.0, 0.25, 0.5)  # share of the largest curvature, in the plane of the pad normal
SIDEWAYS = (-0.25, 0.0, 0.25)


class DiscreteExpander:
    """For every mode, the segment next to the link that moves takes each shape of a lattice; the others stay.

    Blocks between two anchors are left as they are: a lattice shape does not close them.
    """

    def __init__(self, blocks: BlockExpander) -> None:
        self._blocks = blocks
        segments = blocks.spec.segments
        span = segments.length_max_m - segments.length_min_m
        self._lattice = np.array(
            [
                (segments.length_min_m + share * span, side * segments.curvature_max_per_m, bend * segments.curvature_max_per_m)
                for share, side, bend in product(LENGTHS, SIDEWAYS, CURVATURES)
            ]
        )

    def again(self, node: Node) -> bool:
        return False

    def children(self, node: Node, counts: NDArray[np.int64], fresh: Callable[[State], bool]) -> list[Node]:
        """See `search.Expander`."""
        state = node.state
        attached = state.attached.astype(bool)
        n, body = len(state.shape), self._blocks.body
        moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
        out: list[Node] = []
        for release in (-1, *np.flatnonzero(attached).tolist()):
            holding = state.attached.copy()
            if release >= 0:
                holding[release] = 0
            if not holding.any() or not sections_hold(body, state.frames, state.shape, holding, moments, bins):
                continue
            if release >= 0 and n + 1 - int(holding.sum()) <= self._blocks.spec.search.max_free:
                still = np.repeat(state.shape[None], SAMPLES + 1, axis=0)
                out.append(self._blocks.node(node, State(state.frames, state.shape, holding), still, release, -1))
            for attach in np.flatnonzero(~attached).tolist():
                if n - int(holding.sum()) <= self._blocks.spec.search.max_free:
                    out += self._landings(node, holding, release, attach)
        return out

    def _landings(self, node: Node, holding: NDArray[np.uint8], release: int, attach: int) -> list[Node]:
        state, body, solids = node.state, self._blocks.body, self._blocks.scene.solids
        low, high = anchors(holding, attach)
        if low >= 0 and high >= 0:
            return []
        n = len(state.shape)
        last = attach - 1 if low >= 0 else attach
        moments, bins, path = np.empty(n), np.empty(n, dtype=np.int64), np.empty((SAMPLES + 1, n, 3))
        after = holding.copy()
        after[attach] = 1
        out: list[Node] = []
        for values in self._lattice:
            shape, frames = state.shape.copy(), np.empty_like(state.frames)
            shape[last] = values
            rebuild(state.frames, shape, low, high, frames)
            if (
                attached_well(body, solids, frames[attach])
                and sections_hold(body, frames, shape, after, moments, bins)
                and check_motion(body, solids, state.frames, state.shape, shape, low, high, holding, path, moments, bins) == OK
            ):
                out.append(self._blocks.node(node, State(frames, shape, after.copy()), path.copy(), release, attach))
        return out
