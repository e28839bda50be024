"""A start must itself be legal: which constraint a state breaks, named for the person who gave it."""

from __future__ import annotations

import numpy as np

from onboard.errors import NotANumberError, PlanningError
from onboard.planning.contact.body import Record
from onboard.planning.contact.motion import ARC_POINTS, OK, SELF, attached_well, free_space, sections_hold
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import Scene


def check_start(body: Record, scene: Scene, state: State) -> None:
    """Raises PlanningError naming the broken constraint, NotANumberError for values that are not finite."""
    n = len(state.shape)
    if state.frames.shape != (n + 1, 3, 4) or state.attached.shape != (n + 1,):
        raise PlanningError(f"a start of {n} segments needs frames of shape {(n + 1, 3, 4)}, not {state.frames.shape}")
    if not (np.all(np.isfinite(state.frames)) and np.all(np.isfinite(state.shape))):
        raise NotANumberError("the start holds values that are not finite")
    if not state.attached.any():
        raise PlanningError("the start has no anchor: at least one pad must be attached")
    for link in np.flatnonzero(state.attached):
        if not attached_well(body, scene.solids, state.frames[link]):
            raise PlanningError(f"the start has no legal anchor at link {link}: its pad is not on a surface (adhesion)")
    reason = free_space(body, scene.solids, state.frames, state.shape, np.empty((n * (ARC_POINTS + 1) + 1, 3)))
    if reason == SELF:
        raise PlanningError("the start intersects itself (self-collision)")
    if reason != OK:
        raise PlanningError("the start touches the scene where it must not (collision)")
    moments, bins = np.empty(n), np.empty(n, dtype=np.int64)
    if not sections_hold(body, state.frames, state.shape, state.attached, moments, bins):
        raise PlanningError("a segment of the start cannot hold its shape under its load (load and deformation)")
