"""All children of one search node: modes, targets along the guide, transitions, and why the others were refused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.body import Record
from onboard.planning.contact.compiled import jit
from onboard.planning.contact.guide import Guide
from onboard.planning.contact.motion import OK, REACH, REASONS, SAMPLES, sections_hold
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.transition import anchors, transition
from onboard.planning.contact.worm import SearchNumbers

Floats = NDArray[np.float64]
DISTANCES, LATERALS, HOVERS = 8, 3, 3
LIFT_M = 0.02  # height of hovering poses above where the pad would attach
# where along the guide a link may go, per segment from its anchor [m] (reference measurement): ahead, behind
AHEAD_M = np.linspace(0.14, 0.055, DISTANCES)
FAR_AHEAD_M = np.minimum(AHEAD_M, 0.13)  # more than one segment from the anchor: no bend takes all of them straight
BEHIND_M = np.linspace(0.05, 0.13, DISTANCES)
BETWEEN_M = 0.01 * np.array([0, 1, -1, 2, -2, 3, -3, 4])  # about the middle, for a link between two anchors
MISSES = 8  # a mode whose first targets all fail is given up
COUNTS = 3 + len(REASONS)  # IK calls, IK iterations, one count per reason of motion.REASONS, modes refused for load
MODE_LOAD = COUNTS - 1


class Child(NamedTuple):
    """One validated transition: state, path (SAMPLES + 1, n, 3), link released and link attached (-1: none)."""

    state: State
    path: Floats
    released: int
    attached: int


def expand(
    body: Record, weights: Record, scene: Scene, guide: Guide, state: State, numbers: SearchNumbers, counts: NDArray[np.int64]
) -> list[Child]:
    """Children of a state: at most `top` for every way to release one pad, attach one, or both.

    `max_free` pads may hang free after a step, and `min_holding` pads hold all through it. counts (COUNTS,) grows by the
    solver's calls and by every refusal.
    """
    top, max_free = numbers.top, numbers.max_free
    attached = state.attached.astype(bool)
    links, n, held = len(attached), len(state.shape), int(attached.sum())
    where = [project(guide.line, guide.along, *state.frames[i, :, 3])[0] for i in range(links)]
    moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
    children: list[Child] = []
    for release in (-1, *np.flatnonzero(attached).tolist()):
        holding = state.attached.copy()
        if release >= 0:
            holding[release] = 0
        if holding.sum() < numbers.min_holding:
            continue
        if not sections_hold(body, state.frames, state.shape, holding, moments, bins):
            counts[MODE_LOAD] += 1
            continue
        for attach in (-1, *np.flatnonzero(~attached).tolist()):
            free = links - held + (release >= 0) - (attach >= 0)
            if (release < 0 and attach < 0) or free > max_free:
                continue
            if attach < 0:  # let go and stay
                still = np.repeat(state.shape[None], SAMPLES + 1, axis=0)
                children.append(Child(State(state.frames, state.shape, holding), still, release, -1))
            children += _moves(body, weights, scene, guide, state, holding, where, release, attach, top, counts)
    return children


def _moves(
    body: Record, weights: Record, scene: Scene, guide: Guide, state: State, holding: NDArray[np.uint8], where: list[float],
    release: int, attach: int, top: int, counts: NDArray[np.int64],
) -> list[Child]:  # fmt: skip
    """Transitions that move one link: to attach it, or to let it hover above where it could attach."""
    link = attach if attach >= 0 else release
    low, high = anchors(holding, link)
    frames, shape = np.empty_like(state.frames), np.empty_like(state.shape)
    path = np.empty((SAMPLES + 1, *state.shape.shape))
    out: list[Child] = []
    places = _places(low, high, link, where)
    tries = [(place, lateral) for lateral in range(LATERALS) for place in places]
    if attach < 0:
        tries = [(place, 0) for place in places[: 2 * HOVERS : 2]]
    misses = 0
    for place, lateral in tries:
        if lateral and out:
            break
        index = round(place / guide.along[1])
        if not 0 <= index < len(guide.line) or not guide.valid[index, lateral]:
            counts[2 + REACH] += 1
            continue
        target = guide.targets[index, lateral]
        if attach < 0:
            target = target.copy()
            target[:, 3] += LIFT_M * target[:, 0]
        solved = counts[0]
        reason = transition(
            body, weights, scene.solids, state.frames, state.shape, holding, link, attach >= 0, target, frames, shape, path,
            counts,
        )  # fmt: skip
        counts[2 + reason] += 1
        if reason != OK:
            misses += counts[0] > solved
            if misses >= MISSES:
                break
            continue
        after = holding.copy()
        if attach >= 0:
            after[attach] = 1
        out.append(Child(State(frames.copy(), shape.copy(), after), path.copy(), release, attach))
        if len(out) >= top:
            break
    return out


def _places(low: int, high: int, link: int, where: list[float]) -> Floats:
    """Arc lengths to try for a link between anchors `low` and `high`, the one with most progress first."""
    if high < 0:
        ahead: Floats = where[low] + (link - low) * (AHEAD_M if link - low == 1 else FAR_AHEAD_M)
        return ahead
    if low < 0:
        behind: Floats = where[high] - (high - link) * BEHIND_M
        return behind
    middle = where[low] + (where[high] - where[low]) * (link - low) / (high - low)
    between: Floats = middle + BETWEEN_M
    return between


@jit
def project(line, along, point_x, point_y, point_z):  # type: ignore[no-untyped-def]
    """Arc length [m] of a point's projection on the guide's line (S, 3), and its distance [m] from the line."""
    best, index = np.inf, 0
    for i in range(line.shape[0]):
        dx, dy, dz = point_x - line[i, 0], point_y - line[i, 1], point_z - line[i, 2]
        d = dx * dx + dy * dy + dz * dz
        if d < best:
            best, index = d, i
    low, high = max(index - 1, 0), min(index + 1, line.shape[0] - 1)
    ux, uy, uz = line[high, 0] - line[low, 0], line[high, 1] - line[low, 1], line[high, 2] - line[low, 2]
    size = np.sqrt(ux * ux + uy * uy + uz * uz) + 1e-12
    dx, dy, dz = point_x - line[index, 0], point_y - line[index, 1], point_z - line[index, 2]
    shift = (ux * dx + uy * dy + uz * dz) / size
    s = min(max(along[index] + shift, along[low]), along[high])
    return s, np.sqrt(max(best - shift * shift, 0.0))


class Measure(NamedTuple):
    """Arc lengths of head, tail and the links' mean on the guide [m], head's distance from it [m], deformation."""

    head_m: float
    tail_m: float
    mean_m: float
    lateral_m: float
    deformation: float


def measure(body: Record, guide: Guide, state: State, extension: float, bending: float) -> Measure:
    """Progress and deformation, (1/n) sum(extension * rho + bending * |theta|^2), of a state."""
    along = [project(guide.line, guide.along, frame[0, 3], frame[1, 3], frame[2, 3]) for frame in state.frames]
    rho = (state.shape[:, 0] - body["length_min"]) / body["length_span"]
    angle = state.shape[:, 0] ** 2 * (state.shape[:, 1] ** 2 + state.shape[:, 2] ** 2)
    deformation = float(np.mean(extension * rho + bending * angle))
    mean = sum(s for s, _ in along) / len(along)
    return Measure(along[-1][0], along[0][0], mean, along[-1][1], deformation)
