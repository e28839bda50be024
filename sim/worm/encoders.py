"""Keys to compare the hand-made one with: 16 directions of it, random, of most variance, or learned from what followed.

`learned` is linear: a reduced-rank regression of where the links go during a primitive, seen from its first head frame, on the
hand-made key, so that near keys mean alike motion. It is fitted in closed form from a library alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from onboard.errors import UsageError
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.library import Library
from onboard.planning.contact.motion import rebuild
from onboard.planning.contact.transition import anchors
from onboard.planning.contact.worm import WormSpec

Floats = NDArray[np.float64]
ENCODERS = ("learned", "hand", "random", "pca")
SIZE = 16
RIDGE = 1e-2  # share of the features' variance


def encoded(library: Library, spec: WormSpec, encoder: str) -> Library:
    """The library with its keys, and those of queries, seen through an encoder of ENCODERS."""
    if encoder == "hand":
        return library
    if len(library.keys) < 2 * SIZE:
        raise UsageError(f"encoders need at least {2 * SIZE} primitives, the library has {len(library.keys)}")
    size = library.keys.shape[1]
    if encoder == "random":
        projection = np.random.default_rng(0).standard_normal((size, SIZE)) / np.sqrt(SIZE)
    elif encoder == "pca":
        projection = _axes(library.keys - library.keys.mean(axis=0))
    else:
        projection = _regression(library.keys, followed(library, spec))
    return replace(library, keys=library.keys @ projection, projection=projection)


def followed(library: Library, spec: WormSpec) -> Floats:
    """Link positions after each step of every primitive in its first head frame. Shape (N, 4 * (n + 1) * 3) [m]."""
    n, segments = spec.links.count - 1, spec.segments
    scale = [segments.length_max_m - segments.length_min_m, segments.curvature_max_per_m, segments.curvature_max_per_m]
    out = np.empty((len(library.keys), library.shapes.shape[1], n + 1, 3))
    root = np.eye(3, 4)
    for i, mode in enumerate(library.modes):
        shape = library.keys[i, : 3 * n].reshape(n, 3) * scale + [segments.length_min_m, 0.0, 0.0]
        frames, holding = np.empty((n + 1, 3, 4)), mode.copy()
        chain(root, shape, frames)
        head = frames[-1].copy()
        for k, (released, attached) in enumerate(library.moves[i].tolist()):
            if released >= 0:
                holding[released] = 0
            low, high = anchors(holding, attached if attached >= 0 else released)
            new = np.empty_like(frames)
            rebuild(frames, library.shapes[i, k].copy(), low, high, new)
            frames = new
            if attached >= 0:
                holding[attached] = 1
            out[i, k] = (frames[:, :, 3] - head[:, 3]) @ head[:, :3]
    return out.reshape(len(out), -1)


def _axes(centred: Floats) -> Floats:
    """The SIZE directions of most variance. Shape (D, SIZE)."""
    axes: Floats = np.linalg.svd(centred, full_matrices=False)[2][:SIZE].T
    return axes


def _regression(features: Floats, motion: Floats) -> Floats:
    """Rank-SIZE linear map (D, SIZE) from features (N, D) to the main directions of the motion (N, M) they predict."""
    x, y = features - features.mean(axis=0), motion - motion.mean(axis=0)
    normal = x.T @ x
    weights = np.linalg.solve(normal + RIDGE * np.trace(normal) / len(normal) * np.eye(len(normal)), x.T @ y)
    projection: Floats = weights @ _axes(x @ weights)
    return projection
